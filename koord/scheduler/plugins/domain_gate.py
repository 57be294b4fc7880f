"""A gate over groups of rows: each group passes, or is ruled out for a reason, which is a small number."""

from __future__ import annotations

import numpy as np

from koord.scheduler.state.domains import Grouped
from koord.scheduler.state.table import Array


class DomainGate(Grouped):
    """What gates over domains have in common. Subclasses say why groups are ruled out."""

    gates = True
    normalised = False
    _why: Array | None = None

    def reasons(self) -> Array:
        """Why each group is ruled out; 0 where it is not."""
        raise NotImplementedError(type(self).__name__)

    def changed(self) -> None:
        self._why = None

    @property
    def closes(self) -> bool:
        self._current()
        return self._closes

    @property
    def flat(self) -> bool:
        """A single group decides too, if it is ruled out."""
        return self.size < 2 and not self.closes

    def table(self, candidates: Array | None) -> Array:
        self._current()
        return self._table

    def why(self, group: int) -> int:
        return int(self._current()[group])

    def _current(self) -> Array:
        if self._why is None:
            self._why = self.reasons()
            self._table: Array = self._why > 0
            self._closes = bool(np.count_nonzero(self._table))
        return self._why
