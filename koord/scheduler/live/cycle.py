"""One decision after the other: from the queue to a place, or to the reasons why there is none.

Pure but for what it is given: the time. What is decided counts at once; who carries it out tells the outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from koord.api.faults import BadInput
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Placement
from koord.scheduler.framework.plugin import Remedy
from koord.scheduler.live.feed import Feed
from koord.scheduler.message import fits_nowhere
from koord.scheduler.queue import Attempt
from koord.scheduler.state.table import Row


@dataclass(frozen=True, slots=True)
class Bind:
    """A pod has a place, and is to be bound to it."""

    attempt: Attempt
    ask: Ask
    node: str
    row: Row
    patch: Mapping[str, Any]
    wait_s: float


@dataclass(frozen=True, slots=True)
class Nowhere:
    """A pod has none."""

    attempt: Attempt
    ask: Ask
    placement: Placement
    remedy: Remedy
    message: str


@dataclass(frozen=True, slots=True)
class Broken:
    """A pod that cannot be understood: the API server took what no plugin can read."""

    attempt: Attempt
    ask: Ask
    message: str


Decision = Bind | Nowhere | Broken


class Cycle:
    """Decides for all profiles, on the one state and the one queue of a feed."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def step(self, now_s: float) -> Decision | None:
        """The next decision; None where nobody is ready."""
        feed = self._feed
        feed.cluster.now_s = now_s
        attempt = feed.queue.pop(now_s)
        if attempt is None:
            return None
        (ask,) = attempt.entity.pods
        engine = feed.engines[str(ask.spec.scheduler_name)]
        try:
            placement = engine.place(ask)
        except BadInput as error:
            feed.queue.failed(attempt, now_s)
            return Broken(attempt, ask, str(error))
        if placement.node is not None:
            return self._somewhere(attempt, ask, engine, placement.node)
        remedy = engine.remedy(ask)
        feed.queue.rejected(attempt, placement.rejected_by, now_s)
        message = fits_nowhere(placement, len(feed.cluster.table), remedy.message)
        return Nowhere(attempt, ask, placement, remedy, message)

    def _somewhere(self, attempt: Attempt, ask: Ask, engine: Engine, node: str) -> Bind:
        feed = self._feed
        row = feed.cluster.table.row_of[node]
        feed.assumed[ask.key] = ask.meta.uid
        return Bind(attempt, ask, node, row, engine.patch(ask, row), engine.wait_s(ask, row))
