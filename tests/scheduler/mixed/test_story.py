"""A random story with all that the scheduler has, judged by its API objects alone.

make explore T=tests/scheduler/mixed/test_story.py SECONDS=600
python -m tests.scheduler.mixed.test_story 0 1000       the first thousand seeds, with what went wrong
"""

from __future__ import annotations

import sys

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.scheduler.dice import Dice
from tests.scheduler.mixed.invariants import Checker
from tests.scheduler.mixed.script import Change, Drop, Put, Rest, Script
from tests.scheduler.mixed.world import World, in_full
from tests.scheduler.quotas import configured

ACTIONS = 60
NOT_YET: frozenset[str] = frozenset()
"""Rules that are known to be broken, and not asked."""


class Wrong(AssertionError):
    """What went wrong, and the story up to there."""


def play(seed: int) -> None:
    dice = Dice(seed)
    checks_parents = dice.chance(0.5)
    world = World(Dice(seed ^ 0x5EED), config=configured(enable_check_parent_quota=checks_parents))
    script = Script(dice)
    checker = Checker(NOT_YET if checks_parents else NOT_YET | {"quotas above keep their max"})
    for action in script.begin():
        world.act(action)
    for i in range(ACTIONS):
        actions = [Rest()] if i == ACTIONS - 1 else script.next(world.manifests())
        if any(isinstance(action, Put | Change | Drop) and action.lessens for action in actions):
            world.finish_bindings()
            _judge(checker.look(world.objects()), seed, i, world)
        for action in actions:
            world.act(action)
        if dice.chance(0.8):
            world.settle()
        is_rest = isinstance(actions[0], Rest)
        faults = checker.at_rest(world.objects()) if is_rest else checker.look(world.objects())
        if is_rest:
            faults += [f"a fresh scheduler would bind {pod}" for pod in world.would_bind()]
        _judge(faults, seed, i, world)
        world.wait(1.0)


def _judge(faults: list[str], seed: int, actions: int, world: World) -> None:
    if faults:
        raise Wrong(f"seed {seed}, after {actions} actions:\n{in_full(faults)}\n\n{in_full(world.told)}")


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32))
@example(73).via("a quota has what a reservation lacks for its owner")
@example(560).via("a trial of preemption touches a reservation for which an owner of its quota waits")
@example(776).via("a pod whose quota has nothing but a reservation goes beside it")
@example(840).via("the large member of a gang takes what the others need of their quota")
@example(4990).via("a gang is let go by its quota, and gated before it is tried")
def test_whatever_happens_everybody_gets_what_is_theirs_and_nobody_waits_in_vain(seed: int) -> None:
    play(seed)


def main(first: int, last: int) -> int:
    """Play stories by their numbers; how many went wrong."""
    wrong = 0
    for seed in range(first, last):
        try:
            play(seed)
        except Exception as error:  # noqa: BLE001 - it is told, and the next one is played
            wrong += 1
            print(f"{seed}: {type(error).__name__}: {str(error).splitlines()[:3]}", flush=True)
    print(f"{wrong} of {last - first} went wrong")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
