"""Which CPUs a pod gets, tie-breaks included."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.scheduler.plugins.numa.accumulator import BindPolicy, BindRule, Exclusive, Free, take
from koord.scheduler.plugins.numa.topology import Topology, cpus_in
from tests.scheduler.plugins.numa.machines import machine, mask, told

BIG = "2x2x6x2"
LEAST, MOST = False, True


def taken(
    topology: Topology, held: str, number: int, wish: BindRule, marked: str = "", preferred: str = ""
) -> str | None:
    free = Free(topology, topology.cpus & ~mask(held), mask(marked))
    return told(take(free, number, wish, mask(preferred)))


@pytest.mark.parametrize(
    ("shape", "held", "number", "wish", "expected"),
    [
        pytest.param(BIG, "0-3", 4, BindRule("FullPCPUs"), "24-27", id="the emptier socket breaks the tie"),
        pytest.param(BIG, "0-3", 4, BindRule("FullPCPUs", most=True), "4-7", id="the fullest node first"),
        pytest.param(BIG, "0-3,24-35", 14, BindRule("FullPCPUs", most=True), "4-17", id="more than a node: one socket"),
        pytest.param(BIG, "0-1", 26, BindRule("FullPCPUs"), "2-3,24-47", id="more than a socket"),
        pytest.param("1x2x4x2", "0,2,4,6,8,10,12", 4, BindRule("FullPCPUs"), "1,3,14-15", id="not enough whole cores"),
        pytest.param(BIG, "", 8, BindRule("SpreadByPCPUs"), "0-4,6,8,10", id="spread stays in one node"),
        pytest.param("1x4x8x1", "0-2,8", 4, BindRule("SpreadByPCPUs", most=True), "3-6", id="one thread a core"),
        pytest.param(
            "2x1x4x2", "0,2,8,10,12", 7, BindRule("FullPCPUs", most=True), "1,4-7,14-15", id="the rest singly"
        ),
    ],
)
def test_worked_examples(shape: str, held: str, number: int, wish: BindRule, expected: str) -> None:
    assert taken(machine(shape), held, number, wish) == expected


def test_a_pod_that_wants_cores_for_itself_shuns_cores_with_its_like() -> None:
    wish = BindRule("SpreadByPCPUs", exclusive="PCPULevel", most=True)
    assert taken(machine(BIG), "0,2,4", 4, wish, marked="0,2,4") == "12,14,16,18"


@pytest.mark.parametrize(("exclusive", "expected"), [("NUMANodeLevel", "24-27"), ("", "2-5")])
def test_a_pod_that_wants_numa_nodes_for_itself_shuns_those_with_its_like(exclusive: Exclusive, expected: str) -> None:
    wish = BindRule("FullPCPUs", exclusive=exclusive, most=True)
    assert taken(machine(BIG), "0-1,12-13", 4, wish, marked="0-1,12-13") == expected


def test_preferred_cpus_are_taken_first() -> None:
    assert taken(machine(BIG), "", 5, BindRule("FullPCPUs"), preferred="6-8") == "6-8,24-25"


@pytest.mark.parametrize(
    ("policy", "number", "preferred", "cpus"),
    [
        pytest.param("FullPCPUs", 2, "0", "0-1", id="a part of a core is filled up"),
        pytest.param("FullPCPUs", 4, "1,4-5", "0-1,4-5", id="whole cores go first"),
        pytest.param("FullPCPUs", 2, "1,4-5", "4-5", id="parts are not needed"),
        pytest.param("FullPCPUs", 6, "0,3", "0-5", id="others follow"),
        pytest.param("SpreadByPCPUs", 3, "2-3", "0,2,4", id="one thread of a core is enough"),
    ],
)
def test_a_required_policy_is_kept_with_preferred_cpus_of_any_shape(
    policy: BindPolicy, number: int, preferred: str, cpus: str
) -> None:
    assert taken(machine("1x1x4x2"), "", number, BindRule(policy, required=True), preferred=preferred) == cpus


def test_preferred_cpus_and_the_rest_know_of_each_others_exclusivity() -> None:
    wish = BindRule("SpreadByPCPUs", exclusive="PCPULevel", most=True)
    assert taken(machine("1x1x4x2"), "", 2, wish, preferred="0") == "0,2"


def test_a_pod_that_wants_numa_nodes_for_itself_stays_on_that_of_its_preferred_cpus() -> None:
    wish = BindRule("FullPCPUs", exclusive="NUMANodeLevel", most=True)
    assert taken(machine(BIG), "", 12, wish, preferred="20-21") == "12-23"


def test_cpus_that_several_pods_may_share_go_to_the_least_used_first() -> None:
    topology = machine("1x1x4x2")
    free = Free(topology, topology.cpus, refs=dict.fromkeys(range(4), 1))
    assert told(take(free, 6, BindRule("FullPCPUs", most=True))) == "0-1,4-7"


@pytest.mark.parametrize(
    ("number", "wish", "expected"),
    [
        (4, BindRule("FullPCPUs"), "0-1,24-25"),
        (4, BindRule("SpreadByPCPUs"), "0-3"),
        (3, BindRule("FullPCPUs"), "0-1,24"),
    ],
)
def test_siblings_may_be_numbered_apart(number: int, wish: BindRule, expected: str) -> None:
    assert taken(machine(BIG, siblings_apart=True), "", number, wish) == expected


@pytest.mark.parametrize(
    ("held", "number", "wish"),
    [
        pytest.param("0,2", 6, BindRule("FullPCPUs", required=True), id="six of four whole-core CPUs"),
        pytest.param("", 3, BindRule("FullPCPUs", required=True), id="half a core"),
        pytest.param("", 5, BindRule("SpreadByPCPUs", required=True), id="five of four cores"),
        pytest.param("0-5", 3, BindRule("FullPCPUs"), id="three of two"),
    ],
)
def test_there_are_no_cpus_where_the_policy_cannot_be_met(held: str, number: int, wish: BindRule) -> None:
    assert taken(machine("1x1x4x2"), held, number, wish) is None


def test_a_core_without_its_sibling_is_not_a_whole_core() -> None:
    topology = machine("1x1x2x2")
    assert told(take(Free(topology, mask("0,2-3")), 2, BindRule("FullPCPUs", required=True))) == "2-3"


_POLICIES: list[BindPolicy] = ["FullPCPUs", "SpreadByPCPUs"]
_shapes = st.sampled_from(["1x1x2x2", "1x2x2x2", "2x1x2x2", "2x2x2x1", "1x1x3x3", "2x2x1x2"])


@settings(max_examples=50)
@given(_shapes, st.integers(0, 2**9 - 1), st.integers(1, 6), st.data())
def test_a_pod_gets_what_exists_if_it_exists(shape: str, held: int, number: int, data: st.DataObject) -> None:
    """Compared with all sets of free CPUs: a required policy fails only where no set would do."""
    topology = machine(shape)
    policy = data.draw(st.sampled_from(_POLICIES))
    wish = BindRule(
        policy,
        required=data.draw(st.booleans()),
        exclusive=data.draw(st.sampled_from(["", "PCPULevel", "NUMANodeLevel"])),
        most=data.draw(st.booleans()),
    )
    free = topology.cpus & ~held
    found = take(Free(topology, free, marked=held & topology.cpus), number, wish)
    possible = any(
        cpus.bit_count() == number and not cpus & ~free and (not wish.required or _meets(topology, cpus, policy))
        for cpus in range(1, topology.cpus + 1)
    )
    assert (found is not None) == possible
    if found is not None:
        assert found.bit_count() == number
        assert not found & ~free
        assert not wish.required or _meets(topology, found, policy)


def _meets(topology: Topology, cpus: int, policy: str) -> bool:
    per_core = Counter(topology.core_of[cpu] for cpu in cpus_in(cpus))
    wanted = topology.cpus_per_core if policy == "FullPCPUs" else 1
    return set(per_core.values()) == {wanted}
