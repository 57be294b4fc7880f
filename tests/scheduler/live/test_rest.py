"""With no new arrivals the cluster comes to rest, whatever came before, and whoever waits has a true reason."""

from __future__ import annotations

from random import Random

import pytest

from koord.api.pod import Pod
from koord.scheduler.live.cycle import Bind, Broken, Nowhere
from tests.scheduler.live.build import Fed, changed, node, pod

NODES, CPU = 12, 8


class Played:
    """Decisions are carried out at once; victims go, and are made again by their controller where they have one."""

    def __init__(self, *, owners: bool) -> None:
        self.fed, self.owners = Fed(), owners
        self.fed.put(*(node(f"n{number}", cpu=str(CPU)) for number in range(NODES)))
        self.reasons: dict[str, Nowhere] = {}
        self.preemptions = self.steps = 0
        self.generation = 0

    def play(self, most_steps: int) -> None:
        """Until nobody is ready, however long one waits."""
        idle = 0
        while idle < 3:
            decision = self.fed.step()
            if decision is None:
                idle += 1
                self.fed.clock.advance(12)
                continue
            idle = 0
            self.steps += 1
            assert self.steps <= most_steps, "it does not come to rest"
            self._carry_out(decision)

    def _carry_out(self, decision: Bind | Nowhere | Broken) -> None:
        assert not isinstance(decision, Broken), decision
        if isinstance(decision, Bind):
            self.reasons.pop(decision.ask.key, None)
            self.fed.feed.queue.done(decision.attempt)
            self.fed.put(changed(decision.ask.pod, node_name=decision.node))
            return
        self.reasons[decision.ask.key] = decision
        self.preemptions += bool(decision.remedy.victims)
        for key in decision.remedy.victims:
            victim = self.fed.pods.get(key)
            assert victim is not None
            self.fed.delete(victim)
            if self.owners:
                self.fed.put(self._again(victim))

    def _again(self, victim: Pod) -> Pod:
        self.generation += 1
        cpu = str(victim.spec.containers[0].resources.requests["cpu"])
        name = f"{victim.metadata.name.split('.')[0]}.{self.generation}"
        return pod(name, cpu=cpu, priority=victim.spec.priority or 0)


@pytest.mark.parametrize("owners", [False, True], ids=["victims gone", "victims made again"])
@pytest.mark.parametrize("order", ["rising", "random", "falling"])
def test_a_flood_with_giants_and_cascades_comes_to_rest(order: str, owners: bool) -> None:
    chance, played = Random(7), Played(owners=owners)
    pods = [
        pod(f"p{number}", cpu=str(chance.choice((1, 2, 3, 5))), priority=chance.randrange(5) * 100)
        for number in range(120)
    ]
    pods += [pod(f"giant{number}", cpu="100", priority=1000) for number in range(5)]
    if order != "random":
        pods.sort(key=lambda each: each.spec.priority or 0, reverse=order == "falling")
    for each in pods:
        played.fed.put(each)
        if order != "falling":
            played.play(20_000)
    played.play(20_000)
    fed = played.fed
    # Each more important pod pushes out less important ones, at most once for each level below it.
    assert played.preemptions <= 5 * len(pods)
    if order == "falling":
        assert played.preemptions == 0, "nobody need go for those who come later and matter less"
    table = fed.feed.cluster.table
    for row in table.row_of.values():
        assert int(table.columns[("requested", "cpu")][row]) <= CPU * 1000
    assert not len(fed.feed.cluster.nominations)
    assert fed.waiting == set(played.reasons), "each who waits was told why"
    fresh = Fed()
    fresh.put(*fed.nodes.records(), *fed.pods.records())
    for _ in fed.waiting:
        found = fresh.nowhere()
        assert found.remedy.node is None
        assert "Insufficient cpu" in found.message
        assert "Insufficient cpu" in played.reasons[found.ask.key].message
