"""The servers that the API benchmark compares: the embedded one, and kube-apiserver with etcd where they are installed.

Each runs in processes of its own on loopback with TLS, RBAC and durable storage, in a directory that goes with it.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from koord.kube.cluster_config import ClusterConfig
from koord.kube.kubeconfig import parse, resolve
from koord.kube.program import own_program
from koord_bench.children import cpu_s, rss_mb, running, wait_until
from koord_minicluster.apiserver import certs

ASSETS = "/usr/local/kubebuilder/bin"
MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that answers."""

    config: ClusterConfig
    start_s: float
    "From the start of its first process until it said that it was ready."
    processes: tuple[subprocess.Popen[bytes], ...]
    kubeconfig: Path
    "An administrator's."

    def rss_mb(self) -> float:
        return sum(rss_mb(process.pid) for process in self.processes)

    def cpu_s(self) -> float:
        """CPU seconds of all threads of its processes."""
        return sum(cpu_s(process.pid) for process in self.processes)


def find_binary(name: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Where a binary of the real control plane is, or None."""
    for folder in (environ.get("KUBEBUILDER_ASSETS"), ASSETS):
        if folder and os.access(path := Path(folder, name), os.X_OK):
            return path
    path_of = shutil.which(name)
    return Path(path_of) if path_of else None


def versions(*names: str) -> str:
    """What is installed of these, as in `kube-apiserver v1.35.0, etcd 3.6.1`."""
    return ", ".join(_version(name, binary) for name in names if (binary := find_binary(name)))


def _version(name: str, binary: Path) -> str:
    output = subprocess.run([str(binary), "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    version = re.search(r"v?\d+\.\d+\.\d+\S*", output)
    return f"{name} {version.group() if version else 'of unknown version'}"


@contextmanager
def embedded() -> Iterator[RunningServer]:
    with _directory() as directory:
        started, log = time.perf_counter(), directory / "log"
        with running([*own_program(), "apiserver", "--data-dir", str(directory / "data")], log) as process:
            kubeconfig = directory / "data" / "kubeconfig"
            wait_until(kubeconfig.exists, process, log)
            config = resolve(parse(kubeconfig.read_text(), str(kubeconfig)))
            wait_until(lambda: _ready(config), process, log)
            yield RunningServer(config, time.perf_counter() - started, (process,), kubeconfig)


@contextmanager
def real() -> Iterator[RunningServer | None]:
    """etcd with its normal durability and kube-apiserver; None where they are not installed."""
    etcd, apiserver = find_binary("etcd"), find_binary("kube-apiserver")
    if etcd is None or apiserver is None:
        yield None
        return
    with _directory() as directory:
        ports, log = free_ports(3), directory / "log"
        url = f"https://127.0.0.1:{ports[2]}"
        kubeconfig = _credentials(directory, url)
        started = time.perf_counter()
        client, peer = f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"
        storage_command = [
            str(etcd),
            "--name=default",
            f"--data-dir={directory}/etcd",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=error",
        ]
        server_command = [
            str(apiserver),
            f"--etcd-servers={client}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={ports[2]}",
            f"--cert-dir={directory}",
            f"--client-ca-file={directory}/ca.crt",
            f"--tls-cert-file={directory}/apiserver.crt",
            f"--tls-private-key-file={directory}/apiserver.key",
            f"--service-account-issuer={url}",
            f"--service-account-key-file={directory}/sa.pub",
            f"--service-account-signing-key-file={directory}/sa.key",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            # Without a controller manager no namespace gets its service account.
            "--disable-admission-plugins=ServiceAccount",
        ]
        with (
            running(storage_command, log, cwd=directory) as storage,
            running(server_command, log, cwd=directory) as server,
        ):
            config = resolve(parse(kubeconfig.read_text(), str(kubeconfig)))
            wait_until(lambda: _ready(config), server, log)
            yield RunningServer(config, time.perf_counter() - started, (server, storage), kubeconfig)


def _credentials(directory: Path, url: str) -> Path:
    """Everything that the real server reads at its start; gives an administrator's kubeconfig."""
    authority = certs.Authority.open(directory)
    authority.server()
    signing = certs.signing_key(directory)
    certs.write_private(
        directory / "sa.key",
        signing.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        ),
    )
    (directory / "sa.pub").write_bytes(
        signing.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    kubeconfig = directory / "kubeconfig"
    admin = authority.client("admin", [MASTERS])
    certs.kubeconfig(kubeconfig, url, authority.pem, "admin", credential=admin)
    return kubeconfig


@contextmanager
def _directory() -> Iterator[Path]:
    """On disk where possible: in memory, durability would cost nothing."""
    with tempfile.TemporaryDirectory(prefix="koord-bench-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def _ready(config: ClusterConfig) -> bool:
    context = ssl.create_default_context(cadata=config.ca_data.decode())
    try:
        with urllib.request.urlopen(f"{config.server}/readyz", context=context, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [int(listener.getsockname()[1]) for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports
