"""Pods as their own node sees them: `Pod` plus commands, environment, probes, mounts and container IDs.

The node agent and the kubelet of a local node read the few pods of one node with this type; deciders hold very
many and read `Pod`.
"""

from __future__ import annotations

from koord.api.kubernetes.pod import (
    Container,
    ContainerPort,
    ContainerState,
    ContainerStatus,
    Pod,
    PodSpec,
    PodStatus,
    Volume,
)
from koord.api.machinery.struct import Struct


class KeyReference(Struct):
    """One key of a ConfigMap or Secret."""

    key: str
    name: str = ""
    optional: bool = False


class FieldReference(Struct):
    field_path: str


class ResourceFieldReference(Struct):
    resource: str
    container_name: str = ""
    divisor: str | int = "0"


class EnvSource(Struct):
    field_ref: FieldReference | None = None
    resource_field_ref: ResourceFieldReference | None = None
    config_map_key_ref: KeyReference | None = None
    secret_key_ref: KeyReference | None = None


class EnvVar(Struct):
    name: str
    value: str = ""
    value_from: EnvSource | None = None


class ObjectName(Struct):
    name: str = ""
    optional: bool = False


class EnvFromSource(Struct):
    """All keys of a ConfigMap or Secret as variables."""

    prefix: str = ""
    config_map_ref: ObjectName | None = None
    secret_ref: ObjectName | None = None


class VolumeMount(Struct):
    name: str
    mount_path: str
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False


class ExecAction(Struct):
    command: tuple[str, ...] = ()


class HttpHeader(Struct):
    name: str
    value: str = ""


class HttpGetAction(Struct):
    port: int | str
    path: str = "/"
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[HttpHeader, ...] = ()


class TcpSocketAction(Struct):
    port: int | str
    host: str = ""


class GrpcAction(Struct):
    port: int
    service: str = ""


class SleepAction(Struct):
    seconds: int


class Probe(Struct):
    exec: ExecAction | None = None
    http_get: HttpGetAction | None = None
    tcp_socket: TcpSocketAction | None = None
    grpc: GrpcAction | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 1
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class LifecycleHandler(Struct):
    exec: ExecAction | None = None
    http_get: HttpGetAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(Struct):
    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None


class SecurityContext(Struct):
    """As whom a container's processes run."""

    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool = False
    privileged: bool = False


class PodSecurityContext(Struct):
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool = False
    supplemental_groups: tuple[int, ...] = ()
    fs_group: int | None = None


class NamedPort(ContainerPort):
    name: str = ""


class RunnableContainer(Container):
    ports: tuple[NamedPort, ...] = ()
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    security_context: SecurityContext | None = None
    stdin: bool = False
    stdin_once: bool = False
    "Whether the first client that is attached ends it."
    tty: bool = False


class KeyToPath(Struct):
    key: str
    path: str
    mode: int | None = None


class ConfigMapVolume(Struct):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int = 0o644
    optional: bool = False


class SecretVolume(Struct):
    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int = 0o644
    optional: bool = False


class SecretProjection(Struct):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool = False


class DownwardFile(Struct):
    path: str
    field_ref: FieldReference | None = None
    resource_field_ref: ResourceFieldReference | None = None
    mode: int | None = None


class DownwardVolume(Struct):
    items: tuple[DownwardFile, ...] = ()
    default_mode: int = 0o644


class TokenProjection(Struct):
    path: str
    audience: str = ""
    expiration_seconds: int = 3600


class ProjectedSource(Struct):
    config_map: ConfigMapVolume | None = None
    secret: SecretProjection | None = None
    downward_api: DownwardVolume | None = None
    service_account_token: TokenProjection | None = None


class ProjectedVolume(Struct):
    sources: tuple[ProjectedSource, ...] = ()
    default_mode: int = 0o644


class RunnableVolume(Volume):
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    downward_api: DownwardVolume | None = None
    projected: ProjectedVolume | None = None


class RunnableSpec(PodSpec):
    containers: tuple[RunnableContainer, ...] = ()
    init_containers: tuple[RunnableContainer, ...] = ()
    volumes: tuple[RunnableVolume, ...] = ()
    service_account_name: str = ""
    automount_service_account_token: bool | None = None
    hostname: str = ""
    subdomain: str = ""
    host_pid: bool = False
    share_process_namespace: bool = False
    security_context: PodSecurityContext | None = None


class RunnableContainerStatus(ContainerStatus):
    container_id: str = ""
    "The runtime and its ID of the container: `containerd://0f3c...`."
    image_id: str = ""
    last_state: ContainerState = ContainerState()


class RunnableStatus(PodStatus):
    host_ip: str = ""
    init_container_statuses: tuple[RunnableContainerStatus, ...] = ()
    container_statuses: tuple[RunnableContainerStatus, ...] = ()


class RunnablePod(Pod):
    spec: RunnableSpec = RunnableSpec()
    status: RunnableStatus = RunnableStatus()
