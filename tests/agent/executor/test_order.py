"""The order of writes: worked examples, and at no instant a parent that contradicts a child."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from koord.agent.executor.order import merged, ordered
from koord.agent.executor.write import Spot, Write
from koord.agent.host.knobs import CPU_BURST, CPU_QUOTA, CPUSET_CPUS, MEMORY_MIN, Knob, Value
from koord.api.text.cpuset import CPUSet

MIB = 1 << 20
CHAIN = ("kubepods/burstable", "kubepods/burstable/pod1", "kubepods/burstable/pod1/c")


def wishes(knob: Knob, *values: Value) -> list[Write]:
    return [Write(knob, directory, value, "test", "") for directory, value in zip(CHAIN, values, strict=False)]


def held(knob: Knob, *values: Value) -> dict[Spot, Value]:
    return {Spot(knob.name, directory): value for directory, value in zip(CHAIN, values, strict=False)}


def told(writes: Sequence[Write], now: dict[Spot, Value]) -> list[tuple[str, str]]:
    return [(step.write.directory.rsplit("/", 1)[-1], str(step.value)) for step in ordered(writes, now)]


def test_memory_min_grows_in_the_container_before_it_shrinks_above() -> None:
    # QoS directory 1000 -> 400, pod 600 -> 300, container 200 -> 250 (MiB).
    steps = told(
        wishes(MEMORY_MIN, 400 * MIB, 300 * MIB, 250 * MIB), held(MEMORY_MIN, 1000 * MIB, 600 * MIB, 200 * MIB)
    )
    assert steps == [("c", str(250 * MIB)), ("pod1", str(300 * MIB)), ("burstable", str(400 * MIB))]


def test_cpus_that_move_are_the_union_on_the_way() -> None:
    old, new = CPUSet.parse("0-7"), CPUSet.parse("4-11")
    pod_and_container = [Write(CPUSET_CPUS, directory, new, "test", "") for directory in CHAIN[1:]]
    now: dict[Spot, Value] = {Spot(CPUSET_CPUS.name, directory): old for directory in CHAIN[1:]}
    assert told(pod_and_container, now) == [("pod1", "0-11"), ("c", "0-11"), ("c", "4-11"), ("pod1", "4-11")]


def test_a_quota_without_limit_is_the_largest() -> None:
    steps = told(wishes(CPU_QUOTA, 50_000, 20_000), held(CPU_QUOTA, -1, -1))
    assert steps == [("pod1", "20000"), ("burstable", "50000")]
    steps = told(wishes(CPU_QUOTA, -1, -1), held(CPU_QUOTA, 50_000, 20_000))
    assert steps == [("burstable", "-1"), ("pod1", "-1")]


@given(st.tuples(st.integers(1, 5), st.integers(0, 5)), st.tuples(st.integers(1, 5), st.integers(0, 5)))
def test_what_may_be_saved_up_is_never_more_than_a_quota(old: tuple[int, int], new: tuple[int, int]) -> None:
    """Whatever order they are wished in: the kernel refuses it on the way, too."""
    (quota, burst), (to_quota, to_burst) = ((each[0], min(each)) for each in (old, new))
    writes = [Write(CPU_BURST, "pod", to_burst, "test", ""), Write(CPU_QUOTA, "pod", to_quota, "test", "")]
    now: dict[Spot, Value] = {Spot(CPU_BURST.name, "pod"): burst, Spot(CPU_QUOTA.name, "pod"): quota}
    for step in ordered([write for write in writes if now[write.spot] != write.value], now):
        now[step.write.spot] = step.value
        burst_now, quota_now = now.values()
        assert isinstance(burst_now, int)
        assert isinstance(quota_now, int)
        assert burst_now <= quota_now


def test_the_later_strategy_wins_and_the_disagreement_is_told() -> None:
    first, second = Write(CPU_QUOTA, "a", 5000, "one", ""), Write(CPU_QUOTA, "a", 6000, "two", "")
    chosen, disagreed = merged([first, second])
    assert list(chosen.values()) == [second]
    assert disagreed == [(first, second)]
    assert merged([first, Write(CPU_QUOTA, "a", 5000, "two", "")])[1] == []


CPUS = st.sets(st.integers(0, 7), min_size=1).map(CPUSet)


@given(st.lists(CPUS, min_size=3, max_size=3), st.lists(CPUS, min_size=3, max_size=3))
def test_no_parent_ever_lacks_a_cpu_of_its_child(old: list[CPUSet], new: list[CPUSet]) -> None:
    for sets in (old, new):
        # Both trees are legal: a child's CPUs are its parent's.
        sets[1] |= sets[2]
        sets[0] |= sets[1]
    now = held(CPUSET_CPUS, *old)
    for step in ordered(wishes(CPUSET_CPUS, *new), now):
        now[step.write.spot] = step.value
        values = [now[Spot(CPUSET_CPUS.name, directory)] for directory in CHAIN]
        for parent, child in pairwise(values):
            assert isinstance(parent, CPUSet)
            assert isinstance(child, CPUSet)
            assert child <= parent
    assert now == held(CPUSET_CPUS, *new)


QUOTAS = st.one_of(st.just(-1), st.integers(1000, 100_000))


@given(st.lists(QUOTAS, min_size=3, max_size=3), st.lists(QUOTAS, min_size=3, max_size=3))
def test_no_parent_ever_allows_less_than_its_child(old: list[int], new: list[int]) -> None:
    def size(value: object) -> float:
        assert isinstance(value, int)
        return float("inf") if value == -1 else value

    for values in (old, new):
        values.sort(key=size, reverse=True)
    now = held(CPU_QUOTA, *old)
    for step in ordered(wishes(CPU_QUOTA, *new), now):
        now[step.write.spot] = step.value
        sizes = [size(now[Spot(CPU_QUOTA.name, directory)]) for directory in CHAIN]
        assert sizes == sorted(sizes, reverse=True)
    assert now == held(CPU_QUOTA, *new)
