"""Scenario files: what is read, and what is said about a file that cannot be meant."""

from __future__ import annotations

import pytest

from koord.api.machinery.faults import Invalid
from koord.sim.scenario import API_VERSION, parse


def faults_of(text: str) -> str:
    with pytest.raises(Invalid) as caught:
        parse(text, "mix.yaml")
    return str(caught.value)


def test_a_scenario_of_two_lines_has_defaults_for_the_rest() -> None:
    scenario = parse("name: mix\nduration: 24h\n", "mix.yaml")
    assert (scenario.ticks, scenario.policy, scenario.mark_percent) == (1440, "adaptive", 85)


def test_a_header_may_be_written() -> None:
    assert parse(f"apiVersion: {API_VERSION}\nkind: Scenario\nname: mix\nduration: 1h\n", "mix.yaml").ticks == 60


def test_a_pool_takes_what_it_does_not_set_from_the_scenario() -> None:
    scenario = parse(
        """
name: mix
duration: 1h
policy: usage
colocation: {cpuReclaimThresholdPercent: 60, degradeTimeMinutes: 5}
cluster: {pools: {web: 0.5, batch: 0.5}}
pools:
  web: {markPercent: 80, colocation: {cpuReclaimThresholdPercent: 70}}
""",
        "mix.yaml",
    )
    web, batch = scenario.pool("web"), scenario.pool("batch")
    assert (web.policy, web.mark_percent, batch.mark_percent) == ("usage", 80, 85)
    assert web.colocation is not None
    assert batch.colocation is not None
    assert (web.colocation.cpu_reclaim_threshold_percent, web.colocation.degrade_time_minutes) == (70, 5)
    assert batch.colocation.cpu_reclaim_threshold_percent == 60


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "mix.yaml: must be a scenario"),
        ("name: mix\n", "duration: is required"),
        ("name: mix\nduration: 0s\n", "duration: must be longer than 0s, not 0s (line 2)"),
        ("name: mix\nduration: 9000h\n", "duration: must be at most 8784h, not 9000h (line 2)"),
        (
            "name: mix\nduration: 1h\ncluster:\n  serviceCores: {least: 0.001, most: 1}\n",
            "cluster.serviceCores.least: must be at least 0.01, not 0.001 (line 4)",
        ),
        ("name: mix\nduration: 90s\n", "duration: must be whole minutes, not 90s (line 2)"),
        ("name: mix\nduration: 24h\nwarmUp: 24h\n", "warmUp: must be shorter than duration (24h), not 24h (line 3)"),
        ("name: mix\nduration: 1h\nbatch:\n  pending: 3\n", "batch.pending: needs arrivals: saturate; "),
        ("name: mix\nduration: 1h\nbatch:\n  arrivals: saturate\n", "batch.pending: is required with arrivals"),
        ("name: mix\nduration: 1h\nmarkPercnt: 90\n", "unknown field (did you mean markPercent?) (line 3)"),
        ("name: mix\nduration: 1h\ncluster:\n  pools: {a: 0.4}\n", "the shares must add up to 1, not 0.4 (line 4)"),
        ("name: mix\nduration: 1h\npools: {a: {}}\n", "pools.a: is not among cluster.pools (none"),
        (
            "name: mix\nduration: 1h\nfaults:\n  nodeFailures: {every: 1h, lasting: 2h}\n",
            "faults.nodeFailures.lasting: must be shorter than every (1h), not 2h (line 4)",
        ),
        ("name: mix\nduration: 1h\npolicy: best\n", "policy: must be one of none, usage"),
        ("name: mix\nduration: 1h\nservices: {trace: surf+x}\n", "not 'x' (line 3)"),
        (
            "name: mix\nduration: 1h\ncluster: {pools: {a: 1}}\npools: {a: {policy: best}}\n",
            "oracle, not 'best' (line 4)",
        ),
        ("kind: Pod\nname: mix\nduration: 1h\n", "kind: must be Scenario, not 'Pod' (line 1)"),
    ],
)
def test_a_faulty_scenario_is_refused_with_the_field_and_its_line(text: str, message: str) -> None:
    assert message in faults_of(text)


def test_all_faults_of_a_file_come_at_once() -> None:
    text = faults_of("name: mix\nduration: 1h\nwarmUp: 2h\nmarkPercent: 101\nseed: -1\n")
    assert "2 faults" in text
    assert "markPercent" in text
    assert "seed" in text
