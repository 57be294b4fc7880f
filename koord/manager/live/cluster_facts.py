"""What admission rules look up, kept current by informers.

Profiles are compiled when they change, not at each request. Kinds that a cluster may not serve (profiles, quotas) are
followed as soon as it does. `request_facts` reads what a single request needs beyond that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec.structs import replace as struct_replace

from koord.admission.binding import BindingSettings
from koord.admission.cluster_facts import ClusterFacts, default_priority
from koord.admission.pod_enhanced import EnhancedRules
from koord.admission.pod_enhanced import parse as parse_enhanced
from koord.admission.request import Gates, Request
from koord.admission.resource import Lookup
from koord.admission.resources import LOOKUPS
from koord.admission.scheduler_annotations import Schedulers
from koord.api import kinds
from koord.api.configuration.features import ManagerGate
from koord.api.kubernetes.core import ConfigMap, PriorityClass
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.codec import DecodeError, convert, decode
from koord.api.machinery.faults import Invalid
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol import names
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord.kube.served import asked_until_told, until_served
from koord.kube.store import Delta, Identity
from koord.manager.live.request_facts import RequestFacts

log = logging.getLogger(__name__)

SETTLED_S: Final = 10.0
"""How long after a request was admitted the informers have its result."""

R = TypeVar("R")
V = TypeVar("V")


class InformerView(Mapping[str, V], Generic[R, V]):
    """An informer's records as a mapping, always current."""

    def __init__(self, informer: Informer[R], value: Callable[[R], V], name: Callable[[R], str]) -> None:
        self._informer, self._value, self._name = informer, value, name

    def __getitem__(self, key: str) -> V:
        record = self._informer.get(key)
        if record is None:
            raise KeyError(key)
        return self._value(record)

    def __iter__(self) -> Iterator[str]:
        return iter([self._name(record) for record in self._informer.list()])

    def __len__(self) -> int:
        return len(self._informer)


class LabelRecord(Struct):
    """A namespace: its name, identity and labels, and whether it is being deleted."""

    name: str
    uid: str
    version: str
    labels: Mapping[str, str]
    leaving: bool = False


class _Labelled(Struct):
    metadata: ObjectMeta = ObjectMeta()


def label_record(raw: msgspec.Raw) -> LabelRecord:
    metadata = decode(_Labelled, memoryview(raw)).metadata
    leaving = metadata.deletion_timestamp is not None
    return LabelRecord(metadata.name, metadata.uid, metadata.resource_version, metadata.labels, leaving)


def of_labels(record: LabelRecord) -> Identity:
    return record.name, record.uid, record.version


class LiveFacts:
    """The facts of a running cluster. `run` waits for kinds that are served later."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        gates: Gates,
        clock: Clock,
        *,
        node_labels: Mapping[str, Mapping[str, str]] = EMPTY,
        binding: BindingSettings | None = None,
        schedulers: Schedulers | None = None,
        namespace: str = names.NAMESPACE_KOORDINATOR,
        slo_config: str = names.CONFIGMAP_SLO_CONTROLLER,
        strategy_names_required: bool = False,
    ) -> None:
        self._client, self._informers, self._clock = client, informers, clock
        self._requests = RequestFacts(client)
        self._namespaces = informers.get(kinds.NAMESPACES, transform=label_record, identity=of_labels)
        self._classes = informers.get(kinds.PRIORITY_CLASSES)
        self._config = informers.get(kinds.CONFIG_MAPS, namespace=namespace, fields=f"metadata.name={slo_config}")
        self._enhanced: Informer[ConfigMap] | None = None
        if gates[ManagerGate.ENABLE_POD_ENHANCED_VALIDATOR]:
            name = names.CONFIGMAP_POD_ENHANCED_VALIDATOR
            self._enhanced = informers.get(kinds.CONFIG_MAPS, namespace=namespace, fields=f"metadata.name={name}")
            self._enhanced.add_handler(lambda _: self._update_enhanced())
        self._pending = [lookup for lookup in LOOKUPS if lookup.gate is None or gates[lookup.gate]]
        "Lookups whose kinds are not followed yet."
        self._followed: dict[str, tuple[Informer[Any], ...]] = {}
        self._changed: Callable[[], None] = lambda: None
        self._facts = ClusterFacts(
            namespaces=InformerView(self._namespaces, lambda record: record.labels, lambda record: record.name),
            priority_classes=InformerView(self._classes, _itself, lambda class_: class_.metadata.name),
            node_labels=node_labels,
            binding=binding or BindingSettings(),
            schedulers=schedulers or Schedulers(),
            config_namespace=namespace,
            slo_config_name=slo_config,
            strategy_names_required=strategy_names_required,
        )
        self._namespaces.add_handler(self._update_namespace)
        self._classes.add_handler(lambda _: self._update_classes())
        self._config.add_handler(lambda delta: self._set(slo_config=delta.new.data if delta.new else {}))

    async def synced(self) -> None:
        """Returns when the informers are synced. Kinds that webhook entries depend on count if they are served."""
        for lookup in [lookup for lookup in self._pending if lookup.shapes_hooks]:
            served = [await asked_until_told(self._client, kind, self._clock) for kind in lookup.kinds]
            if all(served):
                await self._follow(lookup)
        for informer in (self._namespaces, self._classes, self._config, self._enhanced):
            if informer is not None:
                await informer.synced()

    async def run(self) -> None:
        """Follows each kind as soon as the cluster serves it."""
        async with asyncio.TaskGroup() as tasks:
            for lookup in tuple(self._pending):
                tasks.create_task(self._follow_when_served(lookup), name=f"webhooks/{lookup.field}")

    def on_change(self, changed: Callable[[], None]) -> None:
        """`changed` is called when webhook entries may change, and when a namespace was created or is being deleted."""
        self._changed = changed

    def namespace(self, name: str) -> LabelRecord | None:
        """A namespace; None if there is none."""
        return self._namespaces.get(name)

    def now(self) -> ClusterFacts:
        """The facts at this moment."""
        return self._facts

    async def for_request(self, request: Request, namespace: str) -> ClusterFacts:
        """The facts, with everything else that this request needs."""
        return await self._requests.complete(self._facts, request, namespace)

    def admitted(self, request: Request) -> None:
        """A quota will be stored or deleted: the next request sees that before the informers do. If it is not stored
        after all, the informers' version counts again after a while."""
        obj = request.object if request.operation != "DELETE" else request.old
        if request.dry_run or request.subresource or obj is None:
            return
        try:
            quota = convert(ElasticQuota, obj)
        except DecodeError:
            return
        if not quota.metadata.namespace:
            quota = struct_replace(quota, metadata=struct_replace(quota.metadata, namespace=request.namespace))
        key = quota.metadata.key
        if request.operation == "DELETE":
            self._facts.quotas.remove(key)
        else:
            self._facts.quotas.put(quota)
        asyncio.get_running_loop().call_later(SETTLED_S, self._restore_quota, key)

    def _restore_quota(self, key: str) -> None:
        stored = next((quota for informer in self._followed.get("quotas", ()) if (quota := informer.get(key))), None)
        if stored is None:
            self._facts.quotas.remove(key)
        else:
            self._facts.quotas.put(stored)

    async def _follow_when_served(self, lookup: Lookup) -> None:
        await until_served(self._client, lookup.kinds, self._clock)
        await self._follow(lookup)

    async def _follow(self, lookup: Lookup) -> None:
        self._pending.remove(lookup)
        informers = self._followed[lookup.field] = tuple(self._informers.get(kind) for kind in lookup.kinds)

        def update(delta: Delta[Any]) -> None:
            if lookup.by_object:
                value = getattr(self._facts, lookup.field)
                if delta.new is not None:
                    value.put(delta.new)
                else:
                    value.remove(delta.key)
            else:
                self._set(**{lookup.field: lookup.make(*(informer.list() for informer in informers))})
            if lookup.shapes_hooks:
                self._changed()

        for informer in informers:
            informer.add_handler(update)
        for informer in informers:
            await informer.synced()

    def _update_namespace(self, delta: Delta[LabelRecord]) -> None:
        was, now = (record is not None and record.leaving for record in (delta.old, delta.new))
        if was != now:
            leaving = frozenset(self._facts.leaving)
            self._set(leaving=leaving | {delta.key} if now else leaving - {delta.key})
        if was != now or delta.old is None or delta.new is None:
            self._changed()

    def _update_classes(self) -> None:
        self._set(default_priority=default_priority(self._classes.list()))

    def _update_enhanced(self) -> None:
        assert self._enhanced is not None
        config_maps = self._enhanced.list()
        try:
            self._set(enhanced=parse_enhanced(config_maps[0].data) if config_maps else EnhancedRules())
        except Invalid as error:
            log.error("the rules for pod labels are unchanged: %s", error)

    def _set(self, **changes: object) -> None:
        self._facts = replace(self._facts, **changes)  # type: ignore[arg-type]  # fields of ClusterFacts, by name


def _itself(class_: PriorityClass) -> PriorityClass:
    return class_
