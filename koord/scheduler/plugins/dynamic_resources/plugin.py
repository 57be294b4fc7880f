"""DynamicResources: gives devices to the claims of pods (dynamic resource allocation).

What a claim gets is written into its status before its pod is bound; drivers on the node act on that.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import cast

from koord.api.configuration.scheduler_args import DynamicResourcesArgs
from koord.api.kinds import DEVICE_CLASSES, DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from koord.api.kubernetes.dynamic_resources import ResourceClaim
from koord.api.text.duration import parse_duration
from koord.scheduler.core.queue import ClusterEvent
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.controller import Controller
from koord.scheduler.framework.judge import Judge, Refused
from koord.scheduler.framework.placement import Placement
from koord.scheduler.framework.plugin import KeyedBy, Plugin, Taking
from koord.scheduler.framework.queueing import Queueing
from koord.scheduler.framework.refusals import Refusals
from koord.scheduler.framework.stable import Version
from koord.scheduler.framework.writes import PreBind
from koord.scheduler.plugins.dynamic_resources.conditions import failure
from koord.scheduler.plugins.dynamic_resources.judge import ClaimJudge
from koord.scheduler.plugins.dynamic_resources.ledger import NAME, Ledger, Uses
from koord.scheduler.plugins.dynamic_resources.pod_claims import NotReady, claims_of
from koord.scheduler.plugins.dynamic_resources.requests import Unanswerable, wanted_of
from koord.scheduler.plugins.dynamic_resources.steps import claim_steps
from koord.scheduler.plugins.dynamic_resources.tidying import Tidying
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Reason, Row


def _helps(ask: Ask, event: ClusterEvent, cluster: Cluster) -> bool:
    """A claim that has devices, or asks for some, helps only pods that use it."""
    claim = event.subject
    if not isinstance(claim, ResourceClaim) or event.name == "ResourceClaimDeallocate":
        return True
    if claim.metadata.namespace != ask.meta.namespace:
        return False
    made = claim.metadata.controller is not None
    return any(
        made if use.resource_claim_name is None else use.resource_claim_name == claim.metadata.name
        for use in ask.spec.resource_claims
    )


class DynamicResources(Plugin):
    name = NAME
    notes = Ledger
    wakes_on = Reason.NODE | Reason.LABELS | Reason.CLAIMS
    queueing = Queueing(helps=_helps)

    def __init__(self, args: DynamicResourcesArgs | None = None) -> None:
        self._within_s = parse_duration((args or DynamicResourcesArgs()).binding_timeout)

    def attach(self, cluster: Cluster) -> None:
        self._ledger = cluster.notes(Ledger)
        tidying = Tidying(cluster, self._ledger)
        self.refusals = _Attempts(tidying)
        self.controller = Controller(tidying.writes)

    def takes(self) -> Iterable[Taking]:
        ledger = self._ledger
        yield Taking(DEVICE_CLASSES, ledger.put_class, ledger.remove_class)
        yield Taking(RESOURCE_SLICES, ledger.put_slice, ledger.remove_slice)
        yield Taking(DEVICE_TAINT_RULES, ledger.put_rule, ledger.remove_rule)
        yield Taking(RESOURCE_CLAIMS, ledger.put_claim, ledger.remove_claim)
        yield Taking(PODS, ledger.put_pod, ledger.remove_pod)

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.POD if ask.spec.resource_claims else KeyedBy.SPEC

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        if not ask.spec.resource_claims:
            return None
        ledger = self._ledger
        try:
            claims = claims_of(ask.pod, ledger)
        except NotReady as error:
            return str(error)
        # Of claims with devices only the nodes matter that can use them, so that many pods are alike.
        return tuple([self._key_of(claim) for claim in claims]), Version(ledger.class_version)

    def _key_of(self, claim: ResourceClaim) -> Hashable:
        allocation = self._ledger.allocation(claim)
        if allocation is None:
            return self._ledger.spec_of(claim.metadata.key)
        return allocation.node_selector, bool(failure(claim, self._ledger.cluster.now_s, self._within_s))

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        if not ask.spec.resource_claims:
            return None
        ledger = self._ledger
        try:
            claims = claims_of(ask.pod, ledger)
            wanted = [wanted_of(claim, ledger.classes) for claim in claims if ledger.allocation(claim) is None]
        except (NotReady, Unanswerable) as error:
            return Refused(str(error))
        held = [(claim, allocation) for claim in claims if (allocation := ledger.allocation(claim)) is not None]
        reach = [allocation.node_selector for _, allocation in held if allocation.node_selector is not None]
        nowhere = any(failure(claim, cluster.now_s, self._within_s) for claim, _ in held)
        return ClaimJudge(cluster, ledger, wanted, reach, nowhere=nowhere)

    def reserve(self, ask: Ask, row: Row, cluster: Cluster, checked: object) -> object:
        return checked

    def pre_bind(self, ask: Ask, row: Row, cluster: Cluster, note: object) -> PreBind | None:
        if note is None:
            return None
        return PreBind(steps=claim_steps(self.name, ask, cast(Uses, note), self._ledger, self._within_s))


class _Attempts(Refusals):
    """Sees how attempts end: a claim whose devices its pod cannot reach gives them back."""

    def __init__(self, tidying: Tidying) -> None:
        self._tidying = tidying

    def refuses(self, ask: Ask) -> str | None:
        return None

    def lets_through(self, asks: Sequence[Ask]) -> int:
        return len(asks)

    def tried(self, asks: Sequence[Ask], placements: Sequence[Placement]) -> None:
        for ask, placement in zip(asks, placements, strict=True):
            if placement.node is None and NAME in placement.why_not and ask.spec.resource_claims:
                self._tidying.failed(ask)
