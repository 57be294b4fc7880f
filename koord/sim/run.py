"""A run: minute by minute through a scenario, with a lending policy for each pool.

    outcome = run(scenario, cluster, {"": POLICIES["adaptive"]}, seed=1)

Equal arguments give an equal outcome, byte by byte, also across a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from koord.api.text.manifest import Manifests
from koord.sim.cluster import Arrivals, Cluster
from koord.sim.outcome import Outcome
from koord.sim.policies.policy import Policy
from koord.sim.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is."""

    at_s: float
    of_s: float
    pending: int
    running: int


def run(
    scenario: Scenario,
    cluster: Cluster,
    policies: Mapping[str, Policy[Any]],
    *,
    seed: int = 0,
    manifests: Manifests | None = None,
    arrivals: Arrivals | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
    stop: Callable[[], bool] = lambda: False,
    save: Callable[[bytes], None] | None = None,
    resume: bytes | None = None,
) -> Outcome:
    """Run a scenario. `policies`: by pool; "" is for pools that are not named. `arrivals`: instead of the times of the
    cluster's tasks. `progress` and `stop` are asked after each minute; a run that is stopped gives what it has so far.
    `save` gets checkpoints, and `resume` is one of them: the run continues there."""
    raise NotImplementedError
