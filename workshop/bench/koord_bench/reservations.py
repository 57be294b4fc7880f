"""How fast do owners find the room that is reserved for them?

Each reservation has room for five owners; so have all of them together for all owners, in any order. A fifth
of the node is left to others. Every owner must end in a reservation of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, Final

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import NODES, RESERVATIONS
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.reservation import Reservation
from koord.scheduler.core.core import Core
from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.reservation.rooms import Rooms
from koord.scheduler.profiles import profiles_of
from koord.scheduler.state.insiders import CameOutOf
from koord_bench.decisions import timed
from koord_bench.harness import Report

EACH: Final = 5
GOALS: Final = {5_000: 3_000}
PROFILE: Final = "koord-scheduler"
MakesPod = Callable[..., dict[str, Any]]


def add_rows(report: Report, nodes: Iterable[Node], pod: MakesPod, *, number: int, teams: int) -> None:
    core = Core(profiles_of(SHIPPED))
    nodes = list(nodes)
    for node in nodes:
        core.put(NODES, node)
    rng, open_nodes = random.Random(0), [node.metadata.name for node in nodes if not node.spec.taints]
    for i in range(number):
        core.put(RESERVATIONS, _reservation(i, f"team-{i % teams}", rng.choice(open_nodes)))
    owners = [
        Ask(convert(Pod, pod(f"owner-{i}", app=f"team-{i % teams}", cpu="500m", memory="1Gi")))
        for i in range(number * EACH)
    ]
    rng.shuffle(owners)
    decisions = timed(core.engines[PROFILE], owners)
    inside = sum(
        1 for record, _ in core.cluster.pods.values() if isinstance(dict(record.notes).get(Rooms.name), CameOutOf)
    )
    case = report.case(f"(r) {number} reservations, {len(owners)} owners, {len(nodes)} nodes")
    warm = decisions.warm()
    warm.add_rate(case, goal=GOALS.get(len(nodes)))
    case.add("p99", warm.ms(0.99), "ms", goal=5.0)
    case.add("first of a class", max(decisions.took_s) * 1000, "ms", goal=1000.0)
    inside_percent = 100 * inside / len(owners)
    case.add("in a reservation", inside_percent, "%", more_is_better=True, goal=100.0, at_any_size=True)


def _reservation(i: int, team: str, on: str) -> Reservation:
    requests = {"cpu": f"{EACH * 500}m", "memory": f"{EACH}Gi"}
    containers = [{"name": "main", "resources": {"requests": requests}}]
    return convert(
        Reservation,
        {
            "metadata": {"name": f"r-{i}", "uid": f"r-{i}", "labels": {"team": team}},
            "spec": {
                "template": {"spec": {"schedulerName": PROFILE, "containers": containers}},
                "owners": [{"labelSelector": {"matchLabels": {"app": team}}}],
                "allocateOnce": False,
                "allocatePolicy": "Aligned",
            },
            "status": {"phase": "Available", "nodeName": on, "allocatable": requests},
        },
    )
