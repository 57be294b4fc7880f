"""One round of the descheduler: all profiles look at the cluster, and what they propose is let through or not.

Deschedule plugins come before balance plugins, in each case profile by profile. Limits for a round (per node, per
namespace, in total) count for all profiles together. A profile's filters decide which pods may move at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.configuration.descheduler_config import DeschedulerConfiguration, DeschedulerProfile
from koord.api.kubernetes.pod import Pod
from koord.api.text.duration import parse_duration
from koord.descheduler.evictable import Moves, matcher_of, never, not_yet
from koord.descheduler.plugin import NodeSeen, Proposal, Turn
from koord.descheduler.registry import make
from koord.descheduler.sight import Sight

MIGRATION: Final = "MigrationController"
TOO_FEW: Final = "fewer than two nodes are ready: there is nowhere to move a pod to"


@dataclass(frozen=True, slots=True)
class Held:
    proposal: Proposal
    why: str


@dataclass(slots=True)
class Outcome:
    """What a round came to."""

    moves: list[Proposal] = field(default_factory=list)
    "Let through, in their order."
    held: list[Held] = field(default_factory=list)
    "Those that should move, and must wait."
    nodes: dict[str, NodeSeen] = field(default_factory=dict)
    "How nodes looked to those who looked at their load."
    memory: dict[tuple[str, str], Any] = field(default_factory=dict)
    "What plugins remember, by profile and plugin."
    skipped: str = ""
    "Why there was no round."


def run(
    config: DeschedulerConfiguration,
    sight: Sight,
    memory: Mapping[tuple[str, str], Any] | None = None,
    *,
    at_once: bool = False,
) -> Outcome:
    """One round, on what `memory` says of those before it. `at_once`: as if everything had been so for long."""
    outcome = Outcome(memory=dict(memory or {}))
    chosen = matcher_of(config.node_selector)
    nodes = [name for name in sight.ready_nodes() if chosen.matches(sight.nodes[name].metadata.labels)]
    if len(nodes) <= 1:
        outcome.skipped = TOO_FEW
        return outcome
    letting = _Letting(config, sight, outcome)
    with sight.places.trial():
        for point in ("deschedule", "balance"):
            for profile in config.profiles:
                mine = matcher_of(profile.node_selector)
                seen = [name for name in nodes if mine.matches(sight.nodes[name].metadata.labels)]
                _run_profile(config, profile, point, seen, sight, letting, outcome, at_once)
    return outcome


def _run_profile(
    config: DeschedulerConfiguration,
    profile: DeschedulerProfile,
    point: str,
    nodes: Sequence[str],
    sight: Sight,
    letting: _Letting,
    outcome: Outcome,
    at_once: bool,
) -> None:
    args = profile.args_of(MIGRATION, MigrationControllerArgs)
    for name in profile.resolved()[point]:
        turn = Turn(
            sight,
            nodes,
            parse_duration(config.descheduling_interval),
            never=lambda pod: letting.never(pod, args),
            not_now=lambda pod: letting.not_now(pod, args),
            move=letting.move,
            hold=lambda proposal, why: outcome.held.append(Held(proposal, why)),
        )
        slot = profile.name, name
        outcome.memory[slot] = make(name, profile, at_once=at_once).propose(turn, outcome.memory.get(slot))
        outcome.nodes.update(turn.nodes_seen)


class _Letting:
    """Who is let through in this round."""

    def __init__(self, config: DeschedulerConfiguration, sight: Sight, outcome: Outcome) -> None:
        self._config, self._sight, self._outcome = config, sight, outcome
        self._moves = Moves()
        for pod in sight.moving:
            self._moves.add(pod)
        self._per_node: Counter[str] = Counter()
        self._per_namespace: Counter[str] = Counter()

    def never(self, pod: Pod, args: MigrationControllerArgs) -> str | None:
        if args.default_job_mode == "ReservationFirst" and str(pod.spec.scheduler_name) not in args.scheduler_names:
            return f"no reservation helps pods of the scheduler {pod.spec.scheduler_name} (schedulerNames)"
        return never(pod, args, self._sight.workloads)

    def not_now(self, pod: Pod, args: MigrationControllerArgs) -> str | None:
        if pod in self._moves:
            return "it is moving already"
        return not_yet(pod, args, self._sight.workloads, self._moves) or self._over_limit(pod)

    def move(self, proposal: Proposal) -> None:
        self._moves.add(proposal.pod)
        self._per_node[proposal.node] += 1
        self._per_namespace[proposal.pod.metadata.namespace] += 1
        self._outcome.moves.append(proposal)

    def _over_limit(self, pod: Pod) -> str | None:
        config = self._config
        node, namespace = pod.spec.node_name, pod.metadata.namespace
        for number, limit, name in (
            (self._per_node[node], config.max_no_of_pods_to_evict_per_node, "maxNoOfPodsToEvictPerNode"),
            (
                self._per_namespace[namespace],
                config.max_no_of_pods_to_evict_per_namespace,
                "maxNoOfPodsToEvictPerNamespace",
            ),
            (len(self._outcome.moves), config.max_no_of_pods_to_evict_total, "maxNoOfPodsToEvictTotal"),
        ):
            if limit is not None and number + 1 > limit:
                return f"this round has moved {number} pods already ({name}: {limit})"
        return None
