"""Any history of nodes, quotas and pods: what objects are to say equals a recount, and no quota is over its limit."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from koord.api.kinds import ELASTIC_QUOTAS, NODES, PODS
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind, Nowhere
from koord.scheduler.plugins.quota.quotas import Quotas, is_fixed
from koord.scheduler.plugins.quota.status import own_status
from tests.scheduler.builders import node
from tests.scheduler.quotas import Teams, quota, team_pod

NAMES = ("a", "b", "c", "d", "e")
DEFAULT = "koordinator-default-quota"


class Story:
    """A world that changes by chance."""

    def __init__(self, seed: int) -> None:
        self.dice, self.teams = random.Random(seed), Teams(8, 8)
        self.nodes: dict[str, Node] = {f"n{i}": node(f"n{i}", cpu="8", memory="1000Gi") for i in range(2)}
        self.number = 0

    @property
    def pods(self) -> list[Pod]:
        return [each for (kind, _), each in self.teams.known.items() if kind is PODS]

    @property
    def quotas(self) -> list[ElasticQuota]:
        return [each for (kind, _), each in self.teams.known.items() if kind is ELASTIC_QUOTAS]

    def step(self) -> None:
        dice, teams = self.dice, self.teams
        what = dice.random()
        if what < 0.4:
            self.number += 1
            teams.put(self._pod(f"p{self.number}"))
        elif what < 0.5 and self.pods:
            teams.delete(dice.choice(self.pods))
        elif what < 0.6 and self.pods:
            pod = dice.choice(self.pods)
            if pod.spec.node_name:
                teams.put(replace(pod, status=replace(pod.status, phase="Succeeded")))
            else:
                other = self._pod(pod.metadata.name)
                teams.put(replace(pod, metadata=replace(pod.metadata, labels=other.metadata.labels)))
        elif what < 0.8:
            teams.put(self._quota(dice.choice(NAMES)))
        elif what < 0.85 and self.quotas:
            teams.delete(dice.choice(self.quotas))
        elif what < 0.9:
            name = f"n{dice.randrange(4)}"
            known = self.nodes.pop(name, None)
            if known is None:
                self.nodes[name] = node(name, cpu=str(dice.choice((4, 8))), memory="1000Gi")
                teams.core.put(NODES, self.nodes[name])
            else:
                teams.core.removed(NODES, known)
        else:
            teams.wait(dice.choice((1, 12)))
            self.decide()

    def decide(self) -> None:
        """Decide and bind, and check that no pod is placed beyond the limit of its quota."""
        teams = self.teams
        for _ in range(500):
            decision = teams.core.decide()
            if decision is None:
                return
            if isinstance(decision, Bind):
                for member in decision.members:
                    found = teams.quotas.quota_of(member.ask)
                    assert found is not None
                    for key, bound in teams.quotas.limit(found).items():
                        assert teams.quotas.used(found).get(key, 0) <= bound
                    teams.core.bound(decision, member.ask)
                    pod = teams.known[PODS, member.ask.key]
                    teams.put(replace(pod, spec=replace(pod.spec, node_name=member.node)))
            elif isinstance(decision, Nowhere) and decision.remedy.victims:
                for key in decision.remedy.victims:
                    assert not is_fixed(teams.known[PODS, key])
                    teams.delete(teams.known[PODS, key])
                # Nobody goes for a pod that then does not fit.
                engine, cluster = teams.core.engines[decision.profile], teams.core.cluster
                with cluster.nominations.without(decision.ask.key):
                    assert engine.fits(decision.ask, cluster.table.row_of[decision.remedy.node or ""])
        raise AssertionError("the scheduler does not come to rest")

    def _pod(self, name: str) -> Pod:
        dice = self.dice
        team = dice.choice((*NAMES, "", "unknown"))
        fixed, priority = dice.random() < 0.2, dice.choice((0, 0, 5))
        return team_pod(name, team, f"{dice.randrange(0, 3000)}m", fixed=fixed, priority=priority)

    def _quota(self, name: str) -> ElasticQuota:
        dice = self.dice
        most: dict[str, Any] = {"cpu": str(dice.randrange(1, 10))}
        if dice.random() < 0.3:
            most["memory"] = "10Gi"
        least = str(dice.randrange(0, int(most["cpu"]) + 1))
        parent, namespaces = dice.choice(("", "", *NAMES)), dice.choice((None, None, ["shop"]))
        return quota(name, least, most, parent=parent, namespaces=namespaces, lends=dice.random() < 0.8)


def statuses(core: Core) -> dict[str, object]:
    quotas = core.cluster.notes(Quotas)
    found: dict[str, object] = {}
    for name, each in quotas.forest.quotas.items():
        found[name] = own_status(quotas, each), dict(quotas.runtime(each)), quotas.forest.why_not(name)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_after_any_history_quotas_say_what_a_new_scheduler_says(seed: int) -> None:
    story = Story(seed)
    for number in range(150):
        story.step()
        if number % 25 == 24:
            fresh = Teams()
            for node in story.nodes.values():
                fresh.core.put(NODES, node)
            fresh.put(*story.quotas, *story.pods)
            assert statuses(story.teams.core) == statuses(fresh.core)
    story.teams.wait(400)
    story.decide()
