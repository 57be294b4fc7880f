"""What claims say of nodes: a filter that is cheap and necessary, and the search on the node that won.

The filter asks of each request whether a node sees enough free devices that it means; whether all requests can have
theirs at once, the exact check finds out. Allocated claims only say which nodes can use their devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from koord.api.kubernetes.dynamic_resources import AllocationResult, ResourceClaim
from koord.api.kubernetes.taints import untolerated
from koord.api.text.selector import NodeSelector
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Numbers
from koord.scheduler.framework.change import Change, listed
from koord.scheduler.framework.exact_check import Door, ExactCheck, Objection
from koord.scheduler.framework.explains import Explains
from koord.scheduler.framework.judge import Judge
from koord.scheduler.plugins.dynamic_resources import changes
from koord.scheduler.plugins.dynamic_resources.alternatives import Alternatives
from koord.scheduler.plugins.dynamic_resources.ledger import ClaimUse, Ledger, Uses
from koord.scheduler.plugins.dynamic_resources.pod_claims import NotReady, claims_of
from koord.scheduler.plugins.dynamic_resources.pools import SlicedDevice, selects_node
from koord.scheduler.plugins.dynamic_resources.quantities import consumed
from koord.scheduler.plugins.dynamic_resources.requests import ClaimWanted, Unanswerable, Wanted, wanted_of
from koord.scheduler.plugins.dynamic_resources.results import allocations
from koord.scheduler.plugins.dynamic_resources.search import NoSolution, has_room, is_meant, search
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Reason, Row

ELSEWHERE: Final = "resourceclaim not available on the node"
CANNOT: Final = "cannot allocate all claims"
_ELSEWHERE_BIT: Final = 1
_MOST_BITS: Final = 60
_TAKEN_NAMED: Final = 3


class ClaimJudge(Judge, Explains):
    filters_on = Reason.NODE | Reason.LABELS | Reason.EXACT

    def __init__(
        self,
        cluster: Cluster,
        ledger: Ledger,
        wanted: Sequence[ClaimWanted],
        reach: Iterable[NodeSelector],
        *,
        nowhere: bool,
    ) -> None:
        """`wanted`: claims without devices. `reach`: the nodes that can use the devices of the others. `nowhere`: some
        of these devices cannot be used at all."""
        self._cluster, self._ledger, self._nowhere = cluster, ledger, nowhere
        self._reach = tuple(reach)
        self._requests = [alternatives for claim in wanted for alternatives in claim.requests]
        self.exact = _Search(cluster, ledger)
        if any(claim.has_alternatives for claim in wanted):
            self.facets = (Alternatives(cluster, ledger, wanted),)

    def feasible(self, cells: Cells) -> Numbers:
        if isinstance(cells.rows, int):
            return self._code(cells.rows)
        rows: Array = np.arange(self._cluster.table.capacity)[cells.rows]
        return np.array([self._code(row) for row in rows.tolist()], np.int64)

    def reasons(self, mask: int) -> list[str]:
        if mask & _ELSEWHERE_BIT:
            return [ELSEWHERE]
        return list(
            dict.fromkeys(self._reason(wanted) for i, wanted in enumerate(self._requests) if mask >> _bit(i) & 1)
        )

    def unresolvable(self, masks: Array, rows: Array) -> Array:
        # A pod that goes frees no device: its claim keeps them.
        return np.ones(len(rows), np.bool_)

    def detail(self, reason: str, rows: Sequence[Row]) -> str:
        """How many devices there are on these nodes that a request means, and who has them."""
        alternatives = next((wanted for wanted in self._requests if self._reason(wanted) == reason), None)
        if alternatives is None:
            return ""
        wanted, holders, free, faults = alternatives[0], Counter[str](), 0, list[str]()
        taken = 0
        for row in rows:
            for device in self._devices(row):
                answer = is_meant(wanted, device)
                if isinstance(answer, str):
                    faults.append(answer)
                elif answer and self._is_usable(wanted, device):
                    free += 1
                elif answer:
                    taken += 1
                    holders.update(self._ledger.usage.holders.get(device.id, {}).keys())
        if not (taken or free):
            return faults[0] if faults else f"no device of class {wanted.class_name} is there"
        named = [claim for claim, _ in holders.most_common(_TAKEN_NAMED)]
        more = len(holders) - len(named)
        whose = f" by {listed([*named, f'{more} more'] if more > 0 else named)}" if named else ""
        words = f"{free} of {free + taken} devices are free, {wanted.least} needed"
        return f"{words}; {taken} {'is' if taken == 1 else 'are'} taken{whose}" if taken else words

    def lack(self, cells: Cells) -> Numbers:
        if not isinstance(cells.rows, int):
            rows: Array = np.arange(self._cluster.table.capacity)[cells.rows]
            return np.array([self._lack(row) for row in rows.tolist()])
        return self._lack(cells.rows)

    def fixes(self, ask: Ask, row: Row) -> Sequence[Change]:
        try:
            claims = [claim for claim in claims_of(ask.pod, self._ledger) if self._ledger.allocation(claim) is None]
            wanted = [wanted_of(claim, self._ledger.classes) for claim in claims]
        except (NotReady, Unanswerable):
            return ()
        return [
            change
            for claim, claim_wanted in zip(claims, wanted, strict=True)
            for alternatives in claim_wanted.requests
            if not self._has_enough(alternatives, row)
            for change in self._changes(claim, alternatives[0], row)
        ]

    def _changes(self, claim: ResourceClaim, wanted: Wanted, row: Row) -> Iterable[Change]:
        meant = [device for device in self._devices(row) if is_meant(wanted, device) is True]
        free = [device for device in meant if self._is_usable(wanted, device)]
        return changes.changes(claim, wanted, meant, free, self._ledger)

    def _code(self, row: Row) -> int:
        node = self._cluster.nodes.get(row)
        if node is None:
            return 0
        if self._nowhere or not all(selects_node(selector, node) for selector in self._reach):
            return _ELSEWHERE_BIT
        code = 0
        for i, alternatives in enumerate(self._requests):
            if not self._has_enough(alternatives, row):
                code |= 1 << _bit(i)
        return code

    def _has_enough(self, alternatives: Sequence[Wanted], row: Row) -> bool:
        return any(self._number(wanted, row) >= wanted.least for wanted in alternatives)

    def _number(self, wanted: Wanted, row: Row) -> int:
        """How many free devices a node sees that a request means; no more than it needs."""
        number, least = 0, wanted.least
        for device in self._devices(row):
            if self._is_usable(wanted, device) and is_meant(wanted, device) is True:
                number += 1
                if number >= least:
                    break
        return number

    def _lack(self, row: Row) -> float:
        most = 0.0
        for alternatives in self._requests:
            wanted = alternatives[0]
            most = max(most, 1 - self._number(wanted, row) / wanted.least)
        return most

    def _devices(self, row: Row) -> Iterable[SlicedDevice]:
        return (device for pool in self._ledger.pools(row) if not pool.problem for device in pool.devices)

    def _is_usable(self, wanted: Wanted, device: SlicedDevice) -> bool:
        """Whether a device is free for a request, as far as it alone tells."""
        usage = self._ledger.usage
        if not wanted.is_admin and device.id in usage.taken:
            return False
        if device.taints and untolerated(device.taints, wanted.tolerations) is not None:
            return False
        if not (wanted.capacity or device.device.allow_multiple_allocations):
            return True
        consumes = consumed(device.device, wanted.capacity)
        if consumes is None:
            return False
        return has_room(device, consumes, usage.consumed.get(device.id))

    @staticmethod
    def _reason(alternatives: Sequence[Wanted]) -> str:
        names = list(dict.fromkeys(wanted.class_name for wanted in alternatives))
        return f"{CANNOT}: too few free devices of class {' or '.join(names)}"


def _bit(request: int) -> int:
    return min(request + 1, _MOST_BITS)


class _Search(ExactCheck):
    def __init__(self, cluster: Cluster, ledger: Ledger) -> None:
        self._cluster, self._ledger = cluster, ledger

    def check(self, ask: Ask, row: Row, agreed: object = None, door: Door | None = None) -> object:
        ledger = self._ledger
        try:
            claims = claims_of(ask.pod, ledger)
            fresh = [claim for claim in claims if ledger.allocation(claim) is None]
            wanted = [wanted_of(claim, ledger.classes) for claim in fresh]
        except (NotReady, Unanswerable) as error:
            return Objection(str(error), resolvable=False)
        by_uid: dict[str, AllocationResult] = {}
        if wanted:
            solution = search(wanted, ledger.pools(row), ledger.usage)
            if isinstance(solution, NoSolution):
                why = f"{CANNOT}: {solution.why}" if solution.why else CANNOT
                return Objection(why, resolvable=False)
            node = self._cluster.table.names[row]
            made = allocations(wanted, solution, node, ledger.classes, self._cluster.now_s)
            by_uid = {claim.metadata.uid: allocation for claim, allocation in zip(fresh, made, strict=True)}
        uses: Uses = tuple(
            [ClaimUse(claim.metadata.key, claim.metadata.uid, self._given(claim, by_uid)) for claim in claims]
        )
        return uses

    def _given(self, claim: ResourceClaim, by_uid: dict[str, AllocationResult]) -> AllocationResult | None:
        """What a claim gets by this placement, or by that of another pod, which is not stored yet."""
        if claim.status.allocation is not None:
            return None
        return by_uid.get(claim.metadata.uid) or self._ledger.allocation(claim)
