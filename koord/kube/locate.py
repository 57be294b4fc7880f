"""Which cluster is meant: the files and variables that kubectl would look at, in its order.

1. the file asked for (`--kubeconfig`), which must exist; 2. the files of $KUBECONFIG, merged, missing ones skipped;
3. ~/.kube/config; 4. where those give nothing, the service account of the pod that this runs in.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from koord.kube.cluster_config import ClusterConfig, ConfigError
from koord.kube.kubeconfig import Kubeconfig, merge, parse, resolve

SERVICE_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"


def locate(
    path: str | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: str = SERVICE_ACCOUNT,
) -> ClusterConfig:
    """The cluster to talk to, and the credentials."""
    if path:
        return resolve(_read(path, missing_ok=False), context)
    listed = [name for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    # A variable that is set stands for itself, even where none of its files exists.
    files = listed or [str(Path(environ.get("HOME") or "~").expanduser() / ".kube" / "config")]
    merged = merge(_read(name, missing_ok=True) for name in files)
    if not merged.is_empty:
        return resolve(merged, context)
    if context is None and (own := in_cluster(environ, service_account)) is not None:
        return own
    looked_at = ", ".join(files)
    raise ConfigError(
        f"no cluster is configured: {'$KUBECONFIG' if listed else 'the default file'} ({looked_at}) "
        "has nothing, and this is not a pod with a service account; give --kubeconfig FILE or set KUBECONFIG"
    )


def in_cluster(environ: Mapping[str, str] = os.environ, service_account: str = SERVICE_ACCOUNT) -> ClusterConfig | None:
    """The cluster whose pod this is, or None. The token is read again after each rotation."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    folder = Path(service_account)
    if not host or not port or not (folder / "token").is_file():
        return None
    ca_file = folder / "ca.crt"
    namespace = environ.get("POD_NAMESPACE") or _text(folder / "namespace") or "default"
    return ClusterConfig(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        namespace=namespace,
        origin="service account",
        ca_file=str(ca_file) if ca_file.is_file() else "",
        token_file=str(folder / "token"),
    )


def _read(path: str, *, missing_ok: bool) -> Kubeconfig:
    try:
        return parse(Path(path).read_text(encoding="utf-8"), path)
    except FileNotFoundError:
        if missing_ok:
            return Kubeconfig("", {}, {}, {})
        raise ConfigError(f"{path}: the file does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise ConfigError(f"{path}: {reason}") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
