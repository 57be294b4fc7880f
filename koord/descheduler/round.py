"""One round of the descheduler: all profiles look at the cluster, and what they propose is let through or not.

Deschedule plugins come before balance plugins, in each case profile by profile. Limits for a round (per node, per
namespace, in total) count for all profiles together. A profile's filters decide which pods may move at all. Every pod
that moves has its new place from then on, so that a round's moves fit together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from koord.api.configuration.descheduler_config import DeschedulerConfiguration
from koord.api.kinds import PODS
from koord.api.kubernetes.autoscaling import going
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.shield import Shield
from koord.descheduler.compiled import Compiled, ReadyProfile
from koord.descheduler.evictable import never, not_yet
from koord.descheduler.malformed import without_malformed
from koord.descheduler.moves import Moves
from koord.descheduler.plugin import NodeAssessment, Plugin, Proposal, Terms, Turn
from koord.descheduler.sight import Sight

TOO_FEW: Final = "fewer than two nodes are ready: there is nowhere to move a pod to"
UNKNOWN: Final = "it cannot be told whether it may move"
SIBLINGS_LEFT: Final = "only nodes that other pods of its workload leave in this round would take it"


@dataclass(frozen=True, slots=True)
class HeldProposal:
    """A proposed move that must wait, and why."""

    proposal: Proposal
    why: str


@dataclass(slots=True)
class Outcome:
    """What a round came to."""

    moves: list[Proposal] = field(default_factory=list)
    "Let through, in their order."
    held: list[HeldProposal] = field(default_factory=list)
    "Pods that should move and must wait."
    nodes: dict[str, NodeAssessment] = field(default_factory=dict)
    "How plugins classified nodes by their load."
    deletion_costs: dict[str, int] = field(default_factory=dict)
    "What deleting pods should cost from now on, by their keys; those that say so already are left out."
    cordons: list[str] = field(default_factory=list)
    "Nodes to cordon before their pods move, and to open again where a move cannot begin."
    memory: dict[tuple[str, str], Any] = field(default_factory=dict)
    "What plugins remember, by profile and plugin."
    skipped: str = ""
    "Why there was no round."
    failed: list[tuple[str, Exception]] = field(default_factory=list)
    "Plugins that broke off, and over what. What others ask for counts, and what these asked for before."

    asked_by: dict[str, ReadyProfile] = field(default_factory=dict)
    "The profile that a move is asked for by, by the pod's key."


def run(
    compiled: Compiled,
    sight: Sight,
    memory: Mapping[tuple[str, str], Any] | None = None,
    *,
    at_once: bool = False,
    shield: Shield | None = None,
) -> Outcome:
    """One round, with the `memory` of earlier rounds. `at_once`: as if the load had been like this for long. Objects
    that plugins or rules fail over stay unchanged, and `shield` reports them."""
    shield = shield or Shield()
    outcome = _run(compiled, sight, memory, at_once, shield)
    clear = without_malformed(sight, shield) if outcome.failed else None
    return outcome if clear is None else _run(compiled, clear, memory, at_once, shield)


def _run(
    compiled: Compiled,
    sight: Sight,
    memory: Mapping[tuple[str, str], Any] | None,
    at_once: bool,
    shield: Shield,
) -> Outcome:
    outcome = Outcome(memory=dict(memory or {}))
    nodes = [name for name in sight.steady_nodes() if compiled.nodes.matches(sight.nodes[name].metadata.labels)]
    if len(nodes) <= 1:
        outcome.skipped = TOO_FEW
        return outcome
    letting = _Letting(compiled.config, sight, outcome)
    with sight.places.trial():
        for point in ("deschedule", "balance"):
            for profile in compiled.profiles:
                plugins = profile.deschedule if point == "deschedule" else profile.balance
                if plugins:
                    gate = _Gate(profile, nodes, sight, letting, shield)
                    for plugin in plugins:
                        _have_its_turn(plugin, gate, compiled.interval_s, outcome, at_once)
    return outcome


def _have_its_turn(plugin: Plugin, gate: _Gate, interval_s: float, outcome: Outcome, at_once: bool) -> None:
    turn = Turn(
        gate.sight,
        gate.nodes,
        interval_s,
        at_once,
        never=gate.never,
        not_now=gate.not_now,
        ask=gate.ask,
    )
    slot = gate.profile.name, plugin.name
    assert plugin.propose is not None
    try:
        outcome.memory[slot] = plugin.propose(turn, outcome.memory.get(slot))
    except Exception as error:  # noqa: BLE001 - users' plugins raise anything, and others have their turn
        outcome.failed.append((plugin.name, error))
    outcome.nodes.update(turn.nodes_seen)
    outcome.deletion_costs.update(turn.deletion_costs)
    outcome.cordons += turn.cordons


class _Gate:
    """One profile's rules in a round."""

    def __init__(
        self, profile: ReadyProfile, nodes: Sequence[str], sight: Sight, letting: _Letting, shield: Shield
    ) -> None:
        self.profile, self.sight, self.letting, self._shield = profile, sight, letting, shield
        self.nodes = [name for name in nodes if profile.nodes.matches(sight.nodes[name].metadata.labels)]
        self._rules = profile.rules.with_priorities(sight.priorities)
        self._must_fit = self._rules.args.node_fit and "NodeFit" not in self._rules.skipped

    def never(self, pod: Pod) -> str | None:
        args = self._rules.args
        if args.default_job_mode == "ReservationFirst" and str(pod.spec.scheduler_name) not in args.scheduler_names:
            return f"no reservation helps pods of the scheduler {pod.spec.scheduler_name} (schedulerNames)"
        with self._shield.about("say whether it may move", PODS, pod.metadata):
            return never(pod, self._rules, self.sight.workloads)
        return UNKNOWN

    def not_now(self, pod: Pod) -> str | None:
        if pod in self.letting.moves:
            return "it is moving already"
        with self._shield.about("say whether it may move now", PODS, pod.metadata):
            return not_yet(pod, self._rules, self.sight.workloads, self.letting.moves) or self.letting.over_limit(pod)
        return UNKNOWN

    def ask(self, proposal: Proposal, terms: Terms) -> Proposal | None:
        why = self.not_now(proposal.pod)
        if why is not None:
            self.letting.hold(proposal, why)
            return None
        sight, places = self.sight, self.sight.places
        among = terms.among
        if self._rules.args.node_selector:
            wanted = [name for name in sight.nodes if self._rules.targets.matches(sight.nodes[name].metadata.labels)]
            among = places.rows(wanted) if among is None else among & places.rows(wanted)
        target, is_judged = None, False
        left = self.letting.left_by_siblings(proposal.pod)
        with self._shield.about("find another node for it", PODS, proposal.pod.metadata):
            target = places.move(proposal.pod, among, (*left, *self.letting.going))
            is_judged = True
        if not is_judged:
            self.letting.hold(proposal, UNKNOWN)
            return None
        if target is None:
            if terms.must_fit or self._must_fit:
                only_there = bool(left) and places.would_take(
                    proposal.pod, places.rows(left) if among is None else among
                )
                self.letting.hold(proposal, SIBLINGS_LEFT if only_there else terms.nowhere)
                return None
            places.leave(proposal.pod)
        proposal = replace(proposal, to=target or "")
        if terms.looks_on:
            self.letting.hold(proposal, f"{proposal.by} only looks on (dryRun)")
        else:
            self.letting.let(proposal, self.profile)
        return proposal


class _Letting:
    """Decides which moves are admitted in this round."""

    def __init__(self, config: DeschedulerConfiguration, sight: Sight, outcome: Outcome) -> None:
        self._config, self._sight, self._outcome = config, sight, outcome
        self.moves = Moves(sight.now_s)
        for move in sight.moving:
            self.moves.put(move)
        self._per_node: Counter[str] = Counter()
        self._per_namespace: Counter[str] = Counter()
        self.going = tuple(name for name, node in sight.nodes.items() if going(node) is not None)
        "Nodes that an autoscaler takes away: not even pods that tolerate everything go there."
        self._left: dict[str, list[str]] = {}
        "By workload, the nodes that its pods leave in this round."

    def left_by_siblings(self, pod: Pod) -> Sequence[str]:
        """No replica goes where another of its workload has just been moved from."""
        return self._left.get(self._sight.workloads.uid_of(pod) or "", ())

    def let(self, proposal: Proposal, profile: ReadyProfile) -> None:
        pod = proposal.pod
        self.moves.add(pod)
        self._per_node[proposal.node] += 1
        self._per_namespace[pod.metadata.namespace] += 1
        uid = self._sight.workloads.uid_of(pod)
        if uid is not None:
            self._left.setdefault(uid, []).append(proposal.node)
        self._outcome.moves.append(proposal)
        self._outcome.asked_by[pod.metadata.key] = profile

    def hold(self, proposal: Proposal, why: str) -> None:
        self._outcome.held.append(HeldProposal(proposal, why))

    def over_limit(self, pod: Pod) -> str | None:
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
