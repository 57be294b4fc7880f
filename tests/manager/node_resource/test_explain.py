"""The explanation is the calculation: its lines come to its result, and it says why the published figure is another."""

from __future__ import annotations

import msgspec
import pytest

from koord.api.configuration.slo_config import SloConfig
from koord.manager.figures import Term, total
from koord.manager.node_resource.explain import NodeExplanation, ResourceExplanation, explain
from koord.manager.node_resource.plugins import choose
from koord.manager.node_state import NodeState
from tests.manager.builders import API, JOB, NOW_S, WEB, base, config, node, pod, settings, state, topology

CPU = "kubernetes.io/batch-cpu"
FRESH = pod("fresh", cpu="4", memory="8Gi", qos="LS", phase="Pending")


def told(given: NodeState, slo: SloConfig | None = None, **known: object) -> NodeExplanation:
    slo = slo or config()
    return explain(given, slo, settings(given, slo), choose(), NOW_S, **known)  # type: ignore[arg-type]


def of(explanation: NodeExplanation, resource: str = CPU) -> ResourceExplanation:
    return next(each for each in explanation.resources if each.resource == resource)


def test_the_lines_come_to_the_result() -> None:
    for resource in told(state(report=base(reclaimable=("1", "1Gi")))).resources:
        terms = [Term(line.op, line.name, line.amount) for line in resource.lines]  # type: ignore[arg-type]
        assert total(terms) == resource.recomputed


def test_the_lines_are_the_formula() -> None:
    lines = of(told(state(report=base()))).lines
    assert [(line.op, line.name, line.amount) for line in lines][:4] == [
        ("start", "capacity", 64000),
        ("minus", "safetyMargin", 25600),
        ("minus", "system", 2500),
        ("minus", "pods", 9200),
    ]
    assert "cpuReclaimThresholdPercent 60" in lines[1].why


def test_each_pod_says_what_it_counts_and_why() -> None:
    lse = pod("lse", cpu="2", memory="1Gi", qos="LSE")
    report = base(pods={"lse": ("0.5", "1Gi"), "gone": ("1", "1Gi")})
    explanation = told(state(pods=(WEB, API, JOB, FRESH, lse), report=report))
    found = {pod.pod: pod for pod in explanation.pods}
    assert (found["default/web"].counted_cpu, found["default/web"].why) == (6200, "")
    assert found["default/fresh"].counted_cpu == 4000
    assert "not measured" in found["default/fresh"].why
    assert (found["default/lse"].counted_cpu, found["default/lse"].used_cpu) == (2000, 500)
    assert found["default/job"].counted_cpu == 0
    assert found["default/gone"].counted_cpu == 1000
    counted = sum(pod_explanation.counted_cpu for pod_explanation in found.values())
    assert counted == next(line.amount for line in of(explanation).lines if line.name == "pods")


@pytest.mark.parametrize(
    ("published", "written_ago_s", "words"),
    [
        ("26700", None, ""),
        ("26k", None, "2.7%"),
        ("26k", 100.0, "in 3m20s"),
        ("26k", 400.0, "next looks"),
        ("20k", 100.0, "33.5%"),
        ("0", 100.0, "any change"),
        (None, None, "nothing is published yet"),
    ],
)
def test_why_the_published_figure_is_another(published: str | None, written_ago_s: float | None, words: str) -> None:
    given = state(node(published={CPU: published} if published is not None else {}), report=base())
    written_s = None if written_ago_s is None else NOW_S - written_ago_s
    resource_explanation = of(told(given, written_s=written_s))
    assert resource_explanation.matches == (words == "")
    assert words in resource_explanation.why_different
    assert bool(resource_explanation.why_different) == bool(words)


def test_where_nobody_leads_that_is_the_reason() -> None:
    resource_explanation = of(told(state(report=base()), manager="no manager leads"))
    assert "no manager leads" in resource_explanation.why_different


def test_what_is_stale_is_not_lent_and_said_so() -> None:
    given = told(state(node(published={CPU: "20k"}), report=base(age_s=1000)))
    assert "stale" in given.report.distrusted
    resource_explanation = of(given)
    assert resource_explanation.recomputed is None
    assert "stale" in resource_explanation.why_none
    assert "taken away" in resource_explanation.why_different


def test_off_says_where() -> None:
    off = node(annotations={"node.koordinator.sh/colocation-strategy": '{"enable":false}'})
    given = told(state(off, report=base()))
    assert not given.colocation
    assert "colocation-strategy" in given.why_off


def test_settings_say_where_they_were_set() -> None:
    given = state(node(labels={"node.koordinator.sh/cpu-reclaim-ratio": "0.8"}), report=base())
    found = {setting.field: setting for setting in told(given, config(memoryReclaimThresholdPercent=70)).settings}
    assert (found["cpuReclaimThresholdPercent"].value, found["cpuReclaimThresholdPercent"].set_in) == (
        80,
        "node label node.koordinator.sh/cpu-reclaim-ratio",
    )
    assert found["memoryReclaimThresholdPercent"].set_in == "colocation-config"
    assert found["degradeTimeMinutes"].set_in == "default"


def test_a_clock_that_is_ahead_is_said() -> None:
    assert told(state(report=base(age_s=-600))).report.ahead_seconds == 600


def test_zones_are_told_with_their_lines() -> None:
    zones = told(state(report=base(), zones=topology())).zones
    assert [zone.zone for zone in zones] == ["node-0", "node-1"]
    assert zones[0].resources[CPU] == 13350
    assert zones[0].lines[CPU][0].amount == 32000


def test_what_a_plugin_could_not_decide_is_a_note() -> None:
    given = state(node(labels={"node.koordinator.sh/cpu-normalization-enabled": "perhaps"}), report=base())
    assert any("CPUNormalization" in note and "perhaps" in note for note in told(given).notes)


def test_every_key_is_there_whatever_its_value() -> None:
    data = msgspec.to_builtins(told(state(report=None)))
    assert set(data) >= {"node", "report", "resources", "pods", "zones", "settings", "lastWritten", "manager", "notes"}
    assert data["report"]["updateTime"] is None
    assert set(data["resources"][0]) >= {"recomputed", "published", "matches", "lines", "whyNone", "whyDifferent"}
