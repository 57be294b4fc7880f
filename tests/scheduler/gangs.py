"""Gangs in a line, and a core that hears of them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration
from koord.api.kinds import NODES, POD_GROUPS, PODS
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.pod_group import PodGroup
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind, Decision
from koord.scheduler.core.moment import Moment
from koord.scheduler.plugins.gangs import Gangs
from koord.scheduler.profiles import profiles_of
from tests.scheduler.builders import node

PREFIX = "gang.scheduling.koordinator.sh/"


def member(
    name: str,
    gang: str = "train",
    *,
    least: int | str | None = None,
    on: str = "",
    cpu: str = "1",
    crd: bool = False,
    phase: str = "Pending",
    namespace: str = "shop",
    made: str = "2026-01-01T00:00:00Z",
    priority: int = 0,
    **settings: str,
) -> Pod:
    """A pod of a gang that says its settings itself, or, with `crd`, of a PodGroup."""
    said = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in settings.items()}
    if least is not None:
        said[f"{PREFIX}min-available"] = str(least)
    if not crd:
        said[f"{PREFIX}name"] = gang
    data: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}-{name}",
            "creationTimestamp": made,
            "annotations": said,
            "labels": {"pod-group.scheduling.sigs.k8s.io": gang} if crd else {},
        },
        "spec": {
            "nodeName": on,
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
        },
        "status": {"phase": phase},
    }
    return convert(Pod, data)


def pod_group(name: str = "train", least: int = 2, *, namespace: str = "shop", **more: Any) -> PodGroup:
    spec = {"minMember": least, **more.pop("spec", {})}
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"{namespace}-{name}-group",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        **more.pop("metadata", {}),
    }
    return convert(PodGroup, {"metadata": metadata, "spec": spec, **more})


class World:
    """A core of the shipped configuration, alone in its cluster; its clock stands until it is told otherwise."""

    def __init__(self, *cpus: int, config: SchedulerConfiguration = SHIPPED) -> None:
        self.core = Core(profiles_of(config), alone=True)
        self.pods: dict[str, Pod] = {}
        self.now_s = 0.0
        for i, cpu in enumerate(cpus):
            self.core.put(NODES, node(f"n{i}", cpu=str(cpu)))

    @property
    def gangs(self) -> Gangs:
        return self.core.cluster.notes(Gangs)

    def put(self, *things: Pod | PodGroup) -> None:
        for thing in things:
            if isinstance(thing, Pod):
                self.core.put(PODS, thing, self.pods.get(thing.metadata.key))
                self.pods[thing.metadata.key] = thing
            else:
                self.core.put(POD_GROUPS, thing)

    def delete(self, *things: Pod | PodGroup) -> None:
        for thing in things:
            if isinstance(thing, Pod):
                self.core.removed(PODS, self.pods.pop(thing.metadata.key))
            else:
                self.core.removed(POD_GROUPS, thing)

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.core.at(Moment(self.now_s, self.now_s))

    def decide(self) -> list[Decision]:
        """All decisions that there are, without their outcomes."""
        found = []
        while (decision := self.core.decide()) is not None:
            found.append(decision)
        return found

    def settle(self) -> dict[str, str]:
        """Have everything decided and bound; where new pods are, by name."""
        placed: dict[str, str] = {}
        while (decision := self.core.decide()) is not None:
            if isinstance(decision, Bind):
                placed |= self.bind(decision)
        return placed

    def bind(self, bind: Bind) -> dict[str, str]:
        for each in bind.members:
            self.core.bound(bind, each.ask)
            self.hear_bound(each.ask.key, each.node)
        return {member.ask.meta.name: member.node for member in bind.members}

    def hear_bound(self, key: str, on: str) -> None:
        pod = self.pods[key]
        self.put(replace(pod, spec=replace(pod.spec, node_name=on)))

    def gate(self, pod: str) -> str:
        """Why the entity of a pod is not tried yet."""
        return next(attempt.gate for attempt in self.core.queue if any(ask.key == pod for ask in attempt.entity.pods))
