"""When a figure is worth a write, what the write names, and when to look again."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from koord.api.configuration.slo_config import SloConfig
from koord.manager.node_resource.prepare import prepare
from koord.manager.node_resource.requeue import AFTER_S, requeue_at_s, wait_for_report_s
from koord.manager.node_resource.writing import WriteDecision, decide, firm_parts, is_beyond, zone_changes
from koord.manager.node_state import NodeState, topology_facts
from tests.manager.builders import (
    API,
    NOW_S,
    WEB,
    base,
    config,
    device,
    metric,
    node,
    outcomes,
    pod,
    prepared,
    settings,
    state,
    topology,
)

CPU, MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
SHOWN = {CPU: "26700", MEMORY: "137868450202", "kubernetes.io/mid-cpu": "0", "kubernetes.io/mid-memory": "0"}
ORIGIN = '{"resources":{"kubernetes.io/batch-cpu":"26700","kubernetes.io/batch-memory":"137868450202"}}'
SAID = {
    "node.koordinator.sh/cpu-normalization-ratio": "1.00",
    "node.koordinator.sh/originExtendedAllocatable": ORIGIN,
}


def written(given: NodeState, slo: SloConfig | None = None, ago_s: float | None = 100.0) -> WriteDecision:
    slo = slo or config()
    strategy = settings(given, slo).colocation
    return decide(given.node, prepared(given, slo), strategy, None if ago_s is None else NOW_S - ago_s, NOW_S)


def test_a_node_that_shows_what_it_should_is_not_written_even_by_a_new_process() -> None:
    decision = written(state(node(published=SHOWN, annotations=SAID), report=base()), ago_s=None)
    assert decision.patch is None
    assert not decision.pending


def test_the_first_write_names_only_what_changes() -> None:
    decision = written(state(report=base()), ago_s=None)
    assert decision.status
    lent = {CPU: "26700", MEMORY: "137868450202", "kubernetes.io/mid-cpu": "0", "kubernetes.io/mid-memory": "0"}
    assert decision.patch is not None
    (condition,) = decision.patch["status"].pop("conditions")
    assert (condition["type"], condition["status"]) == ("koordinator.sh/Lending", "True")
    assert decision.patch == {
        "metadata": {"uid": "uid-n1", "resourceVersion": "1", "annotations": SAID},
        "status": {"capacity": lent, "allocatable": lent},
    }


def test_a_small_difference_waits_for_its_time() -> None:
    given = state(node(published={**SHOWN, CPU: "26k"}, annotations=SAID), report=base())
    assert written(given).patch is None
    assert written(given).pending
    assert written(given, ago_s=300).patch is None
    late = written(given, ago_s=300.1)
    assert late.patch is not None
    assert late.patch["status"] == {"capacity": {CPU: "26700"}, "allocatable": {CPU: "26700"}}


def test_what_is_taken_back_is_null_in_the_patch() -> None:
    decision = written(state(node(published=SHOWN, annotations=SAID), report=None))
    assert decision.patch is not None
    assert decision.patch["status"]["allocatable"] == dict.fromkeys(SHOWN)
    assert "originExtendedAllocatable" in str(decision.patch["metadata"])
    (condition,) = decision.patch["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "NoReport")
    assert "no NodeMetric" in condition["message"]


def test_a_node_on_which_nothing_was_lent_is_not_touched_where_co_location_is_off() -> None:
    assert written(state(report=base()), config(enable=False), ago_s=None).patch is None


def test_switching_off_takes_back_at_once() -> None:
    decision = written(state(node(published=SHOWN, annotations=SAID), report=base()), config(enable=False), ago_s=1)
    assert decision.patch is not None
    assert decision.patch["status"]["allocatable"] == dict.fromkeys(SHOWN)
    assert "cpu-normalization-ratio" not in str(decision.patch)


@pytest.mark.parametrize(
    ("old", "new", "urgent"),
    [(None, "1.00", True), ("1.00", "1.01", False), ("1.00", "1.02", True), ("x", "1.00", True)],
)
def test_the_ratio_is_written_at_once_where_it_moves(old: str | None, new: str, urgent: bool) -> None:
    said = {**SAID, "node.koordinator.sh/cpu-normalization-ratio": old}
    given = state(
        node(published=SHOWN, annotations={key: text for key, text in said.items() if text is not None}), report=base()
    )
    wanted = prepared(given, config())
    wanted = replace(wanted, annotations={**wanted.annotations, "node.koordinator.sh/cpu-normalization-ratio": new})
    decision = decide(given.node, wanted, settings(given, config()).colocation, NOW_S - 100, NOW_S)
    assert (decision.patch is not None) == urgent
    assert not decision.status


def test_labels_of_devices_are_written_without_the_status() -> None:
    devices = device([{"type": "gpu", "health": True}], {"node.koordinator.sh/gpu-model": "H200"})
    given = state(
        node(published={**SHOWN, "koordinator.sh/gpu": "0"}, annotations=SAID), report=base(), devices=devices
    )
    decision = written(given)
    assert not decision.status
    assert decision.patch == {"metadata": {"uid": "uid-n1", "labels": {"node.koordinator.sh/gpu-model": "H200"}}}


@pytest.mark.parametrize(
    ("published", "wanted", "beyond"),
    [
        (None, None, False),
        (None, 0, True),
        (0, None, True),
        (0, 0, False),
        (0, 1, True),
        (10, 11, False),
        (10, 12, True),
    ],
)
def test_presence_counts_and_a_share_of_what_is_published(
    published: int | None, wanted: int | None, beyond: bool
) -> None:
    assert is_beyond(published, wanted, 0.1) == beyond


def test_under_noise_of_5_percent_a_node_is_written_once_in_300_s() -> None:
    dice = random.Random(7)
    slo, now_s, written_s, writes = config(), NOW_S, None, []
    given = state(node(annotations=SAID), report=base())
    while now_s < NOW_S + 3600:
        noise = dice.uniform(0.95, 1.05)
        report = base(pods={"web": (f"{int(6200 * noise)}m", f"{int(20480 * noise)}Mi")}, age_s=NOW_S - now_s)
        seen = state(report=report)
        given = NodeState(given.node, seen.pods, seen.metric)
        shown = prepare(given.node, outcomes(given, slo, now_s))
        decision = decide(given.node, shown, settings(given, slo).colocation, written_s, now_s)
        if decision.patch is not None:
            writes.append(now_s)
            written_s = now_s if decision.status else written_s
            lent = {name: amount for name, amount in shown.resources.items() if amount is not None}
            facts = replace(
                given.node,
                allocatable=lent,
                lent_capacity=lent,
                annotations={**SAID, **_set(shown)},
                lending=("True", "Reported"),
            )
            given = NodeState(facts, given.pods, given.metric)
        now_s += 60
    assert 2 <= len(writes) <= 12
    assert all(later - earlier > 300 for earlier, later in pairwise(writes))


def _set(shown: Any) -> dict[str, str]:
    return {key: text for key, text in shown.annotations.items() if text is not None}


def test_what_wavering_usage_explains_waits_and_a_real_change_does_not() -> None:
    # 64 - 25.6 kept free - 2.5 system - (28 + 3) used = 4.9 cores; of the 33.5 used, 12% are 4.02.
    given = state(node(published=SHOWN, annotations=SAID), report=base(pods={"web": ("28", "20Gi")}))
    wanted = prepared(given, config()).resources[CPU]
    assert wanted == 4_900
    for published, is_written in ((8_900, False), (1_000, False), (8_950, True), (800, True), (0, True)):
        assert is_beyond(published, wanted, 0.1)
        facts = replace(given.node, allocatable={**given.node.allocatable, CPU: published})
        seen = NodeState(facts, given.pods, given.metric)
        (comparison,) = [comparison for comparison in written(seen).comparisons if comparison.resource == CPU]
        assert comparison.beyond == is_written, published


def test_a_new_request_is_taken_back_at_once_where_requests_decide() -> None:
    # 256Gi - 89.6Gi kept free - (32 + 16 + 100)Gi requested = 18.4Gi. 8Gi more is less than 12% of all requests.
    slo = config(memoryCalculatePolicy="request")
    before = state(pods=(WEB, API, pod("store", memory="100Gi")), report=base())
    after = state(pods=(WEB, API, pod("store", memory="100Gi"), pod("new", memory="8Gi")), report=base())
    published = prepared(before, slo).resources[MEMORY]
    assert published is not None
    facts = replace(after.node, allocatable={MEMORY: published})
    seen = NodeState(facts, after.pods, after.metric)
    assert beyond(written(seen, slo), MEMORY)


@pytest.mark.parametrize(("policy", "web"), [("usage", "26"), ("maxUsageRequest", "24")])
def test_what_a_pod_asks_for_is_no_wavering_of_others(policy: str, web: str) -> None:
    # More than 26 cores are measured; 12% of that are more than the 3 that the new pod asks for.
    slo = config(cpuCalculatePolicy=policy)
    usage = {"web": (web, "20Gi")}
    before = prepared(state(report=base(pods=usage)), slo)
    # By maxUsageRequest a pod counts from its first report on.
    report = base(pods=usage if policy == "usage" else {**usage, "new": ("1", "1Gi")})
    after = state(pods=(WEB, API, pod("new", cpu="3")), report=report)
    published, shown = before.resources[CPU], prepared(after, slo)
    assert published is not None
    assert shown.resources[CPU] == published - 3_000 > 0
    seen = NodeState(replace(after.node, allocatable={CPU: published}), after.pods, after.metric)
    strategy = settings(seen, slo).colocation
    assert beyond(decide(seen.node, shown, strategy, NOW_S - 100, NOW_S, firm_parts(before)), CPU)
    # If no pod asks for more, the same difference is taken for wavering.
    assert not beyond(decide(seen.node, shown, strategy, NOW_S - 100, NOW_S, firm_parts(shown)), CPU)


def test_a_figure_that_falls_to_zero_never_waits() -> None:
    # 64 - 25.6 kept free - 2.5 system - (33 + 3) used: nothing is left.
    given = state(report=base(pods={"web": ("33", "20Gi")}))
    assert prepared(given, config()).resources[CPU] == 0
    seen = NodeState(replace(given.node, allocatable={CPU: 1_000}), given.pods, given.metric)
    assert beyond(written(seen), CPU)


def beyond(decision: WriteDecision, resource: str) -> bool:
    (found,) = [comparison.beyond for comparison in decision.comparisons if comparison.resource == resource]
    return found


def test_a_report_that_goes_stale_is_looked_at_without_an_event() -> None:
    given = state(report=base(age_s=60))
    strategy = settings(given, config()).colocation
    again = requeue_at_s(given, strategy, pending=False, written_s=NOW_S, now_s=NOW_S)
    assert again == NOW_S - 60 + 900 + AFTER_S
    assert prepared(given, config(), again).resources[CPU] is None
    # Nothing further can happen by itself.
    assert requeue_at_s(given, strategy, pending=False, written_s=again, now_s=again) is None


def test_a_difference_that_waits_is_looked_at_when_its_time_has_come() -> None:
    given = state(node(published={**SHOWN, CPU: "26k"}, annotations=SAID), report=base())
    strategy = settings(given, config()).colocation
    again = requeue_at_s(given, strategy, pending=True, written_s=NOW_S - 100, now_s=NOW_S)
    assert again is not None
    assert decide(given.node, prepared(given, config()), strategy, NOW_S - 100, again).patch is not None


def test_zones_are_written_whole_and_only_when_they_change_enough() -> None:
    given = topology_facts(topology())
    wanted = {"node-0": {CPU: 14850, MEMORY: 7}, "node-1": {CPU: 11850, MEMORY: 7}}
    patch = zone_changes(given, wanted, 0.1)
    assert patch is not None
    assert patch["metadata"]["resourceVersion"] == "7"
    zones = tuple(patch["zones"])
    assert [resource.name for resource in zones[0].resources] == ["cpu", CPU, MEMORY, "memory"]
    done = replace(given, zones=zones)
    assert zone_changes(done, wanted, 0.1) is None
    assert zone_changes(done, {**wanted, "node-0": {CPU: 14900, MEMORY: 7}}, 0.1) is None
    moved = zone_changes(done, {**wanted, "node-0": {CPU: 7000, MEMORY: 7}}, 0.1)
    assert moved is not None
    assert moved["zones"][1] is zones[1]


def test_a_zone_without_a_result_has_nothing_left_and_none_at_all_leaves_them_alone() -> None:
    given = topology_facts(topology())
    patch = zone_changes(given, {name: {CPU: 1000} for name in ("node-0", "node-1")}, 0.1)
    assert patch is not None
    done = replace(given, zones=tuple(patch["zones"]))
    assert zone_changes(done, {}, 0.1) is None
    emptied = zone_changes(done, {"node-0": {CPU: 1000}}, 0.1)
    assert emptied is not None
    assert [resource.available for resource in emptied["zones"][1].resources if resource.name == CPU] == ["0"]


@pytest.mark.parametrize(
    ("priority", "cpu", "left"),
    [("koord-batch", "6700", 20000), ("koord-batch", "30k", 0), ("koord-mid", "6700", 26700), ("", "6700", 26700)],
)
def test_what_batch_systems_hold_is_taken_off_down_to_nothing(priority: str, cpu: str, left: int) -> None:
    allocations = [{"name": "yarn", "priority": priority, "resources": {CPU: cpu}}]
    said = {"node.koordinator.sh/thirdPartyAllocations": json.dumps({"allocations": allocations})}
    shown = prepared(state(node(annotations=said), report=base()), config())
    assert shown.resources[CPU] == left
    assert '"26700"' in (shown.annotations["node.koordinator.sh/originExtendedAllocatable"] or "")
    stale = prepared(state(node(annotations=said), report=None), config())
    assert stale.resources[CPU] is None


def claimed(cpu: str) -> dict[str, str]:
    allocations = [{"name": "hadoop-yarn", "priority": "koord-batch", "resources": {CPU: cpu}}]
    return {**SAID, "node.koordinator.sh/thirdPartyAllocations": json.dumps({"allocations": allocations})}


def test_what_another_system_claims_is_given_up_at_once_however_little_it_is() -> None:
    given = state(node(published=SHOWN, annotations=claimed("1000")), report=base())
    decision = written(given)
    assert decision.status
    assert decision.patch is not None
    assert decision.patch["status"]["allocatable"] == {CPU: "25700"}


@pytest.mark.parametrize(("pool", "is_written"), [("29000", False), ("40k", True), ("13k", True)])
def test_a_pool_that_another_system_holds_wholly_is_published_although_kubernetes_is_told_the_same(
    pool: str, is_written: bool
) -> None:
    origin = {"node.koordinator.sh/originExtendedAllocatable": ORIGIN.replace("26700", pool)}
    given = state(node(published={**SHOWN, CPU: "0"}, annotations={**claimed("50k"), **origin}), report=base())
    decision = written(given)
    assert decision.status == is_written
    if decision.patch is not None:
        assert '"26700"' in decision.patch["metadata"]["annotations"]["node.koordinator.sh/originExtendedAllocatable"]
        assert "status" not in decision.patch


def test_what_another_system_gives_back_may_wait() -> None:
    given = state(node(published={**SHOWN, CPU: "24700"}, annotations=claimed("1000")), report=base())
    assert not written(given).status


@pytest.mark.parametrize("claim", [claimed("1000"), {}], ids=["claimed", "not claimed yet"])
def test_a_patch_of_what_is_lent_is_for_the_version_that_was_looked_at(claim: dict[str, str]) -> None:
    given = state(node(published={**SHOWN, CPU: "9000"}, annotations=claim), report=base())
    patch = written(given, ago_s=None).patch
    assert patch is not None
    assert patch["metadata"]["resourceVersion"] == "1"


def test_zones_bear_their_share_of_what_others_hold_down_to_nothing() -> None:
    for cpu, left in (("3001", [13350 - 1501] * 2), ("40k", [0, 0])):
        shown = prepared(state(node(annotations=claimed(cpu)), report=base(), zones=topology()), config())
        assert [zone[CPU] for zone in shown.zones.values()] == left
        assert sum(left) <= (shown.resources[CPU] or 0)


def test_a_third_party_that_holds_less_than_nothing_brings_kubernetes_nothing() -> None:
    shown = prepared(state(node(annotations=claimed("-1000")), report=base(), zones=topology()), config())
    assert shown.resources[CPU] == 26700
    assert sum(zone[CPU] or 0 for zone in shown.zones.values()) <= 26700
    (note,) = (note for note in shown.notes if "thirdPartyAllocations" in note)
    assert note == f"thirdPartyAllocations: hadoop-yarn holds -1000 {CPU} (it counts as 0)"


def test_a_third_party_that_cannot_be_read_holds_nothing_and_it_is_said() -> None:
    given = state(node(annotations={"node.koordinator.sh/thirdPartyAllocations": "{"}), report=metric())
    shown = prepared(given, config())
    assert shown.resources[CPU] is not None
    assert "thirdPartyAllocations" in shown.notes[0]


@pytest.mark.parametrize(
    ("given", "seen_ago_s", "waits"),
    [
        (state(report=None), 0, True),
        (state(report=None), 31, False),
        (state(report=base()), 0, False),
        (state(report=base(age_s=1000)), 0, False),
        (state(node(published=SHOWN), report=None), 0, False),
    ],
    ids=["new", "silent for long", "reporting", "stale", "lending on no report"],
)
def test_a_new_node_is_given_a_moment_to_report(given: NodeState, seen_ago_s: float, waits: bool) -> None:
    left_s = wait_for_report_s(given, written(given, ago_s=None), seen_s=NOW_S - seen_ago_s, now_s=NOW_S)
    assert (left_s is not None) == waits
