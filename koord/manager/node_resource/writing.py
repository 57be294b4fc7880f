"""When a recalculated figure is worth a write, and the patches that write it.

A node's status is written when a resource appears, disappears or differs by more than `resourceDiffThreshold`, and when
it was not written for `updateTimeThresholdSeconds` and differs at all. Usage wavers: where much is used and little is
left to lend, a few percent of the one are much of the other, so a change that wavering alone explains waits too. Only
what is measured wavers: a new request, a setting or a figure that falls to zero is written at once. So is what another
system has claimed: it waits for it. Where another system holds all that is lent, the pool before its share counts: it
has to give back what is not there any more. So are labels and annotations that others act upon. A figure of requests
and room is judged by its room, which is what is for sale. A patch names only what changes, and an empty patch is not
sent.

A patch that says what is lent is for the version of the node that was looked at: another system may claim a part at any
moment, and a patch that was made before must not arrive after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol import names
from koord.api.protocol.crd.node_resource_topology import Zone, ZoneResource
from koord.api.text.quantity import render, value
from koord.api.text.timestamp import from_seconds
from koord.manager.colocation_settings import given, setting
from koord.manager.figures import parts, room
from koord.manager.lending.freshness import duration
from koord.manager.lending.pool import LendingCondition, fully_held_pools, sold_twice
from koord.manager.node_resource.prepare import Prepared
from koord.manager.node_state import BATCH, LENDING, NodeFacts, TopologyFacts

RATIO_STEP: Final = 1
"""By how many hundredths more than this the normalisation ratio must move: it has two decimals."""
WAVERING: Final = 0.12
"""Of what is used: usage that goes 5% up and down differs by up to a tenth of its mean between two reports."""
LEAST_SHARE: Final = 0.02
"""Of a figure: a change of its room by less is not worth a write."""
_WITH_STATUS: Final = names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE
"""Says what the status says, and is written with it."""


class Comparison(Struct):
    """The published and the wanted amount of one resource."""

    resource: str
    published: int | None
    wanted: int | None
    beyond: bool
    "Whether the difference by itself is worth a write."
    wavering: int = 0
    "How much of a difference the usual ups and downs of usage explain."

    @property
    def differs(self) -> bool:
        return self.published != self.wanted


class WriteDecision(Struct):
    """What to write to a Node, if anything."""

    patch: Mapping[str, Any] | None
    "A strategic merge patch."
    status: bool
    "Whether it goes to the status, which restarts the time gate."
    comparisons: tuple[Comparison, ...]
    pending: bool
    "Whether something differs and waits for the time gate."
    why: str = ""


def is_beyond(published: int | None, wanted: int | None, threshold: float) -> bool:
    """Whether a difference is worth a write: strictly more than a share of what is published."""
    if published is None or wanted is None:
        return published is not wanted
    return abs(wanted - published) * 1000 > published * 1000 * threshold


def is_room_beyond(published: int, wanted: int, free: int, threshold: float) -> bool:
    """The same for a figure of requests and room: only the room is for sale, so its share counts. `free`: the room in
    the wanted figure. What is small beside the figure itself waits: room that is nearly gone moves with each report."""
    by = abs(wanted - published)
    return by > LEAST_SHARE * published and by > threshold * max(free, free + published - wanted)


def compare(
    node: NodeFacts, prepared: Prepared, strategy: ColocationStrategy, firm: Mapping[str, int] = EMPTY
) -> tuple[Comparison, ...]:
    """Published and wanted amounts. `firm`: the part of each published figure that was not measured, if known."""
    threshold = given(strategy.resource_diff_threshold)
    made_of = {figure.resource: parts(figure) for figure in prepared.figures}
    rooms = {figure.resource: room(figure) for figure in prepared.figures}
    comparisons = []
    twice, pools = sold_twice(node), fully_held_pools(node, prepared.resources, prepared.pool)
    for name, wanted in prepared.resources.items():
        published, own, moved = node.allocatable.get(name), 0, 0
        made = made_of.get(name)
        if made is not None:
            own, moved = int(made.measured * WAVERING), made.firm - firm.get(name, made.firm)
        beyond = is_beyond(published, wanted, threshold)
        # Any change from or to nothing is written: pods may wait for it, or run where nothing is left.
        if beyond and published and wanted and abs(wanted - published) <= own:
            beyond = is_beyond(published, published + moved, threshold)
        free = rooms.get(name)
        if free is not None and published and wanted:
            beyond = is_room_beyond(published, wanted, free, threshold)
        if name in twice and published and wanted is not None and wanted < published:
            beyond = True
        if name in pools and is_beyond(*pools[name], threshold):
            beyond = True
        comparisons.append(Comparison(name, published, wanted, beyond, own))
    return tuple(comparisons)


def firm_parts(prepared: Prepared) -> Mapping[str, int]:
    """By resource, the part of its figure that was not measured: to be kept until the next write."""
    return {figure.resource: parts(figure).firm for figure in prepared.figures}


def decide(
    node: NodeFacts,
    prepared: Prepared,
    strategy: ColocationStrategy,
    written_s: float | None,
    now_s: float,
    firm: Mapping[str, int] = EMPTY,
) -> WriteDecision:
    """What to write. `written_s` is when this process last wrote the status, None for never; `firm` are the
    `firm_parts` of what it wrote then."""
    comparisons = compare(node, prepared, strategy, firm)
    beyond = [comparison.resource for comparison in comparisons if comparison.beyond]
    open_gate = is_gate_open(strategy, written_s, now_s)
    annotations = {key: text for key, text in prepared.annotations.items() if node.annotations.get(key) != text}
    labels = {key: text for key, text in prepared.labels.items() if node.labels.get(key) != text}
    differs = any(comparison.differs or _capacity_differs(node, comparison) for comparison in comparisons)
    lending = prepared.lending
    if lending is not None and node.lending == (lending.status, lending.reason):
        lending = None
    # Both describe the resources and are written with them: a change of text alone does not cause an earlier write.
    told_late = _WITH_STATUS in annotations or lending is not None
    if beyond or (open_gate and (differs or told_late)):
        why = f"{', '.join(beyond)} beyond the threshold" if beyond else "not written for long"
        return WriteDecision(
            _patch(node, comparisons, annotations, labels, _condition(lending, now_s)),
            True,
            comparisons,
            pending=False,
            why=why,
        )
    urgent = {key: text for key, text in annotations.items() if _is_urgent(key, node.annotations.get(key), text)}
    waiting = differs or told_late
    if urgent or labels:
        why = ", ".join((*urgent, *labels))
        return WriteDecision(_patch(node, (), urgent, labels), False, comparisons, pending=waiting, why=why)
    return WriteDecision(None, False, comparisons, pending=waiting)


def is_gate_open(strategy: ColocationStrategy, written_s: float | None, now_s: float) -> bool:
    return written_s is None or now_s - written_s > given(strategy.update_time_threshold_seconds)


def gate_opens_s(strategy: ColocationStrategy, written_s: float) -> float:
    """After this moment, any difference is written."""
    return written_s + given(strategy.update_time_threshold_seconds)


def why_not_written(
    comparison: Comparison, strategy: ColocationStrategy, written_s: float | None, now_s: float, manager: str = ""
) -> str:
    """Why a published figure is not the recomputed one; empty where it is. `manager` is who should write it."""
    if not comparison.differs:
        return ""
    soon = f"when the manager next looks ({manager})" if manager else "when the manager next looks"
    if comparison.wanted is None:
        return f"it is taken away {soon}"
    if comparison.published is None:
        return f"nothing is published yet: it is {soon}"
    if not comparison.published:
        return f"any change from nothing is written {soon}"
    said = f"differs by {abs(comparison.wanted - comparison.published) / comparison.published:.1%}"
    threshold = setting(strategy, "resource_diff_threshold")
    if comparison.beyond:
        return f"{said}, more than {threshold} lets stand: it is written {soon}"
    if is_beyond(comparison.published, comparison.wanted, given(strategy.resource_diff_threshold)):
        said = f"{said}, no more than what is used may waver from one report to the next"
    else:
        said = f"{said}, which {threshold} lets stand"
    if written_s is None:
        return f"{said} until {setting(strategy, 'update_time_threshold_seconds')} have passed since the last write"
    left_s = gate_opens_s(strategy, written_s) - now_s
    if left_s < 0:
        return f"{said}; written {duration(now_s - written_s)} ago, it is written again {soon}"
    return f"{said}; written {duration(now_s - written_s)} ago, it is written again in {duration(left_s)}"


def zone_changes(
    topology: TopologyFacts, wanted: Mapping[str, Mapping[str, int]], threshold: float
) -> Mapping[str, Any] | None:
    """The patch that brings the zones of a NodeResourceTopology in step; None where they are. Zones are one list."""
    if not wanted:
        return None
    zones = [_zone(zone, wanted.get(zone.name), threshold) for zone in topology.zones]
    if all(new is old for new, old in zip(zones, topology.zones, strict=True)):
        return None
    return {"metadata": {"uid": topology.uid, "resourceVersion": topology.version}, "zones": zones}


def _zone(zone: Zone, wanted: Mapping[str, int] | None, threshold: float) -> Zone:
    """A zone with its batch resources; itself where nothing changes. One without a result has none left."""
    present = {resource.name: resource for resource in zone.resources}
    new = dict(present)
    for name in BATCH:
        amount = 0 if wanted is None else wanted.get(name)
        old = present.get(name)
        if amount is None or (wanted is None and old is None):
            continue
        if old is None or any(
            is_beyond(value(stored), amount, threshold) for stored in (old.capacity, old.allocatable, old.available)
        ):
            shown = render(name, amount)
            new[name] = ZoneResource(name, shown, shown, shown)
    if new == present:
        return zone
    return replace(zone, resources=tuple(sorted(new.values(), key=lambda resource: resource.name)))


def _is_urgent(key: str, old: str | None, new: str | None) -> bool:
    if key == _WITH_STATUS:
        return False
    if key != names.ANNOTATION_CPU_NORMALIZATION_RATIO or old is None or new is None:
        return True
    try:
        return abs(round(float(old) * 100) - round(float(new) * 100)) > RATIO_STEP
    except (ValueError, OverflowError):
        return True


def _condition(lending: LendingCondition | None, now_s: float) -> Mapping[str, str] | None:
    if lending is None:
        return None
    return {
        "type": LENDING,
        "status": lending.status,
        "reason": lending.reason,
        "message": lending.message,
        "lastTransitionTime": from_seconds(now_s),
    }


def _capacity_differs(node: NodeFacts, comparison: Comparison) -> bool:
    return node.lent_capacity.get(comparison.resource) != comparison.wanted


def _patch(
    node: NodeFacts,
    comparisons: Sequence[Comparison],
    annotations: Mapping[str, str | None],
    labels: Mapping[str, str],
    condition: Mapping[str, str] | None = None,
) -> Mapping[str, Any]:
    """A patch for exactly this node: a node that was created again under its name is another one."""
    metadata: dict[str, Any] = {"uid": node.uid} if node.uid else {}
    lends = any(comparison.wanted is not None for comparison in comparisons)
    # What is taken back whole can be late and still sells nothing twice.
    if node.version and (lends or (not comparisons and names.ANNOTATION_THIRD_PARTY_ALLOCATIONS in node.annotations)):
        metadata["resourceVersion"] = node.version
    if annotations:
        metadata["annotations"] = dict(annotations)
    if labels:
        metadata["labels"] = dict(labels)
    patch: dict[str, Any] = {"metadata": metadata} if metadata else {}
    lists: dict[str, dict[str, str | None]] = {"capacity": {}, "allocatable": {}}
    for comparison in comparisons:
        shown = None if comparison.wanted is None else render(comparison.resource, comparison.wanted)
        if _capacity_differs(node, comparison):
            lists["capacity"][comparison.resource] = shown
        if comparison.differs:
            lists["allocatable"][comparison.resource] = shown
    status: dict[str, Any] = {name: changes for name, changes in lists.items() if changes}
    if condition is not None:
        status["conditions"] = [dict(condition)]
    if status:
        patch["status"] = status
    return patch
