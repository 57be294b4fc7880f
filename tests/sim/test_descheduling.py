"""The descheduler in a simulated cluster: hot nodes are relieved by the decisions that run live."""

from __future__ import annotations

import json

import numpy as np
import pytest

from koord.api.kinds import RESERVATIONS
from koord.api.machinery.faults import BadInput
from koord.api.text import manifest
from koord.sim.cluster import Cluster
from koord.sim.lending import lenders
from koord.sim.run import run
from koord.sim.stage import Stage, stage_of
from koord.sim.steps import step
from tests.sim import small
from tests.sim.small import Fixed

NODES = 6


def crowded() -> Cluster:
    """All services on the first two nodes, which they use to nine tenths."""
    curves = small.services(1, per_node=24, hours=4, cores=2.0)
    curves.cpu_milli[:] = 1200
    node = np.arange(24) % 2
    return Cluster(small.nodes(NODES), curves, node.astype(np.int64), small.tasks(1))


def stage(**given: object) -> Stage:
    scenario = small.scenario(duration="3h", descheduler={"every": "5m"}, **given)
    cluster = crowded()
    return stage_of(scenario, cluster, lenders(scenario, cluster.nodes, {"": Fixed(share=0.1)}), 1, None, None)


def test_pods_leave_hot_nodes_for_the_room_that_was_reserved_for_them() -> None:
    playing = stage()
    moved = 0
    for _ in range(90):
        before = playing.world.service_node.copy()
        step(playing)
        moved += playing.meanwhile.moved
        # A service that moves has its new node in the same minute.
        assert (playing.world.service_node >= 0).all()
        assert int((before != playing.world.service_node).sum()) in (24, playing.meanwhile.moved)
    used = np.bincount(playing.world.service_node, minlength=NODES) * 1200 / 16_000
    assert moved > 0
    assert used.max() < 0.8
    assert not playing.scheduler.placing.core.objects(RESERVATIONS) or all(
        reservation.status.phase == "Succeeded"
        for reservation in playing.scheduler.placing.core.objects(RESERVATIONS).values()
    )


def test_without_a_descheduler_hot_nodes_stay_hot() -> None:
    scenario = small.scenario(duration="1h")
    outcome = run(scenario, crowded(), {"": Fixed(share=0.1)})
    assert outcome.totals.moved == 0
    assert (outcome.nodes.services_milli > 0).sum() == 2


def test_a_resumed_run_moves_the_same_pods() -> None:
    scenario = small.scenario(duration="90m", restart="30m", descheduler={"every": "5m"})
    saved: list[bytes] = []
    whole = run(scenario, crowded(), {"": Fixed(share=0.1)}, save=saved.append)
    resumed = run(scenario, crowded(), {"": Fixed(share=0.1)}, resume=saved[0])
    assert whole.totals.moved > 0
    assert json.dumps(resumed.as_json()) == json.dumps(whole.as_json())


def test_two_descheduler_configurations_are_refused() -> None:
    text = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerConfiguration\n"
    manifests = manifest.parse(f"{text}---\n{text}", "configs.yaml")
    scenario = small.scenario(descheduler={"every": "5m"})
    with pytest.raises(BadInput, match="two descheduler configurations"):
        run(scenario, crowded(), {"": Fixed()}, manifests=manifests)
