"""Reservations in a line, and a core that hears of them as if an API server stood between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration
from koord.api.kinds import NODES, PODS, RESERVATIONS
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.reservation import Reservation
from koord.offline.driver import merged
from koord.offline.patched import patched
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind, Decision, Nowhere, Placed
from koord.scheduler.core.moment import Moment
from koord.scheduler.framework.writes import Delete, Patch
from koord.scheduler.plugins.reservation.rooms import Rooms
from koord.scheduler.profiles import profiles_of
from tests.scheduler.builders import node

PREFIX = "scheduling.koordinator.sh/"
MADE = "2026-01-01T00:00:00Z"
MADE_S = 1767225600.0
APP = {"app": "web"}


def reservation(
    name: str = "r",
    *,
    cpu: str = "4",
    memory: str = "",
    more: Mapping[str, str] | None = None,
    owners: list[dict[str, Any]] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    on: str = "",
    status: Mapping[str, Any] | None = None,
    template: Mapping[str, Any] | None = None,
    made: str = MADE,
    uid: str = "",
    **spec: Any,
) -> Reservation:
    """With `on`, it is Available on that node."""
    requests = {"cpu": cpu, **({"memory": memory} if memory else {}), **(more or {})}
    pod = {
        "spec": {
            "schedulerName": "koord-scheduler",
            "containers": [{"name": "c", "resources": {"requests": requests}}],
            **(template or {}),
        }
    }
    data = {
        "metadata": {
            "name": name,
            "uid": uid or f"uid-{name}",
            "creationTimestamp": made,
            "labels": dict(labels or {}),
            "annotations": dict(annotations or {}),
        },
        "spec": {
            "template": pod,
            "owners": [{"labelSelector": {"matchLabels": APP}}] if owners is None else owners,
            **spec,
        },
        "status": {"phase": "Available", "nodeName": on, "allocatable": requests} if on else {},
    }
    data["status"] |= status or {}
    return convert(Reservation, data)


def pod(
    name: str,
    *,
    cpu: str = "1",
    memory: str = "",
    more: Mapping[str, str] | None = None,
    app: str = "web",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    on: str = "",
    inside: str = "",
    affinity: str | None = None,
    priority: int = 0,
    namespace: str = "shop",
    **spec: Any,
) -> Pod:
    """`inside`: the reservation that it came out of."""
    said = dict(annotations or {})
    if inside:
        said[f"{PREFIX}reservation-allocated"] = f'{{"name":"{inside}","uid":"uid-{inside}"}}'
    if affinity is not None:
        said[f"{PREFIX}reservation-affinity"] = affinity
    requests = {"cpu": cpu, **({"memory": memory} if memory else {}), **(more or {})}
    data = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "creationTimestamp": MADE,
            "labels": {**({"app": app} if app else {}), **(labels or {})},
            "annotations": said,
        },
        "spec": {
            "nodeName": on,
            "schedulerName": "koord-scheduler",
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": requests}}],
            **spec,
        },
        "status": {"phase": "Running" if on else "Pending"},
    }
    return convert(Pod, data)


class World:
    """A core of the shipped configuration. What it writes is stored, and comes back to it."""

    def __init__(self, *nodes: Node | int, config: SchedulerConfiguration = SHIPPED) -> None:
        self.config = config
        self.core = Core(profiles_of(config), alone=True)
        self.pods: dict[str, Pod] = {}
        self.reservations: dict[str, Reservation] = {}
        self.nodes: dict[str, Node] = {}
        self.deleted: list[str] = []
        self.now_s = MADE_S
        self.wait(0)
        for i, each in enumerate(nodes):
            self.put(node(f"n{i}", cpu=str(each)) if isinstance(each, int) else each)

    @property
    def rooms(self) -> Rooms:
        return self.core.cluster.notes(Rooms)

    def put(self, *things: Pod | Reservation | Node) -> None:
        for thing in things:
            if isinstance(thing, Pod):
                self.core.put(PODS, thing, self.pods.get(thing.metadata.key))
                self.pods[thing.metadata.key] = thing
            elif isinstance(thing, Reservation):
                self.core.put(RESERVATIONS, thing, self.reservations.get(thing.metadata.name))
                self.reservations[thing.metadata.name] = thing
            else:
                self.core.put(NODES, thing, self.nodes.get(thing.metadata.name))
                self.nodes[thing.metadata.name] = thing

    def delete(self, *things: Pod | Reservation | Node | str) -> None:
        for thing in things:
            if isinstance(thing, str):
                thing = self.pods[thing] if thing in self.pods else self.reservations[thing]
            if isinstance(thing, Pod):
                self.core.removed(PODS, self.pods.pop(thing.metadata.key))
            elif isinstance(thing, Reservation):
                self.core.removed(RESERVATIONS, self.reservations.pop(thing.metadata.name))
            else:
                self.core.removed(NODES, self.nodes.pop(thing.metadata.name))

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.core.at(Moment(self.now_s, self.now_s - MADE_S))

    def settle(self) -> dict[str, str]:
        """Have everything decided, bound and written; where pods and reservations went, by name."""
        placed: dict[str, str] = {}
        while True:
            decision = self.core.decide()
            if isinstance(decision, Bind):
                placed |= self.bind(decision)
            wrote = self.write()
            if decision is None and not wrote:
                return placed

    def decide(self) -> Decision | None:
        return self.core.decide()

    def nowhere(self) -> Nowhere:
        """The next decision, which finds no place."""
        found = self.core.decide()
        assert isinstance(found, Nowhere), found
        return found

    def bind(self, bind: Bind) -> dict[str, str]:
        for member in bind.members:
            self.core.bound(bind, member.ask)
            self.hear(member)
        return {member.ask.meta.name: member.node for member in bind.members}

    def hear(self, placed: Placed) -> None:
        plan = placed.plan
        if isinstance(plan.binding, Patch):
            for step in plan.steps:
                for write in step.writes():
                    assert isinstance(write, Patch)
                    self.put(patched(self.pods[f"{write.namespace}/{write.name}"], write.body))
            for patch in (plan.patch, plan.binding):
                if patch is not None:
                    self.patch(patch)
            return
        thing = self.pods[placed.ask.key]
        meta = thing.metadata
        if plan.patch is not None:
            said = plan.patch.body["metadata"].get("annotations", {})
            meta = replace(meta, annotations=merged(meta.annotations, said))
        self.put(replace(thing, metadata=meta, spec=replace(thing.spec, node_name=placed.node)))

    def write(self) -> bool:
        writes = self.core.take_writes()
        for write in writes:
            if isinstance(write, Delete):
                self.deleted.append(write.name)
                self.delete(self.reservations[write.name])
            elif isinstance(write, Patch) and write.kind is RESERVATIONS:
                self.patch(write)
            elif isinstance(write, Patch) and write.kind is PODS:
                self.put(patched(self.pods[f"{write.namespace}/{write.name}"], write.body))
        return bool(writes)

    def patch(self, patch: Patch) -> None:
        self.put(patched(self.reservations[patch.name], patch.body))

    def restarted(self) -> World:
        """Another core, which hears the same objects."""
        other = World(config=self.config)
        other.now_s = self.now_s
        other.wait(0)
        other.put(*self.nodes.values(), *self.reservations.values(), *self.pods.values())
        return other

    def requested(self, name: str = "n0", resource: str = "cpu") -> int:
        table = self.core.cluster.table
        found: int = table.columns["requested", resource].item(table.row_of[name])
        return found

    def inside(self, key: str) -> str:
        """The reservation that a pod came out of, as it says."""
        said = self.pods[key].metadata.annotations.get(f"{PREFIX}reservation-allocated", "")
        return str(msgspec.json.decode(said)["name"]) if said else ""
