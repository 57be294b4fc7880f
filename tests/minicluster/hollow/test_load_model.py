from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord_minicluster.hollow.load_model import (
    DAY_S,
    TROUGH_S,
    Band,
    Course,
    NodeShape,
    PodShape,
    SeededLoad,
    Usage,
    settle,
    shape_of,
    usage_at,
)
from tests.minicluster.hollow.builders import pod

GI = 1024**3


def shape(
    uid: str = "u", *, band: Band = Band.SERVICE, cpu: int = 1000, limit: int = 0, app: str = "shop/web"
) -> PodShape:
    return PodShape(uid, f"shop/{uid}", app, band, Usage(cpu, GI), Usage(limit, 0), 0.0)


def average_cpu(load: SeededLoad, pod: PodShape, begin_s: float) -> float:
    times = [begin_s + 60 * step for step in range(60)]
    return sum(load.of_pod(pod, time_s).cpu_milli for time_s in times) / len(times)


times = st.floats(min_value=0, max_value=4e9)
seeds = st.integers(min_value=0, max_value=2**31)


@given(seed=seeds, now_s=times, uid=st.text(max_size=20))
def test_the_same_question_has_the_same_answer(seed: int, now_s: float, uid: str) -> None:
    assert SeededLoad(seed).of_pod(shape(uid), now_s) == SeededLoad(seed).of_pod(shape(uid), now_s)


@given(seed=seeds, now_s=times, cpu=st.integers(1, 10**6), limit=st.integers(0, 10**6), band=st.sampled_from(Band))
def test_usage_is_positive_and_within_the_limit_or_twice_the_request(
    seed: int, now_s: float, cpu: int, limit: int, band: Band
) -> None:
    used = SeededLoad(seed).of_pod(shape(band=band, cpu=cpu, limit=limit), now_s)
    assert 1 <= used.cpu_milli <= max(1, limit or 2 * cpu)
    assert 1 <= used.memory_bytes <= 2 * GI


def test_services_are_busy_by_day_and_quiet_by_night() -> None:
    load = SeededLoad(7)
    night = sum(average_cpu(load, shape(app=f"shop/{n}"), 30 * DAY_S + TROUGH_S) for n in range(5))
    day = sum(average_cpu(load, shape(app=f"shop/{n}"), 30 * DAY_S + TROUGH_S + DAY_S / 2) for n in range(5))
    assert day > 2 * night


def test_best_effort_pods_take_nearly_all_at_any_hour() -> None:
    load = SeededLoad(7)
    for hour in range(0, 24, 3):
        used = average_cpu(load, shape(band=Band.BEST_EFFORT), hour * 3600.0)
        assert 800 < used < 1000


def test_spikes_come_to_all_pods_of_an_app_at_once_and_are_rare() -> None:
    load = SeededLoad(3)
    buckets = [bucket for bucket in range(2000) if load._spikes("shop/web", bucket * 300.0, 0.02)]
    assert 10 <= len(buckets) <= 80
    spiking, calm = buckets[0] * 300.0 + 150, (buckets[0] - 1) * 300.0 + 150
    assert load._spikes("shop/web", calm, 0.02) is False
    for uid in ("a", "b", "c"):
        assert load.of_pod(shape(uid), spiking).cpu_milli > 1.2 * load.of_pod(shape(uid), calm).cpu_milli


@given(seed=seeds, now_s=st.floats(min_value=0, max_value=1e9))
def test_usage_does_not_jump_within_a_second_unless_it_spikes(seed: int, now_s: float) -> None:
    load = SeededLoad(seed)
    before, after = load.of_pod(shape(), now_s), load.of_pod(shape(), now_s + 1)
    if load._spikes("shop/web", now_s, 0.02) == load._spikes("shop/web", now_s + 1, 0.02):
        assert abs(before.cpu_milli - after.cpu_milli) < 40


@given(
    wanted=st.lists(st.tuples(st.integers(0, 10**5), st.integers(0, 10**11), st.sampled_from(Band)), max_size=20),
    system=st.integers(0, 10**5),
)
def test_a_node_never_uses_more_than_it_has(wanted: list[tuple[int, int, Band]], system: int) -> None:
    node = NodeShape("n", Usage(32_000, 128 * GI))
    pods = [shape(str(number), band=band) for number, (_, _, band) in enumerate(wanted)]
    usage = settle(node, pods, [Usage(cpu, memory) for cpu, memory, _ in wanted], Usage(system, GI))
    assert usage.total.cpu_milli <= 32_000
    assert usage.total.memory_bytes <= 128 * GI
    for (cpu, memory, _), used in zip(wanted, usage.pods, strict=True):
        assert used.cpu_milli <= cpu
        assert used.memory_bytes <= memory


def test_best_effort_gives_way_first() -> None:
    # 10 cores: system 1, services want 6, best effort wants 8 and gets 10 - 1 - 6 = 3.
    node = NodeShape("n", Usage(10_000, GI))
    pods = [shape("a"), shape("b"), shape("c", band=Band.BEST_EFFORT)]
    usage = settle(node, pods, [Usage(2000), Usage(4000), Usage(8000)], Usage(1000))
    assert [used.cpu_milli for used in usage.pods] == [2000, 4000, 3000]


def test_services_that_want_too_much_share_in_proportion() -> None:
    node = NodeShape("n", Usage(10_000, GI))
    pods = [shape("a"), shape("b"), shape("c", band=Band.BEST_EFFORT)]
    usage = settle(node, pods, [Usage(6000), Usage(12_000), Usage(8000)], Usage(1000))
    assert [used.cpu_milli for used in usage.pods] == [3000, 6000, 0]


def test_a_node_without_pods_uses_a_little() -> None:
    node = NodeShape("n", Usage(32_000, 128 * GI))
    total = usage_at(SeededLoad(), node, [], 1e9).total
    assert 0 < total.cpu_milli < 1000
    assert 0 < total.memory_bytes < 4 * GI


@pytest.mark.parametrize(
    ("resources", "cpu", "memory"),
    [
        ({"cpu": "500m", "memory": "1Gi"}, 500, GI),
        ({"kubernetes.io/batch-cpu": "2000", "kubernetes.io/batch-memory": "3Gi"}, 2000, 3 * GI),
        ({}, 100, 200 * 1024**2),
    ],
)
def test_what_a_pod_asks_for_counts_in_whichever_resource(resources: dict[str, str], cpu: int, memory: int) -> None:
    asked = pod(containers=({"name": "app", "resources": {"requests": resources}},))
    assert shape_of(asked, 0.0).request == Usage(cpu, memory)


def test_pods_of_a_deployment_are_one_app_across_rollouts() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d9", "uid": "r", "controller": True}
    owned = pod("web-5d9-x7", labels={"pod-template-hash": "5d9"}, metadata={"ownerReferences": [owner]})
    assert shape_of(owned, 0.0).app == "shop/web"
    assert shape_of(pod("db", labels={"app": "store"}), 0.0).app == "shop/store"
    assert shape_of(pod("db"), 0.0).app == "shop/db"


@pytest.mark.parametrize(("label", "band"), [("BE", Band.BEST_EFFORT), ("LS", Band.SERVICE), ("LSR", Band.SERVICE)])
def test_the_qos_class_says_how_a_pod_behaves(label: str, band: Band) -> None:
    assert shape_of(pod(labels={"koordinator.sh/qosClass": label}, cpu="1"), 0.0).band is band


def test_a_pod_that_asks_for_more_than_can_be_counted_is_taken_for_the_largest() -> None:
    shape = shape_of(pod(cpu="1e30", memory="1e30", limits={"cpu": "1e30", "memory": "1e30"}), 0.0)
    assert shape.request == shape.limit == Usage(2**63 - 1, 2**63 - 1)
    node = NodeShape("n1", Usage(4000, 8 << 30))
    assert usage_at(SeededLoad(1), node, [shape], 60.0).pods[0].cpu_milli <= 4000


def test_a_fast_course_compresses_the_day_and_begins_at_midnight() -> None:
    clock, fast = SeededLoad(7), SeededLoad(7, Course(since_s=5000.0, speed=360.0))
    for hour in range(0, 48, 3):
        assert fast._day("shop/web", 5000.0 + 10.0 * hour) == pytest.approx(clock._day("shop/web", 3600.0 * hour))


def test_noise_goes_by_the_clock_whatever_the_course() -> None:
    assert SeededLoad(7, Course(0.0, 360.0))._noise("web", 1234.5) == SeededLoad(7)._noise("web", 1234.5)
