"""No pod is evicted from a node and placed there again in a loop: scheduler, node_resource and agents together."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.configuration.component_config import PluginRef, PluginSet
from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.configuration.thresholds import COOL_DOWN_S
from tests.manager.colocation_model import GI, TICK_S, Job, World

HOUR = int(3600 / TICK_S)


def world(seed: int, jobs: int, *, closing: bool = True) -> World:
    dice = random.Random(seed)
    config = SHIPPED
    if not closing:
        (profile,) = config.profiles
        assert profile.plugins is not None
        without = replace(profile.plugins.filter, disabled=(PluginRef("NodeClosing"),))
        config = replace(config, profiles=(replace(profile, plugins=replace(profile.plugins, filter=without)),))
        assert isinstance(without, PluginSet)
    made = World(dice, nodes=dice.randint(1, 4), config=config)
    for i in range(jobs):
        memory = dice.randint(1, 16) * GI
        made.jobs.append(Job(f"job-{i}", dice.randint(1, 6) * 1000, memory, int(memory * dice.uniform(0.3, 1.4))))
    return made


def came_back(found: World) -> Iterable[tuple[float, str, str]]:
    """Placements on a node that evicted that very job within the cool-down before."""
    for at_s, job, node in found.placements:
        for eviction in found.evictions:
            if eviction.job == job and eviction.node == node and 0 <= at_s - eviction.at_s < COOL_DOWN_S:
                yield at_s, job, node


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32), jobs=st.integers(1, 24))
def test_under_any_load_nobody_comes_back_within_the_cool_down_and_evictions_are_bounded(seed: int, jobs: int) -> None:
    found = world(seed, jobs)
    found.run(HOUR)
    assert list(came_back(found)) == []
    for first in found.evictions:
        # Nobody comes to a node that evicts: within the cool-down, only who was there can go, each once.
        span = [
            eviction
            for eviction in found.evictions
            if eviction.node == first.node and 0 <= eviction.at_s - first.at_s < COOL_DOWN_S
        ]
        assert len(span) <= first.alone
        assert len({eviction.job for eviction in span}) == len(span)
    assert len(found.evictions) <= found.nodes * jobs * (HOUR * TICK_S / COOL_DOWN_S + 1)


@pytest.mark.parametrize("seed", range(3))
def test_batch_pods_do_run_where_there_is_room(seed: int) -> None:
    """The property above is not kept by placing no pod."""
    found = world(seed, 20)
    found.service = dict.fromkeys(found.service, (0.1, 0.1))
    for job in found.jobs:
        job.memory = job.uses_memory = GI
        job.cpu_milli = 200
    found.run(30, steady=True)
    assert found.evictions == []
    assert all(job.node for job in found.jobs)


def test_a_pod_that_is_too_large_for_its_node_does_not_ping_pong() -> None:
    counts = {}
    for closing in (True, False):
        found = world(1, 0, closing=closing)
        found.nodes = 1
        found.service = dict.fromkeys(found.service, (0.1, 0.45))
        # Asks for little and uses much: wherever it comes, memory runs short.
        found.jobs = [Job("greedy", 1000, GI, 20 * GI)]
        found.run(HOUR, steady=True)
        counts[closing] = len(found.evictions)
        assert bool(list(came_back(found))) is not closing
    assert counts[True] <= 3600 / COOL_DOWN_S * 4
    assert counts[False] > 2 * counts[True]


@pytest.mark.parametrize("seed", range(3))
def test_once_the_load_is_steady_evictions_are_rare(seed: int) -> None:
    found = world(seed, 12)
    found.run(HOUR)
    before = len(found.evictions)
    found.run(HOUR, steady=True)
    rounds = 3600 / COOL_DOWN_S
    assert len(found.evictions) - before <= rounds * found.nodes * 3
