"""An episode as people read it: one sentence with the figures of the decision.

"web-1 was slowed 14:02-14:05: run-queue delay 9x its baseline; build-7 held the CPU 71% of that time; held back at
14:03, better at 14:04."
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from koord.agent.interference.culprits import Suspect
from koord.agent.interference.episode import Episode, Finding, Step
from koord.agent.interference.evidence import LISTED, Evidence, SuspectFigures
from koord.agent.interference.signals import Dimension, Signal
from koord.api.text.timestamp import from_seconds

_NAMED: Final = 3
_WORTH_A_WORD: Final = 0.05
"""Share of a victim's wait: a culprit that held the CPU for less was named for another reason."""
_DONE: Final[Mapping[Step, str]] = {
    Step.HELD_BACK: "{name}held back at {at}",
    Step.EVICTED: "{name}asked to go at {at}",
    Step.MOVE_ASKED: "its own move asked for at {at}, since {whom} may not be evicted",
    Step.REFUSED: "which was refused at {at}",
    Step.BETTER: "better at {at}",
    Step.UNDONE: "undone at {at}, since it did not help",
}


def sentence(episode: Episode, name_of: Callable[[str], str], wall_s: Callable[[float], float]) -> str:
    """`name_of` gives a pod's name by its uid, `wall_s` the time of day of a moment of the episode."""
    name, is_over = name_of(episode.victim), episode.last(Step.OVER)
    began = clock(wall_s(episode.began_s))
    when = f"was slowed {began}-{clock(wall_s(is_over.at_s))}" if is_over else f"has been slow since {began}"
    return f"{name} {when}: {_what(episode, name_of, wall_s)}."


def _what(episode: Episode, name_of: Callable[[str], str], wall_s: Callable[[float], float]) -> str:
    parts = [_signal(episode)]
    if episode.last(Step.WORKLOAD):
        parts.append("its replicas on other nodes are as badly off, so no neighbour is to blame")
    else:
        parts.append(_blame(episode, name_of))
    done = _steps(episode, name_of, wall_s)
    return "; ".join([*parts, done] if done else parts)


def reason(episode: Episode, name_of: Callable[[str], str]) -> str:
    """Why a pod is evicted, for the event of that pod."""
    return f"{name_of(_blamed(episode))} slows {name_of(episode.victim)} down: {_signal(episode)}"


def evidence(finding: Finding, key_of: Callable[[str], str], wall_s: Callable[[float], float]) -> Evidence:
    """`key_of` gives a pod's namespace and name by its uid."""
    episode, taken = finding.episode, finding.taken
    name_of: Callable[[str], str] = lambda uid: _name(key_of(uid))  # noqa: E731 - it is handed on twice
    return Evidence(
        at=from_seconds(wall_s(taken.at_s)),
        step=taken.step.value,
        pod=key_of(episode.victim),
        uid=episode.victim,
        container=episode.container,
        signal=episode.signal.key,
        value=round(episode.value, 3),
        usual=round(episode.usual, 3),
        message=sentence(episode, name_of, wall_s),
        suspects=tuple(_figures(suspect, key_of) for suspect in episode.suspects.listed[:LISTED]),
        suspect=key_of(taken.uid) if taken.uid else "",
        began=from_seconds(wall_s(episode.began_s)),
        what=_what(episode, name_of, wall_s),
    )


def lost(last: Evidence, at_s: float, *, has_ended: bool) -> Evidence:
    """The end of an episode that is not followed any more, by its last entry. `has_ended`: its pod was seen to end."""
    name, began = _name(last.pod), last.began[11:16]
    if has_ended:
        message = f"{name} was slowed {began}-{clock(at_s)}: {last.what}; then it ended."
    else:
        until = f"{last.at[11:16]} at least"
        message = f"{name} was slowed {began}-{until}: {last.what}; nobody watches it or is held back for it since."
    return replace(last, at=from_seconds(at_s), step=Step.LOST.value, message=message, suspect="")


def clock(at_s: float) -> str:
    """The time of day, UTC: `14:02`."""
    return from_seconds(at_s)[11:16]


def _signal(episode: Episode) -> str:
    text = episode.signal.text
    # A multiple of a value close to zero is meaningless.
    if episode.usual > episode.signal.least / 20 and episode.usual > 0:
        return f"{text} {episode.times:.{0 if episode.times >= 3 else 1}f}x its baseline"
    return f"{text} {episode.worst:.3g}{episode.signal.unit}, usually next to none"


def _blame(episode: Episode, name_of: Callable[[str], str]) -> str:
    culprit = episode.named or episode.suspects.culprit
    if culprit is not None and culprit.uid == episode.victim:
        return "it used more CPU itself meanwhile"
    if culprit is not None:
        return _held(culprit, name_of(culprit.uid), episode.signal)
    listed = episode.suspects.listed
    if all(suspect.uid == episode.victim for suspect in listed):
        return "no neighbour used more meanwhile"
    names = {
        suspect.uid: "its own work" if suspect.uid == episode.victim else name_of(suspect.uid) for suspect in listed
    }
    scores = ", ".join(f"{names[suspect.uid]} (score {suspect.score:.2f})" for suspect in listed[:_NAMED])
    return f"who causes it is unclear: {scores}"


def _blamed(episode: Episode) -> str:
    last = episode.last(Step.HELD_BACK, Step.EVICTED, Step.MOVE_ASKED)
    return last.uid if last else ""


def _held(suspect: Suspect, name: str, signal: Signal) -> str:
    if suspect.direct is not None and suspect.direct >= _WORTH_A_WORD and signal.dimension is Dimension.CPU:
        return f"{name} held the CPU {suspect.direct:.0%} of that time"
    return f"{name} used more {signal.dimension.text} meanwhile (score {suspect.score:.2f})"


def _steps(episode: Episode, name_of: Callable[[str], str], wall_s: Callable[[float], float]) -> str:
    sentences, last = [], _blamed(episode)
    for step in episode.steps:
        if step.step in _DONE:
            name = f"{name_of(step.uid)} " if step.uid and step.uid != last else ""
            whom = name_of(step.uid) if step.uid else ""
            sentences.append(_DONE[step.step].format(name=name, at=clock(wall_s(step.at_s)), whom=whom))
    return ", ".join(sentences)


def _figures(suspect: Suspect, key_of: Callable[[str], str]) -> SuspectFigures:
    return SuspectFigures(
        key_of(suspect.uid),
        round(suspect.score, 3),
        round(suspect.rise, 2),
        round(suspect.correlation, 3),
        None if suspect.direct is None else round(suspect.direct, 3),
        round(suspect.use, 1),
    )


def _name(key: str) -> str:
    return key.rpartition("/")[2]
