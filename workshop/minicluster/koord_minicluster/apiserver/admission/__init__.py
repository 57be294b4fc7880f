"""Admission: the checks and changes that a write goes through after authorisation and before it is stored.

In order: namespace lifecycle, pod defaults (of limit ranges and runtime classes too), priority, mutating webhooks, then
the check that roles grant nothing their writer lacks; after validation, the global default of priority classes, limit
ranges, runtime classes, validating webhooks and quotas. If a webhook changed the object, the built-in steps run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec.structs import replace

from koord.api.kubernetes import pod_admission
from koord_minicluster.apiserver.access.rbac import Authorizer
from koord_minicluster.apiserver.admission import (
    default_class,
    limit_ranger,
    namespace_lifecycle,
    newcomers,
    priority,
    role_escalation,
    runtime_class,
)
from koord_minicluster.apiserver.admission.attributes import Attributes, refusal
from koord_minicluster.apiserver.admission.quotas import Quotas
from koord_minicluster.apiserver.admission.webhook_client import Resolver, WebhookClient
from koord_minicluster.apiserver.admission.webhook_rules import Configurations, exempt
from koord_minicluster.apiserver.admission.webhooks import Reinvocation, Webhooks
from koord_minicluster.apiserver.registry import Registry
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.store import Collection, Entry

__all__ = ["PLUGINS", "Admission", "Attributes", "refusal"]

PLUGINS: Final = ("ServiceAccount", "StorageObjectInUseProtection", "TaintNodesByCondition")
"""Built-in steps that can be switched off, by the names that the real server has for them."""


class Admission:
    """All of admission. `collection` gives the store's collection by name, `default` fills in an object's defaults."""

    def __init__(
        self,
        collection: Callable[[str], Collection],
        registry: Registry,
        authorizer: Authorizer,
        default: Callable[[Resource, Obj], None],
        resolve: Resolver,
        *,
        disabled: frozenset[str] = frozenset(),
    ) -> None:
        self._namespaces = _Decoded(collection("namespaces"))
        self._classes = _Decoded(collection("priorityclasses.scheduling.k8s.io"))
        self._runtimes = _Decoded(collection("runtimeclasses.node.k8s.io"))
        self._ranges = _Decoded(collection("limitranges"))
        self._storage = _Decoded(collection("storageclasses.storage.k8s.io"))
        self.quotas = Quotas(_Decoded(collection("resourcequotas")).within)
        self._mutating = Configurations(collection("mutatingwebhookconfigurations.admissionregistration.k8s.io"))
        self._validating = Configurations(collection("validatingwebhookconfigurations.admissionregistration.k8s.io"))
        self._registry, self._authorizer, self._disabled = registry, authorizer, disabled
        self._equivalent: dict[str, tuple[Resource, ...]] = {}
        self._equivalent_at = -1
        self._client = WebhookClient(resolve)
        self._webhooks = Webhooks(self._client, self._namespaces.get, self._equivalents, default, authorizer.allowed)

    async def close(self) -> None:
        await self._client.close()

    async def mutate(self, attributes: Attributes) -> Obj:
        """The object that will be stored if validation passes; changed in place or replaced."""
        obj = await self._mutated(attributes)
        assert obj is not None
        return obj

    async def admit(self, attributes: Attributes) -> Obj:
        """Both steps at once, for an object that is executed instead of stored: a binding, an eviction."""
        obj = await self.mutate(attributes)
        await self.validate(replace(attributes, obj=obj))
        return obj

    async def validate(self, attributes: Attributes) -> None:
        """The last word, on the finished object. Deletions have only this step, which asks the mutating hooks too."""
        if attributes.operation == "DELETE":
            await self._mutated(attributes)
        resource = attributes.resource
        if (resource.group, resource.plural) == ("scheduling.k8s.io", "priorityclasses"):
            priority.validate_class(attributes, self._classes.all)
        if limit_ranger.concerns(attributes):
            limit_ranger.check(attributes, self._ranges.within(attributes.namespace))
        if attributes.operation == "CREATE" and not attributes.subresource and resource.collection == "pods":
            assert attributes.obj is not None
            runtime_class.check(attributes, attributes.obj, self._runtimes.get)
        if (hooks := self._validating.hooks()) and not exempt(attributes):
            await self._webhooks.validate(hooks, attributes)
        await self.quotas.admit(attributes)

    async def _mutated(self, attributes: Attributes) -> Obj | None:
        self._built_in(attributes)
        obj = attributes.obj
        hooks = self._mutating.hooks()
        if hooks and not exempt(attributes):
            again = Reinvocation()
            obj = await self._webhooks.mutate(hooks, attributes, again)
            if again.asked_for and obj is not None:
                obj = await self._second_round(replace(attributes, obj=obj), again)
            attributes = replace(attributes, obj=obj)
        if role_escalation.concerns(attributes):
            role_escalation.admit(attributes, self._authorizer)
        return obj

    async def _second_round(self, attributes: Attributes, again: Reinvocation) -> Obj | None:
        before = msgspec.json.encode(attributes.obj)
        self._built_in(attributes)
        if msgspec.json.encode(attributes.obj) != before:
            again.object_changed()
        again.second_round = True
        return await self._webhooks.mutate(self._mutating.hooks(), attributes, again)

    def _built_in(self, attributes: Attributes) -> None:
        namespace_lifecycle.admit(attributes, self._namespaces.get)
        resource, obj = attributes.resource, attributes.obj
        if attributes.operation == "CREATE" and obj is not None and not attributes.subresource:
            newcomers.admit(resource.collection, obj, self._disabled)
            if resource.collection == "persistentvolumeclaims":
                default_class.complete(obj, self._storage.all())
        if resource.plural == "pods" and not resource.group and not attributes.subresource and obj is not None:
            self._complete_pod(attributes, obj)

    def _complete_pod(self, attributes: Attributes, pod: Obj) -> None:
        if attributes.operation != "CREATE":
            pod_admission.add_tolerations(pod)
            priority.keep(pod, attributes.old)
            return
        around = pod_admission.Surroundings(
            limit_ranges=self._ranges.within(attributes.namespace),
            priority_class=self._classes.get,
            priority_classes=self._classes.all,
            runtime_class=self._runtimes.get,
            service_accounts="ServiceAccount" not in self._disabled,
        )
        try:
            pod_admission.complete(pod, around)
        except pod_admission.PodRefused as error:
            raise refusal(attributes, str(error)) from error

    def _equivalents(self, resource: Resource) -> Iterable[Resource]:
        """The same objects under other groups and versions. Asked for every write and every hook."""
        if self._equivalent_at != self._registry.generation:
            self._equivalent_at = self._registry.generation
            self._equivalent.clear()
        equivalents = self._equivalent.get(resource.collection)
        if equivalents is None:
            equivalents = tuple(other for other in self._registry if other.collection == resource.collection)
            self._equivalent[resource.collection] = equivalents
        return equivalents


class _Decoded:
    """The objects of a collection as dicts, each decoded once per version. For reading only."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._kept: dict[str, tuple[Entry, Obj]] = {}

    def get(self, key: str) -> Obj | None:
        entry = self._collection.get(key)
        if entry is None:
            self._kept.pop(key, None)
            return None
        kept = self._kept.get(key)
        if kept is None or kept[0] is not entry:
            kept = self._kept[key] = (entry, msgspec.json.decode(entry.value))
        return kept[1]

    def within(self, namespace: str) -> list[Obj]:
        """Those of a namespace, by name."""
        entries = self._collection.entries(f"{namespace}/") if len(self._collection) else ()
        return [obj for entry in entries if (obj := self.get(entry.key)) is not None]

    def all(self) -> Iterable[Obj]:
        return [obj for entry in self._collection.entries() if (obj := self.get(entry.key)) is not None]
