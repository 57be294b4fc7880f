"""NUMA hints of several plugins become one choice, by the policy of the node or the pod."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kubernetes.pod import Pod
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.exact_check import Objection
from koord.scheduler.plugins.numa.hints import (
    ANYWHERE,
    NUMA,
    UNALIGNED,
    Agreed,
    Hint,
    Hints,
    Offer,
    Policy,
    Rule,
    Use,
    in_words,
    merged,
)

BOTH = 0b11
ASK = Ask(Pod())


def hints(*of: tuple[int, int] | int) -> tuple[Hint, ...]:
    """Preferred hints, with scores where they are given."""
    return tuple(Hint(each, True) if isinstance(each, int) else Hint(each[0], True, each[1]) for each in of)


CPU_AND_MEMORY: dict[str, Hints] = {"cpu": hints((1, 40), (2, 70)), "memory": hints((1, 40), (2, 70))}


@pytest.mark.parametrize(
    ("offered", "rule", "nodes"),
    [
        pytest.param(CPU_AND_MEMORY, Rule("SingleNUMANode", BOTH), 2, id="the higher score, 140, wins"),
        pytest.param(
            {**CPU_AND_MEMORY, "gpu": hints(1)}, Rule("SingleNUMANode", BOTH), 1, id="the only node with a GPU wins"
        ),
        pytest.param(
            CPU_AND_MEMORY, Rule("SingleNUMANode", BOTH, ("idle", "shared")), 1, id="a shared node is left alone"
        ),
        pytest.param(
            {"gpu": hints(3), "cpu": hints(1, 2, 3)}, Rule("Restricted", BOTH), 3, id="all on the GPU's two nodes"
        ),
        pytest.param({"cpu": hints(1), "gpu": hints(2)}, Rule("BestEffort", BOTH), 3, id="best effort never refuses"),
        pytest.param({"cpu": (), "gpu": hints(2)}, Rule("BestEffort", BOTH), 3, id="best effort without a way"),
        pytest.param({"cpu": hints(1)}, Rule("SingleNUMANode", 1), 1, id="a machine with one NUMA node"),
        pytest.param(
            {"cpu": hints((2, 10), (1, 5))}, Rule("Restricted", BOTH), 2, id="a score counts more than a low number"
        ),
    ],
)
def test_worked_examples(offered: dict[str, Hints], rule: Rule, nodes: int) -> None:
    assert merged(offered, rule) == Agreed(nodes)


@pytest.mark.parametrize(
    ("offered", "rule", "why"),
    [
        pytest.param(
            CPU_AND_MEMORY,
            Rule("SingleNUMANode", BOTH, ("shared", "shared")),
            "Unaligned NUMA Hint cause cpu prefer [01 10] among [01 10],memory prefer [01 10] among [01 10]",
            id="both nodes shared",
        ),
        pytest.param(
            {"gpu": hints(3), "cpu": hints(1, 2, 3)},
            Rule("Restricted", BOTH, ("single", "idle")),
            "Unaligned NUMA Hint cause cpu prefer [01 10 11] among [01 10 11] & gpu prefer [11] among [11]",
            id="one of the two nodes is taken alone",
        ),
        pytest.param(
            {"cpu": hints(1), "gpu": hints(2)},
            Rule("Restricted", BOTH),
            "Unaligned NUMA Hint cause cpu prefer [01] among [01] & gpu prefer [10] among [10]",
            id="nothing in common",
        ),
        pytest.param(
            {"cpu": (), "memory": ()},
            Rule("Restricted", BOTH),
            "Unsatisfied NUMA cpu, Unsatisfied NUMA memory",
            id="restricted, short of two resources",
        ),
        pytest.param(
            {"cpu": hints(3)},
            Rule("SingleNUMANode", BOTH),
            "Unaligned NUMA Hint cause cpu prefer [11] among [11]",
            id="two nodes are too many",
        ),
    ],
)
def test_refusals_are_told_in_the_words_of_the_spec(offered: dict[str, Hints], rule: Rule, why: str) -> None:
    assert merged(offered, rule) == Objection(why)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (
            "cpu prefer [10] among [10 11],gpu prefer [01] among [01]",
            "cpu prefers NUMA node 1, gpu prefers NUMA node 0",
        ),
        (
            "cpu prefer [01 11] among [01 11] & gpu prefer [10] among [10]",
            "cpu prefers NUMA node 0 or 0+1, gpu prefers NUMA node 1",
        ),
    ],
)
def test_a_refusal_is_told_in_numbers_of_numa_nodes(reason: str, words: str) -> None:
    assert in_words(f"{UNALIGNED}{reason}") == words


@pytest.mark.parametrize("policy", ["BestEffort", "Restricted", "SingleNUMANode"])
def test_a_pod_without_a_preference_is_refused_nowhere(policy: Policy) -> None:
    assert merged({"cpu": None}, Rule(policy, BOTH, ("single", "shared"))) == ANYWHERE


def test_without_the_offer_that_has_the_policy_nothing_is_restricted() -> None:
    assert NUMA.settle([Offer({"gpu": ()}), None], ASK, 0) == ANYWHERE


def test_offers_of_several_plugins_are_settled_together() -> None:
    offers = [Offer({"cpu": hints(1, 2)}, Rule("SingleNUMANode", BOTH)), Offer({"gpu": hints(2)})]
    assert NUMA.settle(offers, ASK, 0) == Agreed(2)


_USES: tuple[Use, ...] = ("idle", "single", "shared")
_some_hints = st.lists(
    st.builds(Hint, st.integers(1, 7), st.booleans(), st.integers(0, 3)), max_size=4, unique_by=lambda hint: hint.nodes
).map(tuple)


@settings(max_examples=60)
@given(
    st.dictionaries(st.sampled_from(["cpu", "gpu", "memory"]), st.none() | _some_hints),
    st.sampled_from(["BestEffort", "Restricted", "SingleNUMANode"]),
    st.none() | st.tuples(*[st.sampled_from(_USES)] * 3),
)
def test_the_choice_agrees_with_going_through_all_combinations(
    offered: dict[str, Hints], policy: Policy, uses: tuple[Use, ...] | None
) -> None:
    rule, found = Rule(policy, 0b111, uses), merged(offered, Rule(policy, 0b111, uses))
    assert (None if isinstance(found, Objection) else found.nodes) == _by_all_combinations(offered, rule)


def _by_all_combinations(offered: dict[str, Hints], rule: Rule) -> int | None:
    cared = [each for each in offered.values() if each is not None]
    if not cared:
        return None
    if rule.policy == "SingleNUMANode":
        cared = [tuple(h for h in each if h.preferred and h.nodes in (1, 2, 4)) for each in cared]
    best = (1, 3, 0, rule.all_nodes, rule.policy != "BestEffort" or not all(cared))
    for combination in product(*cared):
        nodes = rule.all_nodes
        for hint in combination:
            nodes &= hint.nodes
        equal = all(hint.nodes == nodes for hint in combination)
        preferred = equal and all(hint.preferred for hint in combination) and _may(nodes, rule.uses)
        score = sum(hint.score for hint in combination if hint.nodes == nodes)
        if nodes:
            best = min(best, (not preferred, nodes.bit_count(), -score, nodes, not equal))
    refused, _, _, nodes, unsatisfied = best
    if rule.policy == "BestEffort":
        return rule.all_nodes if unsatisfied else nodes
    return None if refused else nodes


def _may(nodes: int, uses: tuple[Use, ...] | None) -> bool:
    there = {use for number, use in enumerate(uses or ()) if nodes >> number & 1}
    return ("single" if nodes.bit_count() > 1 else "shared") not in there
