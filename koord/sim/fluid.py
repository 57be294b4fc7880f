"""The fluid bound: batch work that no policy can exceed while it keeps every node below its mark.

Batch is taken for a fluid that fills each node up to its mark at each moment and moves between nodes without cost:

    done in a minute = min(work that has arrived and is not done, sum over nodes of max(0, mark - services))

Where the queue never runs empty it is the sum of all room.
"""

from __future__ import annotations

from koord.sim.minutes import Floats
from koord.sim.outcome import Series
from koord.sim.scenario import TICK_S


def bound_milli_s(series: Series, *, warm_up_ticks: int, never_empty: bool) -> float:
    """Work after the warm-up, in milli-core-seconds. Services are the same under every policy, and so is the bound."""
    if never_empty:
        return float(series.room_milli[warm_up_ticks:].sum() * TICK_S)
    return float(_done(series.room_milli * TICK_S, series.arrived_milli_s)[warm_up_ticks:].sum())


def _done(room_milli_s: Floats, arrived_milli_s: Floats) -> Floats:
    """By minute."""
    done, backlog = room_milli_s.copy(), 0.0
    for tick, (room, arrived) in enumerate(zip(room_milli_s.tolist(), arrived_milli_s.tolist(), strict=True)):
        backlog += arrived
        done[tick] = min(backlog, room)
        backlog -= done[tick]
    return done
