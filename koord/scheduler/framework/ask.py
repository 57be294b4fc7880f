"""A pod that asks for a place: the decoded Pod, and what several plugins want to know of it, worked out once."""

from __future__ import annotations

from functools import cached_property

from koord.api.pod import Pod
from koord.api.words import PodConditionType
from koord.scheduler.state.pods import (
    Amounts,
    HostPort,
    LoadBasis,
    PodRecord,
    disks_of,
    host_ports_of,
    load_basis_of,
    named_claims_of,
    non_zero_of,
    own_claims_of,
    requests_of,
    since_s,
)
from koord.scheduler.state.terms import PodTerms, terms_of


class Ask:
    """What plugins get to see of a pod."""

    def __init__(self, pod: Pod) -> None:
        self.pod, self.spec, self.meta = pod, pod.spec, pod.metadata

    @cached_property
    def key(self) -> str:
        return self.meta.key

    @cached_property
    def requests(self) -> Amounts:
        return requests_of(self.pod)

    @cached_property
    def non_zero(self) -> tuple[int, int]:
        return non_zero_of(self.pod)

    @cached_property
    def ports(self) -> tuple[HostPort, ...]:
        return host_ports_of(self.pod)

    @cached_property
    def terms(self) -> PodTerms:
        return terms_of(self.pod)

    @cached_property
    def load(self) -> LoadBasis:
        return load_basis_of(self.pod)

    @cached_property
    def claims(self) -> tuple[str, ...]:
        return named_claims_of(self.pod) if self.spec.volumes else ()

    @cached_property
    def own_claims(self) -> tuple[str, ...]:
        return own_claims_of(self.pod) if self.spec.volumes else ()

    def record(self) -> PodRecord:
        """What the state keeps of it once it has a node."""
        meta = self.meta
        return PodRecord(
            self.key,
            meta.uid,
            meta.namespace,
            meta.labels,
            self.requests,
            self.non_zero,
            self.ports,
            self.spec.priority or 0,
            meta.deletion_timestamp is not None,
            meta.controller,
            self.terms.held,
            claims=self.claims,
            own_claims=self.own_claims,
            disks=disks_of(self.pod) if self.spec.volumes else (),
            load=self.load,
            placed_s=since_s(self.pod, PodConditionType.SCHEDULED),
            initialized_s=since_s(self.pod, PodConditionType.INITIALIZED),
        )
