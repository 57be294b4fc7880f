"""The smallest driver of the scheduler's core: objects in, decisions carried out at once, until no pod is ready.

What it lives through is as bad as on a cluster: objects come twice, nodes go and come back while pods are bound, and
answers get lost, so that only the pod's own state tells that it was bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import NODES, PODS, Kind
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind, Nowhere, Placed
from koord.scheduler.core.inputs import INPUTS
from koord.scheduler.profiles import profiles_of


class TinyDriver:
    def __init__(self, objects: Mapping[Kind[Any], Sequence[Any]], chance: Random) -> None:
        self.core, self.chance = Core(profiles_of(SHIPPED), alone=True), chance
        self.nodes = {node.metadata.name: node for node in objects[NODES]}
        self.placed: dict[str, str] = {}
        self.messages: dict[str, str] = {}
        for source in INPUTS:
            for thing in objects.get(source.kind, ()):
                for _ in range(chance.choice((1, 1, 2))):
                    self.core.put(source.kind, thing)

    def run(self) -> None:
        while (decision := self.core.decide()) is not None:
            if isinstance(decision, Bind):
                for placed in decision.members:
                    self._bind(decision, placed)
            else:
                assert isinstance(decision, Nowhere), decision
                self.messages[decision.ask.key] = decision.message

    def _bind(self, bind: Bind, placed: Placed) -> None:
        self.placed[placed.ask.key] = placed.node
        if self.chance.random() < 0.3:
            self.core.removed(NODES, self.nodes[placed.node])
            self.core.put(NODES, self.nodes[placed.node])
        if self.chance.random() < 0.7:
            self.core.bound(bind, placed.ask)
        pod = placed.ask.pod
        self.core.put(PODS, replace(pod, spec=replace(pod.spec, node_name=placed.node)), pod)
