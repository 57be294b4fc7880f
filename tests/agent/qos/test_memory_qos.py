"""Memory QoS: the specification's examples, sums, and what a pod says for itself."""

import json
from typing import Any

import pytest

from koord.agent import wish
from koord.agent.host import knobs
from koord.agent.host.knobs import MOST_BYTES, Knob, Value
from koord.agent.qos.decision import NOTHING
from koord.agent.qos.memory_qos import decide, page_cache_wishes, protected, slowed_from
from koord.agent.state import NodeState
from koord.api.protocol.crd.resource_qos import MemoryQOS
from tests.agent.states import GIB, delivered, node, pod

MIB = 1 << 20
TARGET = wish.pod("d")
RANKS = {"lsr": 12, "ls": 6, "be": 0}


def of(state: NodeState, knob: Knob) -> dict[str, Value]:
    decision = decide(state)
    assert decision is not None
    return {write.directory: write.value for write in delivered(state, decision.wishes) if write.knob is knob}


def settings(**classes: dict[str, Any]) -> dict[str, Any]:
    return {
        "resourceQOSStrategy": {
            f"{name}Class": {"memoryQOS": {"enable": True, **values}} for name, values in classes.items()
        }
    }


def test_what_is_protected_and_from_where_on_it_is_slowed() -> None:
    config = MemoryQOS(min_limit_percent=50, low_limit_percent=40)
    assert protected(2 * GIB, config) == (1073741824, 1073741824)
    assert slowed_from(2 * GIB, 6 * GIB, 0, 1073741824, 75) == 5368709120
    assert slowed_from(1500 * MIB, 0, 60 * GIB, 0, 80) == 51854180352
    assert slowed_from(2 * GIB, 6 * GIB, 0, 0, 0) == MOST_BYTES
    assert slowed_from(2 * GIB, 0, 0, 0, 75) == MOST_BYTES, "neither the container nor the node tells of an end"


def test_directories_have_the_sums_of_their_pods() -> None:
    def sized(name: str, size: str, guaranteed: bool = False) -> Any:
        own = {"memory": size, "cpu": "1"}
        return pod(name, requests=own, limits=own if guaranteed else {})

    state = node(
        sized("g", "700Mi", guaranteed=True),
        sized("b1", "2Gi"),
        sized("b2", "1Gi"),
        slo=settings(lsr={"minLimitPercent": 30}, ls={"minLimitPercent": 30}),
    )
    found = of(state, knobs.MEMORY_MIN)
    assert found["kubepods/podg"] == 220200960
    assert found["kubepods/burstable/podb1"] == 644245094
    assert found["kubepods/burstable/podb2"] == 322122547
    assert found["kubepods/burstable"] == 966367641
    assert found["kubepods"] == 1186568601
    assert found["kubepods/besteffort"] == 0


def test_the_page_cache_of_a_pod() -> None:
    def values(**config: Any) -> dict[str, Value]:
        wishes = page_cache_wishes(TARGET, 3 * GIB, MemoryQOS(**config))
        return {write.knob.name: write.value for write in delivered(node(pod("d")), wishes)}

    prefix = "memory.pagecache_limit"
    assert values(page_cache_limit_percent=25) == {
        f"{prefix}.size": 805306368, f"{prefix}.enable": 1, f"{prefix}.sync": 0
    }  # fmt: skip
    assert values(page_cache_limit_size=5 * GIB)[f"{prefix}.size"] == 3221225472
    off = values(page_cache_limit_size=0)
    assert (off[f"{prefix}.size"], off[f"{prefix}.enable"]) == (0, 0)
    assert f"{prefix}.sync" not in off
    assert values() == {}
    assert values(page_cache_enable=True) == {f"{prefix}.enable": 1}, "the switch alone leaves the size unchanged"
    both = values(page_cache_limit_size=GIB, page_cache_enable=False)
    assert (both[f"{prefix}.size"], both[f"{prefix}.enable"]) == (GIB, 0)


def test_a_part_of_no_limit_is_no_page_cache_limit() -> None:
    assert list(page_cache_wishes(TARGET, 0, MemoryQOS(page_cache_limit_percent=25))) == []


def test_best_effort_is_measured_by_its_batch_memory() -> None:
    resources = {"kubernetes.io/batch-memory": "1Gi"}
    state = node(pod("be", "BE", requests=resources, limits=resources), slo=settings(be={"throttlingPercent": 50}))
    assert of(state, knobs.MEMORY_HIGH)["kubepods/besteffort/podbe/be-main"] == GIB


def test_best_effort_without_a_limit_is_slowed_towards_the_nodes_memory() -> None:
    # The node may say nothing of batch memory; the container may use what the node has.
    containers: list[dict[str, Any]] = [
        {"name": "helper"},
        {"name": "main", "resources": {"requests": {"kubernetes.io/batch-memory": "1Gi"}}},
    ]
    state = node(pod("be", "BE", containers=containers), memory=10 * GIB, slo=settings(be={"throttlingPercent": 50}))
    found = of(state, knobs.MEMORY_HIGH)
    assert found["kubepods/besteffort/podbe/be-helper"] == 5 * GIB
    assert found["kubepods/besteffort/podbe/be-main"] == (1 * GIB + 9 * GIB // 2) // 4096 * 4096


def test_priorities_hold_between_the_directories_of_classes_too() -> None:
    ranked = {name: {"priority": rank, "priorityEnable": 1, "oomKillGroup": 1} for name, rank in RANKS.items()}
    state = node(slo=settings(**ranked))
    assert of(state, knobs.MEMORY_PRIORITY) == {"kubepods": 12, "kubepods/burstable": 6, "kubepods/besteffort": 0}
    assert of(state, knobs.MEMORY_PRIORITY_OOM) == dict.fromkeys(of(state, knobs.MEMORY_PRIORITY), 1)


def test_a_pod_is_killed_as_a_group_if_asked_and_never_all_pods_of_a_class() -> None:
    pods = pod("web", "LS"), pod("job", "BE")
    asked = node(*pods, slo=settings(ls={"oomKillGroup": 1}, be={"oomKillGroup": 0}))
    web = "kubepods/burstable/podweb", "kubepods/besteffort/podweb"
    found = of(asked, knobs.MEMORY_OOM_GROUP)
    assert {each.startswith(web) for each in found} == {True}
    assert set(found.values()) == {1}
    # Kubelet's own setting of containers is not undone by a setting that no user asked for.
    assert of(node(*pods, slo=settings(ls={"minLimitPercent": 10})), knobs.MEMORY_OOM_GROUP) == {}


def test_without_watermarks_the_ratio_becomes_a_point_from_where_on_it_is_slowed() -> None:
    resources = {"kubernetes.io/batch-memory": "1Gi"}
    state = node(pod("be", "BE", requests=resources, limits=resources), slo=settings(be={"wmarkRatio": 95}))
    high = of(state, knobs.MEMORY_HIGH)["kubepods/besteffort/podbe/be-main"]
    assert high == GIB * 95 // 100 // 4096 * 4096


def test_a_pods_own_word_counts_most() -> None:
    def web(own: dict[str, Any]) -> NodeState:
        each = pod("web", "LS", requests={"memory": "1Gi"}, annotations={"koordinator.sh/memoryQOS": json.dumps(own)})
        return node(each, slo=settings(ls={"minLimitPercent": 30}))

    directory = "kubepods/burstable/podweb"
    assert of(web({"minLimitPercent": 50}), knobs.MEMORY_MIN)[directory] == GIB // 2
    assert of(web({"policy": "none"}), knobs.MEMORY_MIN)[directory] == 0
    assert of(web({"policy": "auto"}), knobs.MEMORY_WMARK_RATIO)[directory] == 95
    assert of(web({"policy": "none", "lowLimitPercent": 10}), knobs.MEMORY_LOW)[directory] == GIB // 10


@pytest.mark.parametrize("of_class", [0, 30])
def test_best_effort_protects_its_memory_no_more_than_its_class(of_class: int) -> None:
    own = {"minLimitPercent": 100, "lowLimitPercent": 100, "wmarkMinAdj": -25, "priorityEnable": 1, "priority": 12}
    resources = {"kubernetes.io/batch-memory": "1Gi"}
    annotations = {"koordinator.sh/memoryQOS": json.dumps(own)}
    job = pod("job", "BE", requests=resources, limits=resources, annotations=annotations)
    state = node(job, slo=settings(be={"minLimitPercent": of_class, "lowLimitPercent": of_class, "wmarkMinAdj": 50}))
    directory = "kubepods/besteffort/podjob"
    for knob in (knobs.MEMORY_MIN, knobs.MEMORY_LOW):
        assert of(state, knob)[directory] == GIB * of_class // 100
    assert of(state, knobs.MEMORY_WMARK_MIN_ADJ)[directory] == 50
    assert of(state, knobs.MEMORY_PRIORITY)[directory] == 0


def test_switched_off_it_wants_nothing() -> None:
    assert decide(node(pod("web", "LS", requests={"memory": "1Gi"}), slo={"resourceQOSStrategy": {}})) == NOTHING
    assert decide(node(slo=None)) is None
