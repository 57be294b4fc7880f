"""One story in memory from its seed to its end: what happens is judged after every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from koord.api.configuration.component_config import PluginConfig
from koord.api.configuration.scheduler_args import ElasticQuotaArgs
from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration
from koord_chaos.invariants.invariant import violations
from koord_chaos.invariants.moment import Witness
from koord_chaos.invariants.placing import PARENT_QUOTAS, PLACING
from koord_chaos.invariants.resting import RESTING
from koord_chaos.invariants.resting import Rest as AtRest
from koord_chaos.stories.dice import Dice
from koord_chaos.stories.memory import World, in_full
from koord_chaos.stories.script import Change, Drop, Put, Rest, Script

ACTIONS: Final = 60


class Broken(AssertionError):
    """A promise is broken: how, and the story up to there."""


def play(seed: int) -> None:
    dice = Dice(seed)
    checks_parents = dice.chance(0.5)
    world = World(Dice(seed ^ 0x5EED), config=_configuration(checks_parents))
    script = Script(dice)
    witness = Witness()
    placing = PLACING if checks_parents else tuple(invariant for invariant in PLACING if invariant is not PARENT_QUOTAS)
    for action in script.begin():
        world.act(action)
    for i in range(ACTIONS):
        actions = [Rest()] if i == ACTIONS - 1 else script.next(world.manifests())
        if any(isinstance(action, Put | Change | Drop) and action.lessens for action in actions):
            world.finish_bindings()
            _judge([*violations(placing, witness.look(world.objects()))], seed, i, world)
        for action in actions:
            world.act(action)
        if dice.chance(0.8):
            world.settle()
        is_rest = isinstance(actions[0], Rest)
        moment = witness.look(world.objects())
        faults = [*violations(placing, moment)]
        if is_rest:
            faults += violations(RESTING, AtRest(moment, world.would_bind()))
        _judge(faults, seed, i, world)
        world.wait(1.0)


def _configuration(checks_parents: bool) -> SchedulerConfiguration:
    """As shipped, but for whether quotas above are checked."""
    profile = SHIPPED.profiles[0]
    others = tuple(plugin_config for plugin_config in profile.plugin_config if plugin_config.name != "ElasticQuota")
    quota = PluginConfig("ElasticQuota", ElasticQuotaArgs(enable_check_parent_quota=checks_parents))
    return replace(SHIPPED, profiles=(replace(profile, plugin_config=(*others, quota)),))


def _judge(faults: Sequence[str], seed: int, actions: int, world: World) -> None:
    if faults:
        raise Broken(f"seed {seed}, after {actions} actions:\n{in_full(faults)}\n\n{in_full(world.lines)}")
