"""kubeconfig files: from text to one `ClusterConfig`. Pure: reading the files is `locate`'s work.

Several files are one: the first to name a cluster, user or context defines it whole, the first with a current-context
sets it. Relative paths are relative to the file that contains them. Errors name the file and the field.
"""

from __future__ import annotations

import base64
import binascii
import os.path
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from koord.api.machinery.faults import Fault, Invalid, check
from koord.api.machinery.struct import EMPTY, Struct, field
from koord.kube.cluster_config import ClusterConfig, ConfigError, ExecConfig, Impersonation

EXEC_EXTENSION = "client.authentication.k8s.io/exec"
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class _Part(Struct, rename="kebab"):
    """Of a kubeconfig, whose names are written-like-this."""


class _Extension(_Part):
    name: str
    extension: Any = None


class Cluster(_Part):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    proxy_url: str = ""
    extensions: tuple[_Extension, ...] = ()


class _ExecEnv(_Part):
    name: str
    value: str = ""


class Exec(_Part):
    command: str = ""
    api_version: str = field(name="apiVersion", default="")
    args: tuple[str, ...] = ()
    env: tuple[_ExecEnv, ...] = ()
    install_hint: str = field(name="installHint", default="")
    provide_cluster_info: bool = field(name="provideClusterInfo", default=False)
    interactive_mode: Literal["", "Never", "IfAvailable", "Always"] = field(name="interactiveMode", default="")


class _AuthProvider(_Part):
    name: str = ""


class User(_Part):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = field(name="tokenFile", default="")
    username: str = ""
    password: str = ""
    as_: str = field(name="as", default="")
    as_uid: str = ""
    as_groups: tuple[str, ...] = ()
    as_user_extra: Mapping[str, tuple[str, ...]] = EMPTY
    exec: Exec | None = None
    auth_provider: _AuthProvider | None = None


class Context(_Part):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Part):
    name: str
    cluster: Cluster = Cluster()


class _NamedUser(_Part):
    name: str
    user: User = User()


class _NamedContext(_Part):
    name: str
    context: Context = Context()


class _File(_Part):
    current_context: str = ""
    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()


V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Defined(Generic[V]):
    """One entry and the file that defines it."""

    value: V
    file: str


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """One file, or several merged."""

    current_context: str
    clusters: Mapping[str, Defined[Cluster]]
    users: Mapping[str, Defined[User]]
    contexts: Mapping[str, Defined[Context]]

    @property
    def is_empty(self) -> bool:
        return not (self.current_context or self.clusters or self.users or self.contexts)


def parse(text: str, file: str) -> Kubeconfig:
    """One file's content. `ConfigError` with all faults at once."""
    from koord.api.text.yaml import YamlError, load  # in a pod no kubeconfig is read, and YAML is not cheap to import

    try:
        data = load(text, file)
    except YamlError as error:
        raise ConfigError(str(error)) from None
    try:
        read = check(_File, {} if data is None else data, file, allow_unknown=True)
        return Kubeconfig(
            read.current_context,
            _by_name(((entry.name, entry.cluster) for entry in read.clusters), "clusters", file),
            _by_name(((entry.name, entry.user) for entry in read.users), "users", file),
            _by_name(((entry.name, entry.context) for entry in read.contexts), "contexts", file),
        )
    except Invalid as error:
        raise ConfigError(str(error)) from None


def merge(files: Iterable[Kubeconfig]) -> Kubeconfig:
    """Several files as one, the first to define something winning."""
    current = ""
    clusters: dict[str, Defined[Cluster]] = {}
    users: dict[str, Defined[User]] = {}
    contexts: dict[str, Defined[Context]] = {}
    for file in files:
        current = current or file.current_context
        clusters = {**file.clusters, **clusters}
        users = {**file.users, **users}
        contexts = {**file.contexts, **contexts}
    return Kubeconfig(current, clusters, users, contexts)


def resolve(config: Kubeconfig, context: str | None = None) -> ClusterConfig:
    """The cluster and the caller that `context` (else the current one) names."""
    name = context or config.current_context
    if not name:
        raise ConfigError(f"no context is chosen: set current-context, or ask for one of {_listed(config.contexts)}")
    if name not in config.contexts:
        raise ConfigError(f"context {name!r} does not exist; there are {_listed(config.contexts)}")
    chosen = config.contexts[name]
    where = f"{chosen.file}: context {name!r}"
    cluster = _referred(config.clusters, chosen.value.cluster, where, "cluster")
    user = _referred(config.users, chosen.value.user, where, "user")
    resolved = _with_user(
        _with_cluster(cluster, chosen.value.cluster, f"context {name} of {chosen.file}"), user, chosen.value.user
    )
    return replace(resolved, namespace=chosen.value.namespace or "default")


def _by_name(entries: Iterable[tuple[str, V]], where: str, file: str) -> dict[str, Defined[V]]:
    by_name: dict[str, Defined[V]] = {}
    for i, (name, value) in enumerate(entries):
        if name in by_name:
            raise Invalid(file, [Fault(f"{where}[{i}].name", f"{name!r} is defined twice")])
        by_name[name] = Defined(value, file)
    return by_name


def _referred(defined: Mapping[str, Defined[V]], name: str, where: str, field_name: str) -> Defined[V]:
    if not name:
        raise ConfigError(f"{where}: names no {field_name}")
    if name not in defined:
        raise ConfigError(f"{where}: {field_name} {name!r} does not exist; there are {_listed(defined)}")
    return defined[name]


def _with_cluster(cluster: Defined[Cluster], name: str, origin: str) -> ClusterConfig:
    value, where = cluster.value, f"{cluster.file}: clusters[{name}]"
    if not value.server:
        raise ConfigError(f"{where}.server: is required")
    if value.insecure_skip_tls_verify and (value.certificate_authority or value.certificate_authority_data):
        raise ConfigError(
            f"{where}: insecure-skip-tls-verify and a certificate-authority exclude each other; drop the former"
        )
    extension = next((entry.extension for entry in value.extensions if entry.name == EXEC_EXTENSION), None)
    return ClusterConfig(
        server=_with_scheme(value),
        origin=origin,
        ca_file=_resolved(value.certificate_authority, cluster.file),
        ca_data=_decoded(value.certificate_authority_data, f"{where}.certificate-authority-data"),
        tls_server_name=value.tls_server_name,
        insecure_skip_tls_verify=value.insecure_skip_tls_verify,
        proxy_url=value.proxy_url,
        exec_cluster_config=extension,
    )


def _with_scheme(cluster: Cluster) -> str:
    if "://" in cluster.server:
        return cluster.server
    secure = cluster.certificate_authority or cluster.certificate_authority_data or cluster.insecure_skip_tls_verify
    return f"{'https' if secure else 'http'}://{cluster.server}"


def _with_user(config: ClusterConfig, user: Defined[User], name: str) -> ClusterConfig:
    value, where = user.value, f"{user.file}: users[{name}]"
    if value.auth_provider is not None:
        raise ConfigError(
            f"{where}.auth-provider: {value.auth_provider.name!r}: auth providers are not supported; "
            "use an exec plugin of the same provider (users[].user.exec) instead"
        )
    if value.token and (value.username or value.password):
        raise ConfigError(f"{where}: has both a token and a username; only one is allowed")
    has_certificate = bool(value.client_certificate or value.client_certificate_data)
    if has_certificate and not (value.client_key or value.client_key_data):
        raise ConfigError(f"{where}.client-key: is required beside a client-certificate")
    return replace(
        config,
        cert_file=_resolved(value.client_certificate, user.file),
        cert_data=_decoded(value.client_certificate_data, f"{where}.client-certificate-data"),
        key_file=_resolved(value.client_key, user.file) if has_certificate else "",
        key_data=_decoded(value.client_key_data, f"{where}.client-key-data") if has_certificate else b"",
        token=value.token,
        token_file=_resolved(value.token_file, user.file),
        username=value.username,
        password=value.password,
        exec=_exec(value.exec, user.file, f"{where}.exec") if value.exec is not None else None,
        impersonation=_impersonation(value, where),
    )


def _exec(value: Exec, file: str, where: str) -> ExecConfig:
    if not value.command:
        raise ConfigError(f"{where}.command: is required")
    if value.api_version not in EXEC_VERSIONS:
        raise ConfigError(f"{where}.apiVersion: must be one of {', '.join(EXEC_VERSIONS)}, not {value.api_version!r}")
    if not value.interactive_mode and value.api_version == EXEC_VERSIONS[0]:
        raise ConfigError(f"{where}.interactiveMode: is required: one of Never, IfAvailable, Always")
    return ExecConfig(
        # A bare name is looked up in PATH, anything with a slash is a path.
        command=_resolved(value.command, file) if "/" in value.command else value.command,
        api_version=value.api_version,
        args=value.args,
        env=tuple((variable.name, variable.value) for variable in value.env),
        install_hint=value.install_hint,
        provide_cluster_info=value.provide_cluster_info,
        interactive_mode=value.interactive_mode or "IfAvailable",
    )


def _impersonation(user: User, where: str) -> Impersonation | None:
    if not user.as_:
        if user.as_uid or user.as_groups or user.as_user_extra:
            raise ConfigError(f"{where}.as: is required beside as-uid, as-groups and as-user-extra")
        return None
    return Impersonation(user.as_, user.as_uid, user.as_groups, dict(user.as_user_extra))


def _resolved(path: str, file: str) -> str:
    return os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(file)), path)) if path else ""


def _decoded(text: str, where: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ConfigError(f"{where}: is not base64: {error}") from None


def _listed(names: Mapping[str, object] | Sequence[str]) -> str:
    return ", ".join(sorted(names)) or "none"
