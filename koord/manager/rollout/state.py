"""A stored roll-out: what was asked for, how far it is, why it stopped, and which nodes it has chosen.

The ConfigMap `koord-rollouts` has a key for each feature. People write it (`koord colocation rollout`), and the manager
that leads; each write names the version that was read. Nodes are chosen by a hash of their names, so that a larger
share always has the smaller one in it, and a new roll-out starts with the same nodes. A node that was chosen stays
chosen when others come.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from koord.api.machinery.faults import Fault, Invalid, check
from koord.api.machinery.struct import Struct
from koord.api.text.selector import LabelMatcher, SelectorError, parse_labels
from koord.api.text.whole_number import natural_number
from koord.manager.rollout.features import RolloutError

DEFAULT_STEPS: Final = (5, 25, 50, 100)
DEFAULT_EVERY_S: Final = 1800.0

Share = Annotated[int, Meta(ge=0, le=100)]
NotNegative = Annotated[int, Meta(ge=0)]


class Limits(Struct):
    """What is accepted within one step; one more stops the roll-out."""

    unready: NotNegative = 0
    "Services that were ready and are not."
    slowed: NotNegative = 0
    "Services that agents found slowed down by batch pods (pressure and delays against their own baseline)."
    evictions: NotNegative = 20
    "Pods evicted."


class Suffering(Struct):
    """What was found in the step so far."""

    unready: tuple[str, ...] = ()
    slowed: tuple[str, ...] = ()
    evictions: int = 0
    nodes: tuple[str, ...] = ()
    "Where services suffer."


class Rollout(Struct):
    selector: str = ""
    "Of nodes, as in pool=batch; empty is all."
    steps: tuple[Share, ...] = DEFAULT_STEPS
    "Shares of the nodes, in percent, rising."
    every_seconds: Annotated[float, Meta(gt=0)] = DEFAULT_EVERY_S
    "How long a step lasts before the next."
    limits: Limits = Limits()
    on_stop: Literal["hold", "back"] = "back"
    "hold: nodes stay unchanged. back: the nodes where services suffer are taken back."
    step: NotNegative = 0
    since_s: float = 0.0
    "When the step began."
    state: Literal["running", "stopped", "complete"] = "running"
    reason: str = ""
    "Why it stopped."
    stopped_s: float = 0.0
    taken_back: tuple[str, ...] = ()
    "Nodes that are left out because services suffered there."
    found: Suffering = Suffering()

    @property
    def percent(self) -> int:
        return self.steps[min(self.step, len(self.steps) - 1)]

    @property
    def matcher(self) -> LabelMatcher | None:
        return parse_labels(self.selector) if self.selector else None


def parse(feature: str, text: str) -> Rollout:
    """A stored roll-out; raises `Invalid` with all faults."""
    try:
        raw = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Invalid(feature, [Fault("", f"is not JSON: {error}")]) from None
    return checked(check(Rollout, raw, feature))


def checked(rollout: Rollout) -> Rollout:
    faults = []
    if not rollout.steps:
        faults.append(Fault("steps", "must have at least one share, as in 5,25,50,100"))
    if list(rollout.steps) != sorted(set(rollout.steps)):
        written = ",".join(map(str, rollout.steps))
        faults.append(Fault("steps", f"must rise from step to step, as in 5,25,50,100, not {written}"))
    try:
        _ = rollout.matcher
    except SelectorError as error:
        faults.append(Fault("selector", str(error)))
    if faults:
        raise Invalid("roll-out", faults)
    return rollout


def render(rollout: Rollout) -> str:
    return msgspec.json.encode(rollout).decode()


def parse_steps(text: str) -> tuple[int, ...]:
    """`5,25,50,100`, with or without percent signs."""
    steps = []
    for step in text.split(","):
        share = natural_number(step.strip().removesuffix("%"), 100)
        if not share:
            raise RolloutError(
                f"--steps: {step.strip()[:40]!r} is not a share from 1 to 100 percent; write them as 5,25,50,100"
            )
        steps.append(share)
    return tuple(steps)


def rank(name: str) -> str:
    """Who is chosen first."""
    return hashlib.blake2b(name.encode(), digest_size=8).hexdigest()


def chosen(
    nodes: Iterable[str], percent: int, already: Collection[str] = (), without: Collection[str] = ()
) -> frozenset[str]:
    """The nodes of a share: those that have it already, then the first by hash, up to what the share rounds up to.

    `without` are left out, and others do not stand in for them: a step that went wrong must not wander on.
    """
    pool = sorted(set(nodes), key=rank)
    count = max(math.ceil(len(pool) * percent / 100), sum(name in already for name in pool))
    ordered = [name for name in pool if name in already] + [name for name in pool if name not in already]
    ordered = [name for name in ordered if name not in without] + [name for name in ordered if name in without]
    return frozenset(name for name in ordered[:count] if name not in without)
