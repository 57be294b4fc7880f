"""The address of one cluster and the user that calls it, from a kubeconfig context or a pod's service account.

Plain data. Paths are absolute; `*_data` holds PEM bytes and wins over the file of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from koord.api.machinery.faults import BadInput


class ConfigError(BadInput):
    """The way to a cluster is not configured, or configured wrongly. Names the file and the field."""


@dataclass(frozen=True, slots=True)
class ExecConfig:
    """A program that prints credentials (client.authentication.k8s.io)."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Act as another user, if the server allows it."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """The server, how it proves itself, and how we do. Secrets stay out of `repr`."""

    server: str
    namespace: str = "default"
    origin: str = ""
    "Where this comes from, for messages: `context dev of ~/.kube/config`, `service account`."
    ca_file: str = ""
    ca_data: bytes = b""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    proxy_url: str = ""
    cert_file: str = ""
    cert_data: bytes = b""
    key_file: str = ""
    key_data: bytes = field(default=b"", repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    exec: ExecConfig | None = None
    impersonation: Impersonation | None = None
    exec_cluster_config: object = None
    "The cluster's `client.authentication.k8s.io/exec` extension, for exec programs that ask for cluster information."
