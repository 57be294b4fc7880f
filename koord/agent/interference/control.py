"""What is done about interference: one action in a window for the whole node, and undone if it did not help.

The ladder: a culprit is held back by what its victim lacks; if that helped and was not enough, or it does it again, it
is evicted if it is offline; a culprit that may not be evicted stays, and the victim is moved. A culprit that is held
back for another victim by other means is also held back by these before it is evicted. Three windows decide whether an
action helped. If not, it is undone, and that neighbour is spared for a while: it was the wrong one.

    windows of all pods -> who suffers (`suffering`) -> who causes it (`culprits`) -> at most one action
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from koord.agent.interference.culprits import WINDOWS, Candidate, Suspect, suspects
from koord.agent.interference.episode import Episode, EpisodeStep, Finding, HeldBy, Step
from koord.agent.interference.hours import Usual
from koord.agent.interference.signals import OF_WORK, Dimension, Signal
from koord.agent.interference.suffering import NEEDED, Compared, Watched, compared
from koord.agent.interference.window import PodWindow

HELPS_WITHIN: Final = 3
"""Windows."""
IMPROVED: Final = 0.8
"""Share of the level at the time of the action: a signal must fall below it to count as improved."""
WELL_AFTER: Final = 3
"""Windows as usual, after which an episode is over."""
UNSEEN_FOR: Final = 6
"""Number of windows without the victim's signal after which its episode is over, too."""
HELD_FOR: Final = 12
"""Windows for which a culprit is held back after its victim is well again."""
HELD_TO: Final = 0.25
"""Share of its usage that a culprit keeps while it is held back."""
HELD_AT_WORK_TO: Final = 0.005
"""Likewise, where the victim works slower: a pod that is absent for 99.5% of the time does not show in its p99."""
LEAST_MILLI: Final = 100
LEAST_AT_WORK_MILLI: Final = 10
"""The kernel's least quota."""
LEAST_IO: Final = 1 << 20
"""Bytes a second."""
SPARED_S: Final = 600.0
REPEATED_WITHIN_S: Final = 1800.0
MOVED_AGAIN_S: Final = 1800.0
WORKLOAD_AGAIN_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class OwnMeans:
    """How a pod can be held back by what it takes too much of, where the kernel has the means."""

    memory_bytes: int = 0
    "The memory that it keeps; 0: memory cannot be held."
    disks: tuple[str, ...] = ()
    "Those that it uses, if they can be held."


@dataclass(frozen=True, slots=True)
class Standing:
    """What this decision needs to know about a pod's rank among the others."""

    is_service: bool
    "Whether it can be a victim: offline pods are there to wait."
    is_offline: bool
    can_be_evicted: bool = False
    can_be_held: bool = False
    least_milli: int = 0
    "It is not held below what it asked for, if that counts."
    can_move: bool = False
    "Whether a controller creates it again elsewhere."
    is_leaving: bool = False
    "It was evicted, and is still there."
    has_notice: bool = False
    "The pod got notice, and is evicted if that is still wanted when the notice is over."
    was_refused: bool = False
    "The API lately refused its eviction, or no component could be asked to move it."
    means: OwnMeans = OwnMeans()


@dataclass(frozen=True, slots=True)
class Node:
    """The input of a decision, at the end of a window."""

    now_s: float
    seconds: float
    "The window's length."
    windows: Mapping[str, PodWindow]
    "By uid."
    standings: Mapping[str, Standing]
    replicas: Mapping[str, Mapping[Signal, Sequence[float]]] = field(default_factory=dict)
    "By uid of a pod, the same signals of its replicas on other nodes, where they are known."
    direct: Mapping[str, Mapping[str, float]] | None = None
    "By victim and neighbour, the share of the victim's waiting during which that one held its CPU."
    waits: Mapping[str, str] = field(default_factory=dict)
    "By uid, the container that waited most."
    may_act: bool = False
    usual: Mapping[str, Mapping[str, Usual]] = field(default_factory=dict)
    "By uid of a pod and key of a signal, what is usual at this hour of the day, where that is known."


@dataclass(frozen=True, slots=True)
class Hold:
    """By one of three: CPU, memory, or the disks that it uses."""

    by: HeldBy
    milli: int
    "0: its CPU is not held."
    victim: str
    well: int = 0
    "Windows since its victim is well."
    memory_bytes: int = 0
    io_bytes_s: int = 0
    "Read, and written, on each disk."
    disks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """The state for the next window. Each decision makes a new one, and changes only that one."""

    history: tuple[Mapping[str, PodWindow], ...] = ()
    "The last windows, oldest first."
    watched: dict[tuple[str, Signal], Watched] = field(default_factory=dict)
    episodes: dict[str, Episode] = field(default_factory=dict)
    "By victim."
    holds: dict[tuple[str, HeldBy], Hold] = field(default_factory=dict)
    "By culprit and means."
    spared_until_s: dict[str, float] = field(default_factory=dict)
    helped_s: dict[tuple[str, str, HeldBy], float] = field(default_factory=dict)
    "By victim, culprit and means, when holding back last helped."
    moved_s: dict[str, float] = field(default_factory=dict)
    quiet_until_s: dict[str, float] = field(default_factory=dict)
    "Pods whose whole workload is slow: the time until which nothing is reported about them."


@dataclass(slots=True)
class Outcome:
    memory: Memory
    findings: list[Finding] = field(default_factory=list)
    evict: Episode | None = None
    "Its culprit goes."
    move: Episode | None = None
    "Its victim moves."
    asks: list[str] = field(default_factory=list)
    "Pods that may be slow, and whose replicas should be asked."


def decide(node: Node, memory: Memory) -> Outcome:
    """At the end of each window."""
    history = (*memory.history, node.windows)[-WINDOWS:]
    watched = _watched(node, memory)
    outcome = Outcome(
        Memory(
            history,
            watched,
            {},
            {key: hold for key, hold in memory.holds.items() if key[0] in node.windows and node.may_act},
            {uid: until_s for uid, until_s in memory.spared_until_s.items() if until_s > node.now_s},
            {pair: at_s for pair, at_s in memory.helped_s.items() if node.now_s - at_s < REPEATED_WITHIN_S},
            {uid: at_s for uid, at_s in memory.moved_s.items() if node.now_s - at_s < MOVED_AGAIN_S},
            {uid: until_s for uid, until_s in memory.quiet_until_s.items() if until_s > node.now_s},
        )
    )
    episodes: dict[str, Episode] = {}
    for uid, standing in node.standings.items():
        if not standing.is_service or uid not in node.windows:
            continue
        before = memory.episodes.get(uid)
        episode = _begun(uid, node, outcome) if before is None else _went_on(before, node, outcome)
        if episode is not None:
            episodes[uid] = episode
        elif before is None and any(watched[uid, signal].may_be_slow for signal in Signal if (uid, signal) in watched):
            outcome.asks.append(uid)
    episodes = _judged(episodes, node, outcome)
    if node.may_act:
        episodes = _acted(episodes, node, outcome)
    outcome.memory = replace(outcome.memory, episodes=episodes, holds=_kept(episodes, node, outcome))
    return outcome


def _watched(node: Node, memory: Memory) -> dict[tuple[str, Signal], Watched]:
    watched_now = {}
    for uid, window in node.windows.items():
        standing = node.standings.get(uid)
        if standing is None or not standing.is_service:
            continue
        for signal in Signal:
            watched = memory.watched.get((uid, signal))
            value = window.signals.get(signal)
            if watched is not None or value is not None:
                at_this_hour = node.usual.get(uid, {}).get(signal.key)
                watched_now[uid, signal] = (watched or Watched()).after(value, signal, at_this_hour)
    return watched_now


def _begun(uid: str, node: Node, outcome: Outcome) -> Episode | None:
    """The episode of a pod that is slow since now, by the signal that is furthest from its usual value."""
    memory = outcome.memory
    slow = [signal for signal in Signal if (uid, signal) in memory.watched and memory.watched[uid, signal].is_slowed]
    if not slow or uid in memory.quiet_until_s:
        return None
    values = {signal: _values(memory.history, uid, signal) for signal in slow}
    usual = {signal: memory.watched[uid, signal].baseline.mean for signal in slow}
    signal = max(slow, key=lambda signal: max(values[signal][-NEEDED:]) / max(usual[signal], 1e-9))
    worst = max(values[signal][-NEEDED:])
    watched = memory.watched[uid, signal]
    began_s = node.now_s - watched.windows_slow * node.seconds
    episode = Episode(uid, signal, began_s, usual[signal], worst, values[signal][-1], node.waits.get(uid, ""))
    same = compared(worst, node.replicas.get(uid, {}).get(signal, ()))
    if same is Compared.ALIKE:
        _tell(episode, Step.WORKLOAD, node, outcome)
        memory.quiet_until_s[uid] = node.now_s + WORKLOAD_AGAIN_S
        return None
    return _tell(_suspected(episode, node, memory), Step.SLOWED, node, outcome)


def _went_on(before: Episode, node: Node, outcome: Outcome) -> Episode | None:
    """The episode after another window; None if it is over."""
    memory = outcome.memory
    watched = memory.watched.get((before.victim, before.signal))
    value = node.windows[before.victim].signals.get(before.signal)
    if watched is None or value is None:
        # Without a value it is neither well nor ill: a probe may go unanswered for the very slowness of its pod.
        episode = replace(before, unseen=before.unseen + 1)
        if episode.unseen < UNSEEN_FOR:
            return episode
        _tell(episode, Step.OVER, node, outcome)
        return None
    is_well = not watched.is_unusual
    episode = replace(
        before,
        value=value,
        worst=max(before.worst, value),
        well=before.well + 1 if is_well else 0,
        waits=before.waits + 1 if before.waits else 0,
        unseen=0,
    )
    if not is_well:
        episode = _suspected(episode, node, memory)
    if is_well and before.well == 0 and _is_in_force(episode.action, memory) and not episode.last(Step.BETTER):
        episode = _tell(episode, Step.BETTER, node, outcome)
    if episode.well >= WELL_AFTER:
        _tell(episode, Step.OVER, node, outcome)
        return None
    return episode


def _suspected(episode: Episode, node: Node, memory: Memory) -> Episode:
    """The victim is a candidate as well: threads of a pod that has more to do wait for each other."""
    signal, usual = episode.signal, episode.usual
    dimension = signal.dimension
    seen = [window for window in memory.history if signal in _signals(window, episode.victim)]
    values = _values(seen, episode.victim, signal)
    level = usual * signal.times if signal in OF_WORK else usual + (episode.worst - usual) / 2
    is_slow = [value >= level for value in values]
    uses = {uid: _uses(seen, uid, dimension) for uid in node.standings if uid in node.windows}
    if signal in OF_WORK and episode.victim in uses:
        uses[episode.victim] = _at_usual_speed(uses[episode.victim], values, usual)
    candidates = [Candidate(uid, use, node.standings[uid].is_offline) for uid, use in uses.items()]
    direct = None
    if node.direct is not None and dimension is Dimension.CPU:
        direct = node.direct.get(episode.victim)
    return replace(episode, suspects=suspects(dimension, values, is_slow, candidates, direct))


def _at_usual_speed(uses: Sequence[float], values: Sequence[float], usual: float) -> list[float]:
    """The CPU time that the victim's work would have taken: a slower pod needs more of it for the same work, and
    does not slow itself down by that."""
    return [use * usual / value if value > usual else use for use, value in zip(uses, values, strict=True)]


def _judged(episodes: Mapping[str, Episode], node: Node, outcome: Outcome) -> dict[str, Episode]:
    """Whether the last action helped, three windows after it."""
    episodes_now, memory = dict(episodes), outcome.memory
    for uid, episode in episodes.items():
        action = episode.action
        if action is None or not episode.waits or episode.unseen:
            continue
        if _was_refused(action, episode, node):
            episodes_now[uid] = replace(_tell(episode, Step.REFUSED, node, outcome, action.uid), waits=0)
            continue
        if not _is_in_force(action, memory):
            episodes_now[uid] = replace(episode, waits=0)
            continue
        is_well = episode.well > 0
        if is_well and action.by is not None:
            memory.helped_s[uid, action.uid, action.by] = node.now_s
        if not is_well and action.step is Step.EVICTED and action.uid in node.windows:
            culprit = node.standings[action.uid]
            if culprit.has_notice:
                outcome.evict = episode
            if culprit.has_notice or culprit.is_leaving:
                # What its leaving brings is seen when it has left.
                episodes_now[uid] = replace(episode, waits=1)
                continue
        if is_well or episode.waits <= HELPS_WITHIN:
            continue
        # An eviction cannot be undone, and a move takes its time: only what is held can be let go.
        if action.by is not None and episode.value <= IMPROVED * episode.level:
            memory.helped_s[uid, action.uid, action.by] = node.now_s
        elif action.by is not None:
            memory.holds.pop((action.uid, action.by), None)
            memory.spared_until_s[action.uid] = node.now_s + SPARED_S
            episode = _tell(episode, Step.UNDONE, node, outcome, action.uid)
        episodes_now[uid] = replace(episode, waits=0)
    return episodes_now


def _was_refused(action: EpisodeStep, episode: Episode, node: Node) -> bool:
    """Whether nothing came of an eviction or a move."""
    who = {Step.EVICTED: action.uid, Step.MOVE_ASKED: episode.victim}.get(action.step, "")
    return who in node.standings and node.standings[who].was_refused


def _is_in_force(action: EpisodeStep | None, memory: Memory) -> bool:
    """Whether what became of the victim can be the action's doing. A hold ends early if its pod goes, or if holds
    are switched off: that it did not help then proves nothing, nor that the victim is well."""
    return action is not None and (action.by is None or (action.uid, action.by) in memory.holds)


def _acted(episodes: Mapping[str, Episode], node: Node, outcome: Outcome) -> dict[str, Episode]:
    """At most one action for the whole node: the effects of two at once could not be distinguished."""
    episodes_now, memory = dict(episodes), outcome.memory
    if any(episode.waits for episode in episodes.values()):
        return episodes_now
    for uid, episode in sorted(episodes.items(), key=lambda item: (-item[1].times, item[0])):
        if episode.well or episode.unseen:
            continue
        left = episode.suspects.without(memory.spared_until_s)
        culprit = left.culprit
        if culprit is None or culprit.uid == uid:
            # A pod that slows itself down was reported at the start of the episode.
            is_unclear = culprit is None and bool(left.without((uid,)).listed)
            if is_unclear and not episode.last(Step.UNCLEAR):
                episodes_now[uid] = _tell(episode, Step.UNCLEAR, node, outcome)
            continue
        hold = _hold(uid, episode.signal, culprit.uid, node)
        step = _step(episode, culprit, hold.by, node, memory)
        if step is None:
            continue
        by = hold.by if step is Step.HELD_BACK else None
        if by is not None:
            memory.holds[culprit.uid, by] = hold
        episode = _tell(replace(episode, named=culprit), step, node, outcome, culprit.uid, by)
        episode = episodes_now[uid] = replace(episode, level=episode.value, waits=1)
        if step is Step.EVICTED:
            outcome.evict = episode
        elif step is Step.MOVE_ASKED:
            outcome.move = episode
            memory.moved_s[uid] = node.now_s
        break
    return episodes_now


def _hold(victim: str, signal: Signal, culprit: str, node: Node) -> Hold:
    """By what the victim lacks, where there are means; else by CPU: a pod with less of it also streams, writes and
    faults less, on every kernel."""
    standing, use = node.standings[culprit], node.windows[culprit].use
    means, dimension = standing.means, signal.dimension
    if dimension is Dimension.IO and means.disks:
        left = max(int(use.get(dimension, 0.0) * HELD_TO), LEAST_IO)
        return Hold(HeldBy.DISKS, 0, victim, io_bytes_s=left, disks=means.disks)
    if dimension is Dimension.MEMORY and means.memory_bytes:
        return Hold(HeldBy.MEMORY, 0, victim, memory_bytes=means.memory_bytes)
    by, part, least = HeldBy.CPU, HELD_TO, LEAST_MILLI
    if signal in OF_WORK:
        by, part, least = HeldBy.NEARLY_ALL_CPU, HELD_AT_WORK_TO, LEAST_AT_WORK_MILLI
    return Hold(by, max(int(use.get(Dimension.CPU, 0.0) * part), least, standing.least_milli), victim)


def _step(episode: Episode, culprit: Suspect, by: HeldBy, node: Node, memory: Memory) -> Step | None:
    """`by`: how it would be held back."""
    standing, victim = node.standings[culprit.uid], episode.victim
    if standing.is_leaving:
        return None
    was_tried = any((culprit.uid, held_by) in memory.holds for held_by in by.or_stricter)
    was_tried = was_tried or any((victim, culprit.uid, held_by) in memory.helped_s for held_by in by.or_stricter)
    if standing.can_be_held and not was_tried:
        return Step.HELD_BACK
    if standing.can_be_evicted:
        return Step.EVICTED
    if node.standings[victim].can_move and victim not in memory.moved_s:
        return Step.MOVE_ASKED
    return None


def _kept(episodes: Mapping[str, Episode], node: Node, outcome: Outcome) -> dict[tuple[str, HeldBy], Hold]:
    """The holds that stay: each until its victim has been well for a while."""
    holds = {}
    for key, hold in outcome.memory.holds.items():
        episode = episodes.get(hold.victim)
        if episode is not None and episode.unseen:
            well = hold.well
        else:
            well = hold.well + 1 if episode is None or episode.well > 0 else 0
        if well < HELD_FOR and hold.victim in node.windows:
            holds[key] = replace(hold, well=well)
    return holds


def _tell(
    episode: Episode, step: Step, node: Node, outcome: Outcome, uid: str = "", by: HeldBy | None = None
) -> Episode:
    taken = EpisodeStep(step, node.now_s, uid, by)
    episode = replace(episode, steps=(*episode.steps, taken))
    outcome.findings.append(Finding(taken, episode))
    return episode


def _signals(window: Mapping[str, PodWindow], uid: str) -> Mapping[Signal, float]:
    return window[uid].signals if uid in window else {}


def _values(windows: Sequence[Mapping[str, PodWindow]], uid: str, signal: Signal) -> list[float]:
    """The values of a signal, from the windows that have it."""
    return [value for window in windows if (value := _signals(window, uid).get(signal)) is not None]


def _uses(windows: Sequence[Mapping[str, PodWindow]], uid: str, dimension: Dimension) -> list[float]:
    """A pod that was not there used nothing."""
    return [window[uid].use.get(dimension, 0.0) if uid in window else 0.0 for window in windows]
