"""Claims that keep a pod from its place: reservations of attempts that failed, and devices that it cannot reach.

A placement that was taken back may have left the pod in the claim's `reservedFor`; the allocation stays, and the next
attempt uses it. If that fits nowhere, and no other pod uses the claim, its devices are given back.
"""

from __future__ import annotations

from collections.abc import Iterator

from koord.api.kinds import RESOURCE_CLAIMS
from koord.api.kubernetes.dynamic_resources import ResourceClaim
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.writes import Patch, Tell
from koord.scheduler.plugins.dynamic_resources.ledger import Ledger
from koord.scheduler.plugins.dynamic_resources.pod_claims import NotReady, claims_of
from koord.scheduler.state.cluster import Cluster

DEALLOCATED = "deallocation of ResourceClaim completed"


class Tidying:
    """The writes of one cluster's plugin on claims that no binding brings about."""

    def __init__(self, cluster: Cluster, ledger: Ledger) -> None:
        self._cluster, self._ledger = cluster, ledger
        self._to_deallocate: dict[str, str] = {}
        "By key of a claim, its resource version when a pod could not use it."

    def failed(self, ask: Ask) -> None:
        """A pod fits nowhere: the first of its claims that pins it gives its devices back, if it alone uses them."""
        try:
            claims = claims_of(ask.pod, self._ledger)
        except NotReady:
            return
        for claim in claims:
            if self._pins(claim, ask):
                self._to_deallocate[claim.metadata.key] = claim.metadata.resource_version
                self._cluster.ask_again(self._cluster.now_s)
                return

    def _pins(self, claim: ResourceClaim, ask: Ask) -> bool:
        allocation = claim.status.allocation
        if allocation is None or (allocation.node_selector is None and not allocation.allocation_timestamp):
            return False
        if self._ledger.is_in_flight(claim):
            return False
        return all(consumer.uid == ask.meta.uid for consumer in claim.status.reserved_for)

    def writes(self) -> Iterator[Patch | Tell]:
        """The writes that are due."""
        wanted, self._to_deallocate = self._to_deallocate, {}
        for key, version in wanted.items():
            claim = self._ledger.claims.get(key)
            if claim is None or claim.metadata.resource_version != version:
                continue
            meta = claim.metadata
            status = {"allocation": None, "reservedFor": None, "devices": None}
            body = {"metadata": {"uid": meta.uid, "resourceVersion": version}, "status": status}
            yield Patch(RESOURCE_CLAIMS, meta.name, body, meta.namespace, subresource="status")
            yield Tell(RESOURCE_CLAIMS, claim, "Deallocated", DEALLOCATED)
        for claim, uid in self._ledger.take_stale_reservations():
            meta = claim.metadata
            gone = {"$patch": "delete", "uid": uid}
            body = {"metadata": {"uid": meta.uid}, "status": {"reservedFor": [gone]}}
            yield Patch(RESOURCE_CLAIMS, meta.name, body, meta.namespace, "strategic", "status")
