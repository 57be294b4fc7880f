"""A pod that is about to start, as a container runtime announces it: before kubelet lists it or the agent has asked.

A runtime knows labels, annotations and the cgroup of the pod, not its spec. That is why batch and mid resources are in
an annotation; the parent of the cgroup shows the Kubernetes QoS class.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from koord.agent.adjustment import Adjustment, adjustment_of
from koord.agent.hooks.registry import wishes_for
from koord.agent.host.convert import quota_of_milli
from koord.agent.pods import CPU, AgentContainer, AgentPod, pod_of
from koord.agent.state import NodeState
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.runnable import RunnablePod
from koord.api.kubernetes.words import KubeQoS
from koord.api.machinery.codec import convert
from koord.api.protocol.annotations.pod_qos import EXTENDED_RESOURCE_SPEC
from koord.api.protocol.annotations.value import AnnotationError

_TIERS: Final = {"besteffort": KubeQoS.BEST_EFFORT, "burstable": KubeQoS.BURSTABLE}


_UID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}")


class PodTold(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    uid: str
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    cgroup_parent: str = ""


class Asking(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is about to happen to a pod, or to one container of it."""

    pod: PodTold
    container: str = ""
    "Empty: the pod itself."
    by: str = ""
    "The component that delivers the answer."
    is_update: bool = False
    "The container runs, and kubelet changes its resources."
    is_look: bool = False
    "It runs; nothing is made or changed with the answer yet."
    is_over: bool = False
    "The pod has ended: it is forgotten."
    is_running: bool = False
    "It runs, and is brought in line with the answer."
    cpu_quota_us: int = 0
    "With an update, what kubelet makes its quota; 0: it leaves that, or the runtime does not tell."


def announced(asking: PodTold, driver: CgroupDriver) -> AgentPod:
    """Raises ValueError for a pod that no pod can be like: its uid becomes a part of a path."""
    if not _UID.fullmatch(asking.uid):
        raise ValueError(f"pod.uid is {asking.uid[:80]!r}: it must be letters, digits, '-', '_' and '.'")
    qos = next((qos for tier, qos in _TIERS.items() if tier in asking.cgroup_parent), KubeQoS.GUARANTEED)
    metadata = {
        "uid": asking.uid,
        "name": asking.name,
        "namespace": asking.namespace,
        "labels": asking.labels,
        "annotations": asking.annotations,
    }
    pod = convert(RunnablePod, {"metadata": metadata, "status": {"qosClass": str(qos), "phase": "Pending"}})
    try:
        spec = EXTENDED_RESOURCE_SPEC.read(pod.metadata)
    except AnnotationError:
        return pod_of(pod, driver)
    containers: list[dict[str, Any]] = [
        {"name": name, "resources": {"requests": dict(resources.requests), "limits": dict(resources.limits)}}
        for name, resources in spec.containers.items()
    ]
    return pod_of(convert(RunnablePod, {**msgspec.to_builtins(pod), "spec": {"containers": containers}}), driver)


def is_resized(pod: AgentPod, asking: Asking) -> bool:
    """Whether an update gives a container another CPU limit than the one that its pod is known with."""
    limits = next((container.limits for container in pod.containers if container.name == asking.container), {})
    return asking.cpu_quota_us != 0 and asking.cpu_quota_us != quota_of_milli(limits.get(CPU, 0))


def answer(state: NodeState, pod: AgentPod, asking: Asking, rdt_class: str = "") -> Adjustment:
    """The settings that a pod, or a container of it, starts with. `rdt_class`: its resctrl group."""
    if not asking.container:
        return adjustment_of(wishes_for(state, pod))
    containers_by_name = {container.name: container for container in pod.containers}
    container = containers_by_name.get(asking.container) or AgentContainer(asking.container, "", "", False, {}, {})
    wishes = wishes_for(state, pod, container)
    if asking.is_update or asking.is_look or asking.is_running:
        # What follows from kubelet's own figure follows from the new one, which the pod's spec will tell. Of what runs
        # the agent sets it alone: a runtime that is told an older one tells kubelet that a resize came to nothing.
        wishes = tuple(wish for wish in wishes if wish.own is None)
        rdt_class = ""
    return adjustment_of(wishes, rdt_class)
