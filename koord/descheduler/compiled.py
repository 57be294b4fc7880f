"""A configuration, ready for rounds: plugins with their arguments, selectors and rules. Made once, not every round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.configuration.descheduler_config import DeschedulerConfiguration, DeschedulerProfile
from koord.api.text.duration import parse_duration
from koord.api.text.selector import LabelMatcher
from koord.descheduler.plugin import Plugin
from koord.descheduler.registry import make
from koord.descheduler.rules import Rules
from koord.descheduler.selection import chosen_by

MIGRATION: Final = "MigrationController"


@dataclass(frozen=True, slots=True)
class ReadyProfile:
    name: str
    nodes: LabelMatcher
    deschedule: tuple[Plugin, ...]
    balance: tuple[Plugin, ...]
    rules: Rules


@dataclass(frozen=True, slots=True)
class Compiled:
    config: DeschedulerConfiguration
    interval_s: float
    nodes: LabelMatcher
    profiles: tuple[ReadyProfile, ...]

    def rules_of(self, profile: str) -> Rules:
        """The rules for a job of a profile. Jobs that users created, or whose profile is gone, follow the first
        profile."""
        return next((ready.rules for ready in self.profiles if ready.name == profile), self.profiles[0].rules)

    @property
    def arbitration_s(self) -> float:
        """How often jobs are ruled on: as the most impatient profile says."""
        wanted = (profile.rules.args.arbitration_args for profile in self.profiles)
        return min(
            (
                parse_duration(arbitration.interval) if arbitration and arbitration.interval else 0.0
                for arbitration in wanted
            ),
            default=0.0,
        )


def compiled(config: DeschedulerConfiguration, own: Sequence[type[Plugin]] = ()) -> Compiled:
    """`own`: the user's plugins, which take part in every profile."""
    return Compiled(
        config,
        parse_duration(config.descheduling_interval),
        chosen_by(config.node_selector),
        tuple(_profile(profile, own) for profile in config.profiles),
    )


def _profile(profile: DeschedulerProfile, own: Sequence[type[Plugin]]) -> ReadyProfile:
    resolved = profile.resolved()
    mine = tuple(kind() for kind in own)
    proposing = {
        point: (
            *(make(name, profile.written_args(name).completed()) for name in resolved[point]),
            *(plugin for plugin in mine if plugin.propose is not None and plugin.point == point),
        )
        for point in ("deschedule", "balance")
    }
    return ReadyProfile(
        profile.name,
        chosen_by(profile.node_selector),
        proposing["deschedule"],
        proposing["balance"],
        replace(
            Rules.of(profile.args_of(MIGRATION, MigrationControllerArgs)),
            filters=MIGRATION in resolved["filter"],
            sorts=MIGRATION in resolved["sort"],
            keeps=tuple(plugin.keeps for plugin in mine if plugin.keeps is not None),
            ranks=tuple(plugin.rank for plugin in mine if plugin.rank is not None),
        ),
    )
