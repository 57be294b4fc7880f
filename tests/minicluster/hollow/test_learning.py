"""Modelled nodes learn by the agent's own code, and hold batch below the same ceiling."""

from __future__ import annotations

from koord.agent.lending.counting import YOUNG_S
from koord.api.protocol.crd.node_slo import LendingStrategy
from koord_minicluster.hollow.learning import NodeLearning
from koord_minicluster.hollow.load_model import Asked, Band, NodeUsage, PodShape, Usage

GIB = 1 << 30
CPU_MILLI = 32_000
ADAPTIVE = LendingStrategy(85)
MEMORY_BYTES = 64 << 30
WEB = PodShape("web", "d/web", "d/web", Band.SERVICE, Usage(8_000, GIB), Usage(), 0.0)
JOB = PodShape("job", "d/job", "d/job", Band.BEST_EFFORT, Usage(10_000, GIB), Usage(), 0.0)


def usage(service: int, batch: int, wanted: int | None = None) -> NodeUsage:
    asked = Asked(service, service, batch if wanted is None else wanted, batch)
    return NodeUsage(Usage(500, GIB), (Usage(service, 4 * GIB), Usage(batch, 2 * GIB)), asked)


def learned(
    minutes: int, strategy: LendingStrategy | None = ADAPTIVE, wanted: int | None = None, start_s: float = 0.0
) -> NodeLearning:
    learning = NodeLearning()
    for sample in range(minutes * 4 + 1):
        learning.add((WEB, JOB), usage(4_000, 6_000, wanted), start_s + 15.0 * sample, strategy, CPU_MILLI)
    return learning


def test_samples_become_minutes_and_batch_pods_count_by_use() -> None:
    outlook = learned(10, start_s=YOUNG_S).outlook(ADAPTIVE, CPU_MILLI, MEMORY_BYTES)
    assert outlook is not None
    assert outlook.memory.minutes == outlook.memory.batch_minutes == 10
    assert outlook.figures.services == 4_500
    assert outlook.figures.counted == 6_000
    assert outlook.services_memory_bytes == 5 * GIB


def test_before_the_first_minute_nothing_is_reported() -> None:
    assert NodeLearning().outlook(ADAPTIVE, CPU_MILLI, MEMORY_BYTES) is None


def test_batch_may_use_what_the_ceiling_leaves_and_gives_way_at_once() -> None:
    learning = learned(10)
    outlook, limit = learning.outlook(ADAPTIVE, CPU_MILLI, MEMORY_BYTES), learning.limit(ADAPTIVE, CPU_MILLI)
    assert outlook is not None
    assert limit(4_000, 500) == int(27_200 - outlook.figures.margin - 4_500)
    assert limit(20_000, 500) == 27_200 - 20_500


def test_another_policy_moves_no_controller() -> None:
    learning = learned(10, strategy=None)
    assert learning.memory.minutes == 10
    assert learning.memory.batch_minutes == 0


def test_batch_that_starves_for_long_loses_a_pod_and_is_then_left_in_peace() -> None:
    learning = learned(40, wanted=25_000, start_s=YOUNG_S)
    at_s = YOUNG_S + 2_400
    assert list(learning.starving((WEB, JOB), LendingStrategy(20), CPU_MILLI, at_s)) == ["job"]
    assert list(learning.starving((WEB, JOB), LendingStrategy(20), CPU_MILLI, at_s + 60)) == []
