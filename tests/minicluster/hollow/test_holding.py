from __future__ import annotations

from koord.api.kubernetes.pod import Pod
from koord.api.protocol.crd.node_slo import ResourceThresholdStrategy
from koord_minicluster.hollow.holding import Patience, limit_of
from koord_minicluster.hollow.load_model import Asked, Band, NodeShape, PodShape, Usage, settle, shape_of
from tests.minicluster.hollow.builders import pod

GI = 1024**3
HELD = ResourceThresholdStrategy(
    enable=True,
    cpu_suppress_threshold_percent=70,
    cpu_evict_be_satisfaction_lower_percent=40,
    cpu_evict_be_satisfaction_upper_percent=60,
    cpu_evict_time_window_seconds=10,
)


def shapes() -> list[PodShape]:
    service = PodShape("s", "shop/s", "shop/s", Band.SERVICE, Usage(8000, GI), Usage(), 0.0)
    batch = PodShape("b", "jobs/b", "jobs/b", Band.BEST_EFFORT, Usage(8000, GI), Usage(), 0.0)
    return [service, batch]


def test_best_effort_gets_what_services_leave_below_the_mark() -> None:
    node = NodeShape("n", Usage(10_000, 16 * GI))
    used = settle(node, shapes(), [Usage(4000, GI), Usage(7000, GI)], Usage(500, GI), limit_of(HELD, 10_000))
    # 70% of 10 cores - 4 of the service - 0.5 of the system
    assert used.pods == (Usage(4000, GI), Usage(2500, GI))
    assert used.asked == Asked(4000, 4000, 7000, 2500, 2500)


def test_services_are_never_held_back_by_the_mark() -> None:
    node = NodeShape("n", Usage(10_000, 16 * GI))
    used = settle(node, shapes(), [Usage(8000, GI), Usage(7000, GI)], Usage(500, GI), limit_of(HELD, 10_000))
    assert [pod.cpu_milli for pod in used.pods] == [8000, 0]


def test_without_a_strategy_nobody_is_held_back() -> None:
    for strategy in (None, ResourceThresholdStrategy(enable=False)):
        assert limit_of(strategy, 10_000)(4000, 500) is None


def batch(name: str, priority: int = 5000, started_s: float = 0.0) -> tuple[Pod, PodShape]:
    made = pod(name, labels={"koordinator.sh/qosClass": "BE"}, cpu="4", priority=priority)
    return made, shape_of(made, started_s)


def leaving(patience: Patience, pods: list[tuple[Pod, PodShape]], limit: int, now_s: float) -> list[str]:
    asked = Asked(best_effort_milli=4000 * len(pods), best_effort_got_milli=limit, limit_milli=limit)
    return [eviction.pod.metadata.name for eviction in patience.evictions(HELD, pods, asked, now_s)]


def test_pods_that_get_too_little_for_a_while_go_the_least_important_first() -> None:
    pods = [batch("old"), batch("young", started_s=50.0), batch("low", priority=4999), batch("high", priority=5999)]
    patience = Patience()
    # 4 of the 16 cores that they asked for: 25%, and 60% of 16 is 9.6, so 5.6 cores of requests must go: two pods.
    assert leaving(patience, pods, 4000, 100.0) == []
    assert leaving(patience, pods, 4000, 105.0) == ["low", "young"]


def test_who_has_enough_again_stays() -> None:
    pods = [batch("a"), batch("b")]
    patience = Patience()
    assert leaving(patience, pods, 1000, 100.0) == []
    assert leaving(patience, pods, 8000, 105.0) == []


def test_after_an_eviction_the_node_is_given_time() -> None:
    pods = [batch("a"), batch("b")]
    patience = Patience()
    leaving(patience, pods, 1000, 100.0)
    assert leaving(patience, pods, 1000, 105.0)
    assert [leaving(patience, pods, 1000, now_s) for now_s in (110.0, 115.0, 120.0)] == [[], [], []]
    assert leaving(patience, pods, 1000, 126.0)
