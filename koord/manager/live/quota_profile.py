"""The quota-profile loop: keeps the root quotas of trees as large as their nodes, looking every few seconds.

Profiles come in small numbers, nodes change all the time: so profiles are looked at by the clock, not by node events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from koord.api.kinds import ELASTIC_QUOTA_PROFILES, ELASTIC_QUOTAS
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.api.protocol.crd.elastic_quota import ElasticQuotaProfile
from koord.kube.client import Client
from koord.kube.controller import Controller, Requeue
from koord.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from koord.kube.events import EventRecorder, reference
from koord.kube.informer import Informer
from koord.kube.store import Delta
from koord.manager.live.metrics import ManagerMetrics
from koord.manager.live.sources import Sources
from koord.manager.quota_profile import WantedQuota, tree_id, wanted_quota
from koord.manager.writes import FIELD_MANAGER

PERIOD_S: Final = 10.0
AFTER_FAILURE_S: Final = 2.0


class QuotaProfileLoop:
    def __init__(self, client: Client, sources: Sources, events: EventRecorder, metrics: ManagerMetrics) -> None:
        self._client, self._sources, self._events = client, sources, events
        self.controller: Controller[str] = Controller(
            "quotaprofile",
            self._reconcile,
            queue_observer=metrics.metrics.queue("quotaprofile"),
            observer=metrics.metrics.reconciler("quotaprofile"),
        )
        self.controller.watch(sources.nodes, lambda delta: ())
        sources.when_there("profiles", self._follow)

    def stop_listening(self) -> None:
        """Nothing outside of the controller is listened to."""

    def _follow(self, informer: Informer[ElasticQuotaProfile]) -> None:
        self.controller.watch(informer, _of_profile)

    async def _reconcile(self, key: str) -> Requeue | None:
        sources = self._sources
        profile = None if sources.profiles is None else sources.profiles.get(key)
        if profile is None or sources.quotas is None:
            return None
        about = reference(ELASTIC_QUOTA_PROFILES, profile)
        try:
            wanted = wanted_quota(profile, (node.part for node in sources.nodes.list()))
        except BadInput as error:
            self._events.record(about, "InvalidProfile", str(error), type="Warning")
            return Requeue(PERIOD_S)
        present = sources.quotas.get(f"{wanted.namespace}/{wanted.name}")
        try:
            await self._name_tree(profile)
            if present is None:
                await self._client.create(ELASTIC_QUOTAS, _body(wanted, whole=True), field_manager=FIELD_MANAGER)
            elif not wanted.is_in(present):
                await self._client.patch(
                    ELASTIC_QUOTAS,
                    wanted.name,
                    _body(wanted, whole=False),
                    namespace=wanted.namespace,
                    field_manager=FIELD_MANAGER,
                )
        except (AlreadyExists, NotFound, Conflict):
            return Requeue(AFTER_FAILURE_S)
        except ApiError as error:
            reason = "CreateQuotaFailed" if present is None else "UpdateQuotaFailed"
            self._events.record(about, reason, str(error), type="Warning")
            return Requeue(AFTER_FAILURE_S)
        return Requeue(PERIOD_S)

    async def _name_tree(self, profile: ElasticQuotaProfile) -> None:
        """A profile that names no tree is given one, which its own name determines."""
        meta = profile.metadata
        if meta.labels.get(names.LABEL_QUOTA_TREE_ID):
            return
        patch = {"metadata": {"uid": meta.uid, "labels": {names.LABEL_QUOTA_TREE_ID: tree_id(profile)}}}
        await self._client.patch(
            ELASTIC_QUOTA_PROFILES, meta.name, patch, namespace=meta.namespace, field_manager=FIELD_MANAGER
        )


def _of_profile(delta: Delta[ElasticQuotaProfile]) -> Iterable[str]:
    return () if delta.new is None else (delta.key,)


def _body(wanted: WantedQuota, *, whole: bool) -> dict[str, Any]:
    metadata: dict[str, Any] = {"labels": dict(wanted.labels), "annotations": dict(wanted.annotations)}
    if whole:
        metadata |= {"name": wanted.name, "namespace": wanted.namespace}
    return {"metadata": metadata, "spec": {"min": dict(wanted.min), "max": dict(wanted.max)}}
