"""The runs that answer a question: what is compared with what, and what is the same run."""

from __future__ import annotations

import msgspec
import pytest

from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.sim.jobs import Job, label, policies_of, seeded, side_by_side
from koord.sim.scenario import ClusterSource, Pool, Scenario

ADAPTIVE = Scenario(name="small", duration="24h", policy="adaptive")
POOLS = Scenario(
    name="pools",
    duration="24h",
    cluster=ClusterSource(pools={"web": 0.5, "batch": 0.5}),
    pools={"batch": Pool(policy="usage")},
)


def names(scenario: Scenario) -> list[str]:
    return [job.name for job in side_by_side(Job(label(scenario), scenario, 1, "traces"))]


def test_a_policy_is_compared_with_no_co_location_koordinator_and_the_oracle() -> None:
    assert names(ADAPTIVE) == ["adaptive", "none", "usage", "oracle"]


@pytest.mark.parametrize("policy", ["none", "usage", "oracle"])
def test_no_run_is_made_twice(policy: str) -> None:
    scenario = Scenario(name="small", duration="24h", policy=policy)
    assert names(scenario) == [policy, *(other for other in ("none", "usage", "oracle") if other != policy)]


def test_koordinator_with_other_settings_is_compared_with_its_defaults() -> None:
    scenario = Scenario(
        name="small", duration="24h", policy="usage", colocation=ColocationStrategy(cpu_reclaim_threshold_percent=80)
    )
    assert names(scenario) == ["usage", "none", "usage, defaults", "oracle"]
    defaults = side_by_side(Job("usage", scenario, 1, "traces"))[2].scenario
    assert defaults.colocation == ColocationStrategy()


def test_the_policies_of_pools_are_named_and_replaced_everywhere() -> None:
    assert label(POOLS) == "adaptive+usage"
    none = side_by_side(Job("x", POOLS, 1, "traces"))[1].scenario
    assert {policy.name for policy in policies_of(none).values()} == {"none"}


def test_seeds_follow_each_other() -> None:
    assert [job.seed for job in seeded(Job("x", ADAPTIVE, 7, "traces"), 3)] == [7, 8, 9]


def test_a_job_reaches_a_worker_as_json() -> None:
    job = Job("x", POOLS, 1, "traces")
    assert msgspec.json.decode(msgspec.json.encode(job), type=Job) == job
