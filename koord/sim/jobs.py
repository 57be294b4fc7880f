"""Which runs answer a question: the one in question, and the same load under the policies that it is compared with.

These are no co-location, Koordinator with its default settings, and the oracle; in a run that packs GPUs, the other
policies that pack them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.api.machinery.struct import Struct
from koord.api.protocol.crd.node_slo import ResourceThresholdStrategy
from koord.sim import packing
from koord.sim.policies.policy import Policy
from koord.sim.policies.registry import POLICIES
from koord.sim.scenario import Scenario

NOTHING_LENT: Final = "none"
KOORDINATOR: Final = "usage"
"""The policy of Koordinator's defaults."""
ORACLE: Final = "oracle"


class Job(Struct):
    """One run: what it is called, and all that decides about it. Workers receive it as JSON."""

    name: str
    scenario: Scenario
    seed: int
    traces: str
    "Folder of traces."
    folder: str = "."
    "Where the paths of manifests begin: the folder of the scenario's file."


def policies_of(scenario: Scenario) -> Mapping[str, Policy[Any]]:
    """The policies of a scenario by pool."""
    return {
        "": POLICIES[scenario.policy],
        **{pool: POLICIES[scenario.pool(pool).policy] for pool in scenario.cluster.pools},
    }


def everywhere(scenario: Scenario, policy: str) -> Scenario:
    """The scenario with one policy in all pools."""
    pools = {name: replace(pool, policy="") for name, pool in scenario.pools.items()}
    return replace(scenario, policy=policy, pools=pools)


def load_of(scenario: Scenario) -> Scenario:
    """What decides about the cluster and its load: the same for all policies, settings and models of response times."""
    plain = Scenario(name="cluster", duration=scenario.duration)
    return replace(
        scenario,
        name=plain.name,
        policy=plain.policy,
        mark_percent=plain.mark_percent,
        colocation=plain.colocation,
        thresholds=plain.thresholds,
        pools=plain.pools,
        latency=plain.latency,
    )


def with_defaults(scenario: Scenario) -> Scenario:
    """The scenario with Koordinator's own settings. The safety mark stays: it is what runs are measured by."""
    pools = {name: replace(pool, colocation=None, thresholds=None) for name, pool in scenario.pools.items()}
    return replace(scenario, colocation=ColocationStrategy(), thresholds=ResourceThresholdStrategy(), pools=pools)


def label(scenario: Scenario) -> str:
    """The policies of a scenario, for the head of a column."""
    if scenario.packing:
        return scenario.packing
    names = [scenario.pool(pool).policy for pool in scenario.cluster.pools] or [scenario.policy]
    return "+".join(dict.fromkeys(names))


def side_by_side(job: Job) -> tuple[Job, ...]:
    """The run in question, and those that it is compared with. No run is made twice."""
    scenario = job.scenario
    if scenario.packing:
        others = (replace(job, name=name, scenario=replace(scenario, packing=name)) for name in packing.POLICIES)
        return (job, *(other for other in others if other.scenario.packing != scenario.packing))
    koordinator = with_defaults(everywhere(scenario, KOORDINATOR))
    beside = (
        (NOTHING_LENT, everywhere(scenario, NOTHING_LENT)),
        (KOORDINATOR if job.name != KOORDINATOR else f"{KOORDINATOR}, defaults", koordinator),
        (ORACLE, everywhere(scenario, ORACLE)),
    )
    runs = (replace(job, name=name, scenario=other) for name, other in beside if name != job.name and other != scenario)
    return (job, *runs)


def seeded(job: Job, seeds: int) -> tuple[Job, ...]:
    """The run with its own seed and the next ones."""
    return tuple(replace(job, seed=job.seed + offset) for offset in range(seeds))
