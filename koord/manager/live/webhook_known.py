"""What admission rules look up, kept in step with the cluster by informers.

Profiles are compiled when they change, not when they are asked. Kinds that a cluster may not have (profiles, quotas)
are followed from when it has them. A namespace that was made a moment ago may not have been heard of yet: then it is
asked for, as is a pod that someone wants to bind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import replace as struct_replace

from koord.admission.binding import BindingSettings
from koord.admission.known import Known, default_priority
from koord.admission.plain import part
from koord.admission.pod_enhanced import EnhancedRules
from koord.admission.pod_enhanced import parse as parse_enhanced
from koord.admission.profiles import compile_profiles
from koord.admission.quota_objects import QuotaPods, newly_listed
from koord.admission.quota_topology import namespaces_of
from koord.admission.quota_tree_affinity import QuotaTrees
from koord.admission.request import Gates, Request
from koord.admission.scheduler_annotations import Schedulers
from koord.api import kinds
from koord.api.configuration.features import ManagerGate
from koord.api.kubernetes.core import ConfigMap, PriorityClass
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.codec import DecodeError, convert, decode
from koord.api.machinery.faults import Invalid
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol import names
from koord.api.protocol.crd.colocation_profile import ClusterColocationProfile
from koord.api.protocol.crd.elastic_quota import ElasticQuota, ElasticQuotaProfile
from koord.api.protocol.crd.recommendation import Recommendation
from koord.kube.authorize import SUBJECT_ACCESS_REVIEWS
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import ApiError
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord.kube.served import asked_until_told, until_served
from koord.kube.store import Delta, Identity

log = logging.getLogger(__name__)

ASK_S = 2.0
"""For what is not known yet; API servers wait a few seconds for an answer."""

MOST_LISTED = 100
"""So many further namespaces a quota may list at a time: the API server is asked about each."""
ASKED_AT_ONCE = 8

SETTLED_S = 10.0
"""So long after a request was admitted, informers have told what became of it."""

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
    """An object's name, identity and labels, and whether it is being deleted: all that is kept of namespaces."""

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


class WebhookKnown:
    """Made before the informers are entered or inside; `run` waits for kinds that come late."""

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
        self._client = client.limited(timeout_s=ASK_S, attempts=1)
        self._informers, self._gates, self._clock = informers, gates, clock
        self._asking = client
        self._namespaces = informers.get(kinds.NAMESPACES, transform=label_record, identity=of_labels)
        self._classes = informers.get(kinds.PRIORITY_CLASSES)
        self._config = informers.get(kinds.CONFIG_MAPS, namespace=namespace, fields=f"metadata.name={slo_config}")
        self._enhanced: Informer[ConfigMap] | None = None
        if gates[ManagerGate.ENABLE_POD_ENHANCED_VALIDATOR]:
            name = names.CONFIGMAP_POD_ENHANCED_VALIDATOR
            self._enhanced = informers.get(kinds.CONFIG_MAPS, namespace=namespace, fields=f"metadata.name={name}")
            self._enhanced.add_handler(lambda _: self._note_enhanced())
        self._profiles: Informer[ClusterColocationProfile] | None = None
        self._tell: Callable[[], None] = lambda: None
        self._quotas: Informer[ElasticQuota] | None = None
        self._quota_profiles: Informer[ElasticQuotaProfile] | None = None
        self._known = Known(
            namespaces=InformerView(self._namespaces, lambda record: record.labels, lambda record: record.name),
            priority_classes=InformerView(self._classes, _itself, lambda each: each.metadata.name),
            node_labels=node_labels,
            binding=binding or BindingSettings(),
            schedulers=schedulers or Schedulers(),
            config_namespace=namespace,
            slo_config_name=slo_config,
            strategy_names_required=strategy_names_required,
        )
        self._namespaces.add_handler(self._note_namespace)
        self._classes.add_handler(lambda _: self._note_classes())
        self._config.add_handler(lambda delta: self._set(slo_config=delta.new.data if delta.new else {}))

    async def synced(self) -> None:
        """Returns when all that the cluster has is known. Profiles count, if they are served at all."""
        if await asked_until_told(self._asking, kinds.CLUSTER_COLOCATION_PROFILES, self._clock):
            await self._follow_profiles()
        for informer in (self._namespaces, self._classes, self._config, self._enhanced):
            if informer is not None:
                await informer.synced()

    async def run(self) -> None:
        """Follows what is not served yet, as soon as it is."""
        async with asyncio.TaskGroup() as tasks:
            if self._profiles is None:
                tasks.create_task(self._await_profiles(), name="webhooks/profiles")
            tasks.create_task(self._await_quotas(), name="webhooks/quotas")
            if self._gates[ManagerGate.RECOMMENDED_REQUESTS]:
                tasks.create_task(self._await_recommendations(), name="webhooks/recommendations")

    def on_change(self, tell: Callable[[], None]) -> None:
        """`tell` is called when profiles have changed, and when a namespace has come or is going."""
        self._tell = tell

    def namespace(self, name: str) -> LabelRecord | None:
        """A namespace as it is known; None where there is none."""
        return self._namespaces.get(name)

    def now(self) -> Known:
        """What is known at this moment."""
        return self._known

    async def for_request(self, request: Request, namespace: str) -> Known:
        """What is known, with what this request needs and nobody has heard of yet."""
        known = self._known
        if namespace and namespace not in known.namespaces:
            labels = await self._labels_of(namespace)
            if labels is not None:
                known = replace(known, namespaces={namespace: labels})
        if request.subresource == "binding" and known.binding.early(request.user, request.namespace) is None:
            pod = await self._pod(request.namespace, request.name)
            if pod is not None:
                known = replace(known, pods={f"{request.namespace}/{request.name}": pod})
        if request.resource == "elasticquotas":
            known = await self._about_quota(known, request)
        return known

    def admitted(self, request: Request) -> None:
        """A quota is to be stored, or gone: whoever asks next knows of it before informers tell. Should it not come to
        that, what informers say counts again after a while."""
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
            self._known.quotas.remove(key)
        else:
            self._known.quotas.put(quota)
        asyncio.get_running_loop().call_later(SETTLED_S, self._as_heard, key)

    def _as_heard(self, key: str) -> None:
        found = self._quotas.get(key) if self._quotas is not None else None
        if found is None:
            self._known.quotas.remove(key)
        else:
            self._known.quotas.put(found)

    async def _about_quota(self, known: Known, request: Request) -> Known:
        """What a request about a quota needs: a parent that was made a moment ago, and pods that are in the quota."""
        new, old = (part(obj or {}, "metadata") for obj in (request.object, request.old))
        parent = part(new, "labels").get(names.LABEL_QUOTA_PARENT)
        if request.operation != "DELETE" and names.ANNOTATION_QUOTA_NAMESPACES in part(new, "annotations"):
            known = replace(known, namespace_denials=await self._denials(request))
        try:
            if parent and known.quotas.get(parent) is None:
                for found in await self._client.list(kinds.ELASTIC_QUOTAS, fields=f"metadata.name={parent}"):
                    known.quotas.put(found)
            is_parent = [part(each, "labels").get(names.LABEL_QUOTA_IS_PARENT) == "true" for each in (new, old)]
            if request.operation == "DELETE" or (request.operation == "UPDATE" and is_parent == [True, False]):
                known = replace(known, quota_pods=await self._pods_in(request))
        except (ApiError, TimeoutError) as error:
            log.warning("what a quota is checked against cannot be read: %s", error)
        return known

    async def _denials(self, request: Request) -> dict[str, str]:
        """Which namespaces that a quota newly lists its writer may not list, and why."""
        try:
            new = convert(ElasticQuota, request.object or {})
            old = convert(ElasticQuota, request.old) if request.old else None
        except DecodeError:
            return {}
        if not new.metadata.namespace:
            new = struct_replace(new, metadata=struct_replace(new.metadata, namespace=request.namespace))
        listed = [each for each in newly_listed(new, old) if each not in names.CLUSTER_NAMESPACES]
        # Most who list many may do so anywhere.
        if not listed or not await self._refuses(request, ""):
            return {}
        if len(listed) > MOST_LISTED:
            return {listed[MOST_LISTED]: f"at most {MOST_LISTED} namespaces may be added at a time"}
        turns = asyncio.Semaphore(ASKED_AT_ONCE)

        async def why(namespace: str) -> str:
            async with turns:
                return await self._refuses(request, namespace)

        found = await asyncio.gather(*map(why, listed))
        return {namespace: denial for namespace, denial in zip(listed, found, strict=True) if denial}

    async def _refuses(self, request: Request, namespace: str) -> str:
        """Why a user may not make quotas in a namespace, or anywhere where that is empty; empty where they may."""
        kind = kinds.ELASTIC_QUOTAS
        right = {"verb": "create", "group": kind.group, "resource": kind.plural, "namespace": namespace}
        spec = {"user": request.user, "groups": list(request.groups), "resourceAttributes": right}
        try:
            review = await self._client.create(SUBJECT_ACCESS_REVIEWS, {"spec": spec})
        except (ApiError, TimeoutError) as error:
            return f"whether {request.user} may create {kind.resource} there cannot be asked ({error}); try again"
        return "" if review.status.allowed else f"{request.user} may not create {kind.resource} there"

    async def _pods_in(self, request: Request) -> QuotaPods:
        """A pod for each way of being in a quota."""
        quota = convert(ElasticQuota, request.old or {})
        name, key = quota.metadata.name or request.name, names.LABEL_QUOTA_NAME
        labelled = await self._one_pod(labels=f"{key}={name}")
        own = [request.namespace] if name == request.namespace else []
        within = {each: await self._one_pod(namespace=each, labels=f"!{key}") for each in [*own, *namespaces_of(quota)]}
        return QuotaPods({name: labelled} if labelled else {}, {each: pod for each, pod in within.items() if pod})

    async def _one_pod(self, *, labels: str, namespace: str = "") -> str:
        async for page in self._client.typed_pages(kinds.PODS, namespace=namespace, labels=labels, limit=1):
            for pod in page.items:
                return pod.metadata.key
        return ""

    async def _labels_of(self, namespace: str) -> Mapping[str, str] | None:
        try:
            return (await self._client.get(kinds.NAMESPACES, namespace)).metadata.labels
        except (ApiError, TimeoutError) as error:
            log.warning("namespace %s is not known and cannot be read: %s", namespace, error)
            return None

    async def _pod(self, namespace: str, name: str) -> ObjectMeta | None:
        try:
            return (await self._client.get(kinds.PODS, name, namespace=namespace)).metadata
        except (ApiError, TimeoutError) as error:
            log.warning("pod %s/%s cannot be read, and may be bound by anyone: %s", namespace, name, error)
            return None

    async def _await_profiles(self) -> None:
        await until_served(self._asking, (kinds.CLUSTER_COLOCATION_PROFILES,), self._clock)
        await self._follow_profiles()

    async def _follow_profiles(self) -> None:
        profiles = self._profiles = self._informers.get(kinds.CLUSTER_COLOCATION_PROFILES)
        profiles.add_handler(lambda _: self._note_profiles(profiles.list()))
        await profiles.synced()

    def _note_profiles(self, listed: Iterable[ClusterColocationProfile]) -> None:
        self._set(profiles=compile_profiles(listed))
        self._tell()

    async def _await_quotas(self) -> None:
        wanted = (kinds.ELASTIC_QUOTAS, kinds.ELASTIC_QUOTA_PROFILES)
        await until_served(self._asking, wanted, self._clock)
        quotas, profiles = (
            self._informers.get(kinds.ELASTIC_QUOTAS),
            self._informers.get(kinds.ELASTIC_QUOTA_PROFILES),
        )

        def note(_: object) -> None:
            self._set(trees=QuotaTrees.of(quotas.list(), profiles.list()))

        def heard(delta: Delta[ElasticQuota]) -> None:
            if delta.new is not None:
                self._known.quotas.put(delta.new)
            elif delta.old is not None:
                self._known.quotas.remove(delta.old.metadata.key)

        quotas.add_handler(heard)
        self._quotas = quotas
        if self._gates[ManagerGate.MULTI_QUOTA_TREE]:
            quotas.add_handler(note)
            profiles.add_handler(note)

    async def _await_recommendations(self) -> None:
        await until_served(self._asking, (kinds.RECOMMENDATIONS,), self._clock)

        def heard(delta: Delta[Recommendation]) -> None:
            if delta.new is not None:
                self._known.recommendations.put(delta.new)
            else:
                self._known.recommendations.remove(delta.key)

        self._informers.get(kinds.RECOMMENDATIONS).add_handler(heard)

    def _note_namespace(self, delta: Delta[LabelRecord]) -> None:
        was, now = (each is not None and each.leaving for each in (delta.old, delta.new))
        if was != now:
            leaving = frozenset(self._known.leaving)
            self._set(leaving=leaving | {delta.key} if now else leaving - {delta.key})
        if was != now or delta.old is None or delta.new is None:
            self._tell()

    def _note_classes(self) -> None:
        self._set(default_priority=default_priority(self._classes.list()))

    def _note_enhanced(self) -> None:
        assert self._enhanced is not None
        found = self._enhanced.list()
        try:
            self._set(enhanced=parse_enhanced(found[0].data) if found else EnhancedRules())
        except Invalid as error:
            log.error("the rules for labels of pods stay as they were: %s", error)

    def _set(self, **changes: object) -> None:
        self._known = replace(self._known, **changes)  # type: ignore[arg-type]  # fields of Known, by name


def _itself(each: PriorityClass) -> PriorityClass:
    return each
