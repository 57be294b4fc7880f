"""DeviceShare: hands out GPUs, RDMA cards and FPGAs, whole or in parts, one by one.

What a pod got is written on it (`scheduling.koordinator.sh/device-allocated`) before it is bound; the node agent and
device plugins act on that, and a restarted scheduler counts from that alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from koord.api.configuration.features import SchedulerGate
from koord.api.configuration.scheduler_args import DeviceShareArgs
from koord.api.kinds import CONFIG_MAPS, DEVICES, NODES
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.protocol import names
from koord.api.protocol.annotations.device import NodeLock
from koord.scheduler.core.queue import ClusterEvent
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.controller import Controller
from koord.scheduler.framework.judge import Judge, Refused
from koord.scheduler.framework.plugin import KeyedBy, Plugin, Taking
from koord.scheduler.framework.queueing import Queueing
from koord.scheduler.framework.writes import Patch, PreBind, Step, Until, Write
from koord.scheduler.plugins.devices import adapters, templates
from koord.scheduler.plugins.devices.grants import Granted, render
from koord.scheduler.plugins.devices.judge import DeviceJudge
from koord.scheduler.plugins.devices.ledger import Devices, Usage
from koord.scheduler.plugins.devices.locks import Locks, lock_of
from koord.scheduler.plugins.devices.requests import DEVICE_NAMES, GPU, InvalidRequest, asks_for_devices, wanted
from koord.scheduler.plugins.devices.scoring import policy_of
from koord.scheduler.plugins.devices.service import machine_told
from koord.scheduler.plugins.devices.templates import Templates
from koord.scheduler.plugins.packing.demand import Demand
from koord.scheduler.plugins.packing.policy import PackingJudge, packing_of, rows_of
from koord.scheduler.plugins.packing.rows import PolicyName
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import Amounts, Shape
from koord.scheduler.state.table import Reason, Row

_LOOKED_AT: Final = (
    names.ANNOTATION_DEVICE_ALLOCATE_HINT,
    names.ANNOTATION_DEVICE_JOINT_ALLOCATE,
    names.ANNOTATION_GPU_PARTITION_SPEC,
)
SHAPES_KEPT: Final = 1 << 14
TURN_S: Final = 60.0
"""How long a placed pod waits until no other pod has its node's lock."""


def _helps(ask: Ask, event: ClusterEvent, cluster: Cluster) -> bool:
    """A pod that leaves is of no help unless it had devices."""
    subject = event.subject
    if event.reasons == int(Reason.LOAD):
        # What a node says in annotations: it may be locked no more.
        return isinstance(subject, Node)
    return not isinstance(subject, Pod) or names.ANNOTATION_DEVICE_ALLOCATED in subject.metadata.annotations


class DeviceShare(Plugin):
    name = "DeviceShare"
    notes = Devices
    controller: Controller
    wakes_on = Reason.NODE | Reason.LABELS | Reason.FREED | Reason.EXACT
    queueing = Queueing(helps=_helps)

    def __init__(self, args: DeviceShareArgs | None = None, gates: Mapping[SchedulerGate, bool] | None = None) -> None:
        gate = SchedulerGate.DEVICE_PLUGIN_ADAPTION
        self._adapts = (gates or {}).get(gate, gate.default)
        self._args = (args or DeviceShareArgs()).completed()
        self._asked: dict[Shape, Amounts] = {}
        where = self._args.gpu_shared_resource_templates_config
        self._named = where.config_map_namespace, where.config_map_name
        self._templates = Templates(frozenset(where.matched_resources), "/".join(self._named))
        self._template_version = 0
        strategy = self._args.scoring_strategy.type
        self._packs: PolicyName | None = strategy if strategy == "FGD" or strategy == "ShadowPrices" else None
        if self._adapts:
            self.wakes_on = DeviceShare.wakes_on | Reason.LOAD

    def takes(self) -> Iterable[Taking]:
        yield Taking(DEVICES, self._devices.put_device, self._devices.remove_device)
        yield Taking(
            CONFIG_MAPS,
            lambda config: self._learn(templates.read(config)),
            lambda config: self._learn({}),
            named=self._named,
        )

    def _learn(self, by_model: Mapping[str, Mapping[str, Amounts]]) -> None:
        """Other templates than before are there."""
        if by_model != self._templates.by_model:
            self._templates = replace(self._templates, by_model=by_model)
            self._template_version += 1

    def attach(self, cluster: Cluster) -> None:
        self._devices = cluster.notes(Devices)
        if self._packs:
            rows_of(cluster, self._packs)
        if self._adapts:
            cluster.index(Locks)
        self.controller = Controller(partial(self._renew, cluster), services=self._services(cluster), decides=True)

    def _renew(self, cluster: Cluster) -> Iterable[Write]:
        """Prices are made between decisions, and locks end."""
        if self._packs:
            rows_of(cluster, self._packs).renew()
        if self._adapts:
            cluster.index(Locks).end_old()
        return ()

    def _lock(self, ask: Ask, row: Row, cluster: Cluster, note: Granted) -> tuple[Step, ...]:
        """The node of a pod whose device plugin takes one pod at a time is locked for it."""
        machine = self._devices.machine(row)
        form = None if machine is None else lock_of(machine)
        if form is None or not note.of(GPU):
            return ()
        locks, meta, node = cluster.index(Locks), ask.meta, cluster.table.names[row]

        def waits_for() -> str:
            return f"{node} is locked for {locks.holder(row, ask.key)} by the device plugin of its GPUs"

        def missing() -> str:
            return waits_for() if locks.holder(row, ask.key) else ""

        def writes() -> tuple[Write, ...]:
            lock = NodeLock(cluster.now_s, meta.namespace, meta.name)
            locks.take(row, lock)
            return (Patch(NODES, node, {"metadata": {"annotations": {form.key: form.render(lock)}}}),)

        # Members of a job may come to one node at once: each waits for its turn.
        turn = Step(self.name, lambda: (), Until(missing, TURN_S, waits_for=waits_for))
        return turn, Step(self.name, writes)

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.LABELS if asks_for_devices(ask.requests) else KeyedBy.SPEC

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        asked = self._of(ask)
        if not asked:
            return cluster.notes(Demand).of_shape(ask.shape, ask.spec) if self._packs else None
        meta = ask.meta
        said = tuple([meta.annotations.get(key, "") for key in _LOOKED_AT]) if meta.annotations else ()
        slots = tuple(self._devices.slots.values())
        version = None if self._templates.needed_for.isdisjoint([name for name, _ in asked]) else self._template_version
        packed = cluster.notes(Demand).of_shape(ask.shape, ask.spec) if self._packs else None
        return asked, said, meta.labels.get(names.LABEL_GPU_ISOLATION_PROVIDER, ""), slots, packed, version

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        asked, view = self._of(ask), ask.view
        if not asked:
            return PackingJudge(packing_of(self._packs, ask, cluster, view)) if self._packs else None
        try:
            devices_wanted = wanted(asked, ask.meta, self._templates)
        except InvalidRequest as error:
            return Refused(str(error))
        if devices_wanted is None:
            return None
        policy = policy_of(self._args, ask, devices_wanted, cluster, view)
        return DeviceJudge(devices_wanted, policy, self._args, cluster, view, adapts=self._adapts).quickest()

    def reserve(self, ask: Ask, row: Row, cluster: Cluster, checked: object) -> object:
        return checked if isinstance(checked, Granted) else None

    def pre_bind(self, ask: Ask, row: Row, cluster: Cluster, note: object) -> Mapping[str, Any] | PreBind | None:
        key = names.ANNOTATION_DEVICE_ALLOCATED
        if isinstance(note, Granted):
            machine = self._devices.machine(row)
            if not self._adapts or machine is None:
                return {"metadata": {"annotations": {key: render(note)}}}
            said = {key: render(note), **adapters.annotated(note, machine, cluster.now_s)}
            marked = adapters.labelled(ask.meta, cluster.table.names[row])
            patch = {"metadata": {"annotations": said, **({"labels": marked} if marked else {})}}
            return PreBind(patch, self._lock(ask, row, cluster, note))
        # An attempt that came to nothing may have said something else.
        return {"metadata": {"annotations": {key: None}}} if key in ask.meta.annotations else None

    def _services(self, cluster: Cluster) -> Mapping[str, Callable[[str], object]]:
        packs = self._packs
        packing = {"packing": lambda _: rows_of(cluster, packs).figures()} if packs else {}
        return {
            **packing,
            "nodeDeviceSummaries": lambda _: {node: self._told(node) for node in sorted(self._devices.machines)},
            "nodeDeviceSummaries/:name": lambda node: self._told(node) if node in self._devices.machines else None,
        }

    def _told(self, node: str) -> dict[str, object]:
        row = self._devices.cluster.table.row_of.get(node)
        usage = None if row is None else self._devices.usage(row)
        return machine_told(self._devices.machines[node], usage or Usage())

    def _of(self, ask: Ask) -> Amounts:
        """What a pod asks of devices, as it says it."""
        of_devices = self._asked.get(ask.shape)
        if of_devices is None:
            if len(self._asked) >= SHAPES_KEPT:
                self._asked.clear()
            of_devices = tuple([quantity for quantity in ask.requests if quantity[0] in DEVICE_NAMES])
            self._asked[ask.shape] = of_devices
        return of_devices
