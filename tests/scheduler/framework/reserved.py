"""Nodes, some with room that is reserved for the pods of a team, and pods of teams and others."""

from __future__ import annotations

import random

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import NODES as NODES_KIND
from koord.api.kinds import RESERVATIONS, SERVICES
from koord.api.kubernetes.core import Service
from koord.api.machinery.codec import convert
from koord.scheduler.core.core import Core
from koord.scheduler.profiles import profiles_of
from tests.scheduler.builders import ask, node
from tests.scheduler.reservations import reservation

NODES = 40


class Reserved:
    """`has_services`: the pods of a team are spread over zones, too."""

    def __init__(self, seed: int, *, has_services: bool = False) -> None:
        self.rng, self.number, self.placed = random.Random(seed), 0, list[tuple[str, str | None]]()
        self.core = Core(profiles_of(SHIPPED))
        for i in range(NODES):
            labels = {"topology.kubernetes.io/zone": f"zone-{i % 3}"}
            self.core.put(NODES_KIND, node(f"n{i}", cpu=self.rng.choice(["4", "8"]), pods="30", labels=labels))
        for team in range(6 if has_services else 0):
            meta = {"name": f"team-{team}", "namespace": "shop"}
            service = {"metadata": meta, "spec": {"selector": {"app": f"team-{team}"}}}
            self.core.put(SERVICES, convert(Service, service))

    def step(self) -> None:
        rng, core = self.rng, self.core
        self.number += 1
        dice, team = rng.random(), f"team-{rng.randrange(6)}"
        if dice < 0.06:
            found = reservation(
                f"r{self.number}",
                cpu=rng.choice("138"),
                owners=[{"labelSelector": {"matchLabels": {"app": team}}}],
                on=f"n{rng.randrange(NODES)}",
                allocateOnce=rng.random() < 0.3,
                allocatePolicy=rng.choice(["Aligned", "Restricted"]),
            )
            core.put(RESERVATIONS, found)
        elif dice < 0.85:
            pod = ask(f"p{self.number}", cpu=f"{100 * rng.randrange(1, 4)}m", labels={"app": team})
            self.placed.append((pod.key, core.engines["koord-scheduler"].place(pod).node))
        elif core.cluster.pods:
            core.cluster.remove_pod(rng.choice(sorted(core.cluster.pods)))
