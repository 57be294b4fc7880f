"""Policies of lending: what a configuration may choose, what is calculated and what the docs name are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from koord.api.configuration.lending_policies import CALCULATE_POLICIES, MID_MODES
from koord.manager.lending import mid
from koord.manager.lending.policies import POLICIES
from koord.manager.node_resource.explain import explain
from koord.manager.node_resource.plugins import choose
from tests.manager.builders import NOW_S, config, metric, node, pod, state

DOCS = Path(__file__).parents[3] / "docs" / "how-much-is-reclaimed.md"


def test_every_policy_that_a_configuration_may_name_has_a_formula() -> None:
    assert list(POLICIES) == list(CALCULATE_POLICIES)


def test_every_mode_that_a_configuration_may_name_has_a_formula() -> None:
    assert set(mid.MODES) == set(MID_MODES)


def test_the_docs_list_every_policy() -> None:
    text = DOCS.read_text()
    table = text[text.index("| policy | batch = |") :].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == list(POLICIES)


FRESH = pod("fresh", cpu="2", memory="4Gi")
OWNS_CPUS = pod("lse", cpu="4", memory="8Gi", qos="LSE")


@pytest.mark.parametrize(
    ("cpu", "memory", "fresh", "owns_cpus"),
    [
        ("usage", "request", "not measured yet: counts as requested", "LSE: lends none of its CPUs"),
        ("maxUsageRequest", "maxUsageRequest", "not measured yet: left out by maxUsageRequest", ""),
        (
            "usage",
            "maxUsageRequest",
            "cpu not measured yet: counts as requested; memory not measured yet: left out by maxUsageRequest",
            "LSE: lends none of its CPUs",
        ),
    ],
)
def test_the_explanation_says_how_each_resource_of_a_pod_counts(
    cpu: str, memory: str, fresh: str, owns_cpus: str
) -> None:
    node_state = state(node(), (FRESH, OWNS_CPUS), metric({"lse": ("1", "2Gi")}))
    slo = config(cpuCalculatePolicy=cpu, memoryCalculatePolicy=memory)
    told = {pod.pod: pod.why for pod in explain(node_state, slo, slo.for_node({}, {}), choose(), NOW_S).pods}
    assert told == {"default/fresh": fresh, "default/lse": owns_cpus}
