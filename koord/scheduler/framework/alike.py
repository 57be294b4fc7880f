"""Where equal members of a job go: one pass over the nodes, with the same places as one member at a time.

Where a pod on a row changes that row alone, every row has a chain of totals: b0 at first, b1 with one member on it, and
so on until it takes no more. One at a time, each member goes to the row with the highest total, and that row's chain
goes on. This is a merge of chains: a member waits in its chain behind the lowest total before it, so that

    reach[row, i] = min(b0, ..., bi)        highest first; of one row, in its own order

is the order in which places are taken. No two rows have equal totals, because each has a tie of its own. Only the rows
with the highest totals can be taken, as many as there are members; and a chain is followed no further than it reaches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from koord.scheduler.framework.groups import LOW
from koord.scheduler.state.table import Array

AT_ONCE: Final = 1024
"""At least this many links of chains are read in one call of numpy: fewer would cost as much."""
LONGEST: Final = 32


def merged(rows: Array, totals: Array, number: int, after: Callable[[Array, Array], Array]) -> Array:
    """The rows of up to `number` members, in the order in which they are placed.

    `rows`: all feasible rows, with their totals. `after(rows, pods)`: totals with `pods` members on each row.
    """
    if len(rows) > number:
        best = np.argpartition(totals, -number)[-number:]
        rows, totals = rows[best], totals[best]
    taken, reaches, links = rows, totals, np.zeros(len(rows), np.int64)
    link, reach = 0, totals
    while len(rows) and link + 1 < number:
        steps = max(1, min(LONGEST, AT_ONCE // len(rows), number - 1 - link))
        pods = np.arange(link + 1, link + 1 + steps)
        worths = after(np.repeat(rows, steps), np.tile(pods, len(rows))).reshape(len(rows), steps)
        chain = np.minimum.accumulate(np.minimum(worths, reach[:, np.newaxis]), axis=1)
        goes = chain > LOW
        taken = np.concatenate((taken, np.broadcast_to(rows[:, np.newaxis], chain.shape)[goes]))
        links = np.concatenate((links, np.broadcast_to(pods, chain.shape)[goes]))
        reaches = np.concatenate((reaches, chain[goes]))
        link, reach = link + steps, chain[:, -1]
        going = goes[:, -1]
        if len(taken) > number:
            least = np.partition(reaches, -number)[-number]
            kept = reaches >= least
            taken, reaches, links = taken[kept], reaches[kept], links[kept]
            going = going & (reach >= least)
        rows, reach = rows[going], reach[going]
    order = np.lexsort((links, -reaches))[:number]
    return taken[order]
