"""What a judge may say about its verdicts and scores, beside the words of `Judge.reasons`.

Explanations ask for it, and the search for changes that would help a pod. A judge that has something to say derives
from `Explains`, too. Decisions never ask.
"""

from __future__ import annotations

from collections.abc import Sequence

from koord.scheduler.framework.cells import Cells, Numbers
from koord.scheduler.framework.judge import Judge
from koord.scheduler.state.table import Row


class Explains:
    """Subclasses override what they have."""

    def remarks(self) -> Sequence[str]:
        """More about the scores, such as the rule that was used."""
        return ()

    def detail(self, reason: str, rows: Sequence[Row]) -> str:
        """What a reason means on some rows, in numbers. Empty: the reason says it all."""
        return ""

    def lack(self, cells: Cells) -> Numbers:
        """How far rows are from what the pod asks for: 0 not at all, 1 all of it. Changes are looked for on the
        rejected rows that lack the least."""
        return 1


_NOTHING_MORE = Explains()


def explanation_of(judge: Judge) -> Explains:
    """The judge as one that explains itself; one that adds nothing if it does not."""
    return judge if isinstance(judge, Explains) else _NOTHING_MORE
