"""Group identity: who yields to whom on a CPU.

Kernels that have it (`cpu.bvt_warp_ns`) get each class's number. Mainline kernels get the nearest thing: best effort as
a whole is in the idle class, so that it runs where a CPU would be idle and yields to whoever wakes up; weights below it
go on working.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from koord.agent.executor.write import Write
from koord.agent.hooks.hook import Hook
from koord.agent.host.knobs import CPU_IDLE, GROUP_IDENTITY
from koord.agent.host_applications import directory_of
from koord.agent.pods import AgentPod
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import qos_dir
from koord.api.kubernetes.words import KubeQoS
from koord.api.protocol.annotations import pod_qos
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.resource_qos import ResourceQOS
from koord.api.protocol.priority import QoSClass

NAME: Final = "group_identity"


def identity(settings: ResourceQOS | None) -> int:
    if settings is None or settings.cpu_qos is None or not settings.cpu_qos.enable:
        return 0
    return settings.cpu_qos.group_identity or 0


def class_identity(state: NodeState, of: str) -> int:
    """Of a QoS class; what is in none has no side."""
    qos = state.qos
    settings: dict[str, ResourceQOS | None] = {
        QoSClass.LSE: qos.lsr_class,
        QoSClass.LSR: qos.lsr_class,
        QoSClass.LS: qos.ls_class,
        QoSClass.BE: qos.be_class,
        QoSClass.SYSTEM: qos.system_class,
    }
    return identity(settings.get(of))


def pod_identity(state: NodeState, pod: AgentPod) -> int:
    qos = state.qos
    if pod.labelled_qos is QoSClass.LS:
        return _own_or(pod, identity(qos.ls_class))
    if pod.labelled_qos is not QoSClass.NONE:
        return class_identity(state, pod.labelled_qos)
    if pod.kube_qos is KubeQoS.GUARANTEED and is_enabled(qos.lsr_class):
        return identity(qos.lsr_class)
    return identity(qos.be_class if pod.kube_qos is KubeQoS.BEST_EFFORT else qos.ls_class)


def is_enabled(settings: ResourceQOS | None) -> bool:
    return bool(settings and settings.cpu_qos and settings.cpu_qos.enable)


def _own_or(pod: AgentPod, of_class: int) -> int:
    try:
        own = pod_qos.CPU_QOS.read(pod.meta)
    except AnnotationError:
        return of_class
    if own is None:
        return of_class
    return (own.group_identity if own.group_identity is not None else of_class) if own.enable else 0


def _is_in_force(state: NodeState) -> bool:
    qos = state.qos
    by_identity = qos.policies is None or qos.policies.cpu_policy in (None, "groupIdentity")
    return by_identity and any(map(is_enabled, (qos.lsr_class, qos.ls_class, qos.be_class)))


def _for_node(state: NodeState) -> Iterator[Write]:
    if not _is_in_force(state):
        return
    best_effort = qos_dir(KubeQoS.BEST_EFFORT, state.driver)
    if not state.kernel.has_group_identity:
        if identity(state.qos.be_class) < 0:
            yield Write(CPU_IDLE, best_effort, 1, NAME, "best effort yields to all others")
        return
    yield Write(GROUP_IDENTITY, qos_dir(KubeQoS.GUARANTEED, state.driver), 0, NAME, "the root has no side")
    yield Write(
        GROUP_IDENTITY, qos_dir(KubeQoS.BURSTABLE, state.driver), identity(state.qos.ls_class), NAME, "identity of LS"
    )
    yield Write(GROUP_IDENTITY, best_effort, identity(state.qos.be_class), NAME, "identity of BE")
    for application in state.slo.host_applications if state.slo else ():
        value = class_identity(state, application.qos)
        directory = directory_of(application, state.driver)
        yield Write(GROUP_IDENTITY, directory, value, NAME, f"identity of host application {application.name}")


def _for_pod(state: NodeState, pod: AgentPod) -> Iterator[Write]:
    if not _is_in_force(state) or not state.kernel.has_group_identity:
        return
    value, why = pod_identity(state, pod), f"identity of {pod.qos}"
    for directory in (pod.directory, *(each.directory for each in pod.containers if each.directory)):
        yield Write(GROUP_IDENTITY, directory, value, NAME, why)


HOOK: Final = Hook(NAME, AgentGate.GROUP_IDENTITY, _for_node, _for_pod)
