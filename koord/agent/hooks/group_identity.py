"""Group identity: the order in which bands yield on a CPU.

Kernels that have it (`cpu.bvt_warp_ns`) get each class's number. Mainline kernels get the nearest thing: best effort as
a whole has the least weight, and weights below it go on working; and its tasks have longer time slices than others, so
that any task that wakes takes the CPU from them at once.

The idle class (`cpu.idle`) would yield, too, but not in a directory where kubelet writes shares: the kernel refuses
them, and kubelet does not start. Nor does it yield better. The balancer moves what is in it to and fro, and each time
that it arrives on a CPU it may run until the next tick: on Linux 6.18 services wait for it four times as often.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from koord.agent import wish
from koord.agent.hooks.hook import Hook
from koord.agent.host.convert import LEAST_SHARES
from koord.agent.host.knobs import CPU_SHARES, GROUP_IDENTITY
from koord.agent.host.time_slices import LONG, TIME_SLICE
from koord.agent.host_applications import host_applications, lies_in_best_effort
from koord.agent.pods import AgentContainer, AgentPod
from koord.agent.state import NodeState
from koord.agent.wish import Wish
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.words import KubeQoS
from koord.api.protocol.annotations import pod_qos
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.resource_qos import ResourceQOS
from koord.api.protocol.priority import QoSClass

NAME: Final = "group_identity"
YIELDS: Final = "best effort yields to all others"


def identity(settings: ResourceQOS | None) -> int:
    if settings is None or settings.cpu_qos is None or not settings.cpu_qos.enable:
        return 0
    return settings.cpu_qos.group_identity or 0


def class_settings(state: NodeState, of: str) -> ResourceQOS | None:
    """Of a QoS class; what is in none has none."""
    qos = state.qos
    settings: dict[str, ResourceQOS | None] = {
        QoSClass.LSE: qos.lsr_class,
        QoSClass.LSR: qos.lsr_class,
        QoSClass.LS: qos.ls_class,
        QoSClass.BE: qos.be_class,
        QoSClass.SYSTEM: qos.system_class,
    }
    return settings.get(of)


def pod_settings(state: NodeState, pod: AgentPod) -> ResourceQOS | None:
    """By its label; without one by Kubernetes' class."""
    qos = state.qos
    if pod.labelled_qos is not QoSClass.NONE:
        return class_settings(state, pod.labelled_qos)
    if pod.kube_qos is KubeQoS.GUARANTEED and is_enabled(qos.lsr_class):
        return qos.lsr_class
    return qos.be_class if pod.kube_qos is KubeQoS.BEST_EFFORT else qos.ls_class


def pod_identity(state: NodeState, pod: AgentPod) -> int:
    of_class = identity(pod_settings(state, pod))
    return _own_or(pod, of_class) if pod.labelled_qos is QoSClass.LS else of_class


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


def _for_node(state: NodeState) -> Iterator[Wish]:
    if not _is_in_force(state):
        return
    best_effort = wish.band(KubeQoS.BEST_EFFORT)
    if _is_by_weight(state):
        yield Wish(best_effort, CPU_SHARES, LEAST_SHARES, NAME, YIELDS)
        for app in host_applications(state.slo):
            if lies_in_best_effort(app):
                yield Wish(wish.application(app.name), TIME_SLICE, LONG, NAME, YIELDS, is_watched=True)
    if not _is_by_number(state):
        return
    of_ls = identity(state.qos.ls_class)
    yield Wish(wish.band(KubeQoS.GUARANTEED), GROUP_IDENTITY, 0, NAME, "the root has no side")
    yield Wish(wish.band(KubeQoS.BURSTABLE), GROUP_IDENTITY, of_ls, NAME, "identity of LS")
    yield Wish(best_effort, GROUP_IDENTITY, identity(state.qos.be_class), NAME, "identity of BE")
    for app in host_applications(state.slo):
        why = f"identity of host application {app.name}"
        yield Wish(wish.application(app.name), GROUP_IDENTITY, identity(class_settings(state, app.qos)), NAME, why)


def _is_by_weight(state: NodeState) -> bool:
    return _is_in_force(state) and not state.kernel.has_group_identity and identity(state.qos.be_class) < 0


def _is_by_number(state: NodeState) -> bool:
    return _is_in_force(state) and state.kernel.has_group_identity


def _for_pod(state: NodeState, pod: AgentPod) -> Iterator[Wish]:
    if _is_by_number(state):
        yield Wish(wish.pod(pod.uid), GROUP_IDENTITY, pod_identity(state, pod), NAME, f"identity of {pod.qos}")


def _for_container(state: NodeState, pod: AgentPod, container: AgentContainer) -> Iterator[Wish]:
    target = wish.container(pod.uid, container.name)
    if _is_by_weight(state) and pod.kube_qos is KubeQoS.BEST_EFFORT:
        yield Wish(target, TIME_SLICE, LONG, NAME, YIELDS, is_watched=True)
    if _is_by_number(state):
        yield Wish(target, GROUP_IDENTITY, pod_identity(state, pod), NAME, f"identity of {pod.qos}")


HOOK: Final = Hook(NAME, AgentGate.GROUP_IDENTITY, _for_node, _for_pod, _for_container)
