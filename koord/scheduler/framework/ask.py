"""A pod that asks for a place: the decoded Pod, and what several plugins want to know of it, worked out once."""

from __future__ import annotations

from functools import cached_property

from koord.api.pod import Pod
from koord.scheduler.state.pods import Amounts, HostPort, PodRecord, host_ports_of, non_zero_of, requests_of


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
        )
