"""One story in memory, by its seed or from a file: what happens is judged after every step."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from koord.api.configuration.component_config import PluginConfig
from koord.api.configuration.scheduler_args import ElasticQuotaArgs
from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration
from koord_chaos.halving import halves
from koord_chaos.invariants.invariant import violations
from koord_chaos.invariants.moment import Witness
from koord_chaos.invariants.placing import PARENT_QUOTAS, PLACING
from koord_chaos.invariants.resting import RESTING
from koord_chaos.invariants.resting import Rest as AtRest
from koord_chaos.stories.actions import Change, Drop, Put, Rest
from koord_chaos.stories.dice import Dice
from koord_chaos.stories.features import ALL
from koord_chaos.stories.memory import World, in_full
from koord_chaos.stories.recorded import Judgement, Line, Story
from koord_chaos.stories.script import Feature, Script

ACTIONS: Final = 60
FAILURE: Final = "no-failure"
"""In the place of an invariant's name: the scheduler failed, or did not come to rest."""


class Broken(AssertionError):
    """A promise is broken: how, and the story up to there."""

    def __init__(self, breaks: Sequence[str], story: Story, said: Sequence[str]) -> None:
        super().__init__(f"seed {story.seed}:\n{in_full(breaks)}\n\n{in_full(said)}")
        self.story = story
        self.invariant = breaks[0].partition(":")[0]


def play(seed: int, features: Sequence[Feature] = ALL) -> None:
    """Raises Broken."""
    dice = Dice(seed)
    telling = _Telling(seed, checks_parents=dice.chance(0.5))
    script = Script(dice, features)
    telling.hear(script.begin())
    for number in range(ACTIONS):
        is_last = number == ACTIONS - 1
        actions = [Rest()] if is_last else script.next(telling.world.manifests())
        telling.hear([*actions, Judgement(dice.chance(0.8))])


def replay(story: Story) -> None:
    """Raises Broken."""
    _Telling(story.seed, checks_parents=story.checks_parents).hear(story.lines)


async def shortest(broken: Broken) -> Story:
    """A short story that breaks the same promise."""
    story = broken.story

    async def breaks(lines: Sequence[Line]) -> bool:
        try:
            replay(story.shortened(lines))
        except Broken as error:
            return error.invariant == broken.invariant
        return False

    return story.shortened(await halves(story.lines, breaks))


class _Telling:
    """A story while it is told."""

    def __init__(self, seed: int, *, checks_parents: bool) -> None:
        self.world = World(Dice(seed ^ 0x5EED), config=_configuration(checks_parents))
        self._story = Story(seed, checks_parents, [])
        self._lines: list[Line] = []
        self._witness = Witness()
        self._placing = tuple(invariant for invariant in PLACING if checks_parents or invariant is not PARENT_QUOTAS)
        self._may_lessen = True
        "Nothing has happened since the last look that bindings under way do not take into account."
        self._rests = False

    def hear(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self._lines.append(line)
            try:
                breaks = self._happens(line)
            except Exception as error:
                where = traceback.format_exc(limit=-6)
                raise self._broken([f"{FAILURE} ({type(error).__name__}): {error!r}\n{where}"]) from error
            if breaks:
                raise self._broken(breaks)

    def _happens(self, line: Line) -> list[str]:
        world = self.world
        if isinstance(line, Judgement):
            if line.settles:
                world.settle()
            moment = self._witness.look(world.objects())
            breaks = [*violations(self._placing, moment)]
            if self._rests:
                breaks += violations(RESTING, AtRest(moment, world.would_bind()))
            self._may_lessen, self._rests = True, False
            world.wait(1.0)
            return breaks
        if self._may_lessen and isinstance(line, Put | Change | Drop) and line.lessens:
            self._may_lessen = False
            world.finish_bindings()
            if breaks := [*violations(self._placing, self._witness.look(world.objects()))]:
                return breaks
        self._rests = isinstance(line, Rest)
        world.act(line)
        return []

    def _broken(self, breaks: Sequence[str]) -> Broken:
        return Broken(breaks, self._story.shortened(self._lines), self.world.lines)


def _configuration(checks_parents: bool) -> SchedulerConfiguration:
    """As shipped, but for whether quotas above are checked."""
    profile = SHIPPED.profiles[0]
    others = tuple(plugin_config for plugin_config in profile.plugin_config if plugin_config.name != "ElasticQuota")
    quota = PluginConfig("ElasticQuota", ElasticQuotaArgs(enable_check_parent_quota=checks_parents))
    return replace(SHIPPED, profiles=(replace(profile, plugin_config=(*others, quota)),))
