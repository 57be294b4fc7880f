"""Nodes with Reservations are kept from autoscalers, and let go with the last of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from koord.api.configuration.features import SchedulerGate
from koord.api.kinds import NODES, RESERVATIONS
from koord.kube.client import Client
from koord.scheduler.live.run import SchedulerOptions
from koord.scheduler.plugins.reservation.kept_nodes import KEPT, change, holding
from koord_minicluster.up.bootstrap import bootstrap
from tests.scheduler.live.embedded import make_nodes, scheduling, serving
from tests.scheduler.live.test_reservations import reserving
from tests.scheduler.reservations import reservation
from tests.waiting import eventually

SCALE_DOWN = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
DISRUPT = "karpenter.sh/do-not-disrupt"
BOTH = {SCALE_DOWN: "true", DISRUPT: "true", KEPT: f"{SCALE_DOWN},{DISRUPT}"}


@pytest.mark.parametrize(
    ("annotations", "holds", "wanted"),
    [
        ({}, True, BOTH),
        (BOTH, True, {}),
        (BOTH, False, dict.fromkeys(BOTH)),
        ({}, False, {}),
        # What another user said stands, whatever it is, and stays when koord's goes.
        ({SCALE_DOWN: "false"}, True, {DISRUPT: "true", KEPT: DISRUPT}),
        ({SCALE_DOWN: "true", DISRUPT: "true"}, True, {}),
        ({SCALE_DOWN: "true", DISRUPT: "true"}, False, {}),
        ({SCALE_DOWN: "true", DISRUPT: "true", KEPT: DISRUPT}, False, {DISRUPT: None, KEPT: None}),
        # Of what stands in the mark, nothing else is ever taken off.
        ({KEPT: f"{DISRUPT},important", "important": "x"}, False, {DISRUPT: None, KEPT: None}),
    ],
)
def test_what_a_node_has_to_say(annotations: dict[str, str], holds: bool, wanted: dict[str, str | None]) -> None:
    assert change(annotations, holds=holds) == wanted


def test_only_reservations_that_have_room_on_a_node_hold_it() -> None:
    given = [
        reservation("pending"),
        reservation("available", on="n1"),
        reservation("expired", on="n2", status={"phase": "Failed"}),
        reservation("used-up", on="n3", status={"phase": "Succeeded"}),
    ]
    assert holding(given) == {"n1"}


async def _annotations(client: Client) -> dict[str, str]:
    return dict((await client.get(NODES, "node-000")).metadata.annotations)


async def test_a_node_is_kept_while_a_reservation_is_there_and_let_go_by_the_next_scheduler(tmp_path: Path) -> None:
    options = SchedulerOptions(alone=True, gates={SchedulerGate.RESERVATIONS_KEEP_NODES: True})
    async with serving(tmp_path) as client:
        await bootstrap(client)
        await make_nodes(client, 1, cpu="4")

        async def is_kept() -> bool:
            return BOTH.items() <= (await _annotations(client)).items()

        async def is_free() -> bool:
            return not BOTH.keys() & (await _annotations(client)).keys()

        await client.create(RESERVATIONS, reserving("night", "3"))
        async with scheduling(client, options=options):
            await eventually(is_kept)
        await client.delete(RESERVATIONS, "night")
        async with scheduling(client, options=options):
            await eventually(is_free)
