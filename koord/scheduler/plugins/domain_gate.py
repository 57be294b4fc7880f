"""A gate over groups of rows: each group passes, or is ruled out for a reason, which is a small number."""

from __future__ import annotations

import numpy as np

from koord.scheduler.framework.facet import FewGroups, Gate
from koord.scheduler.state.domains import Grouped
from koord.scheduler.state.table import Array


class DomainGate(Grouped, FewGroups, Gate):
    """What gates over domains have in common. Subclasses say why groups are ruled out."""

    normalised = False
    _why: Array | list[int] | None = None
    _table: Array | None = None
    _closes = False

    def reasons(self) -> Array | list[int]:
        """Why each group is ruled out; 0 where it is not. A list, where there are few."""
        raise NotImplementedError(type(self).__name__)

    def changed(self) -> None:
        self._why = self._table = None

    @property
    def closes(self) -> bool:
        self._current()
        return self._closes

    @property
    def flat(self) -> bool:
        """A single group decides too, if it is ruled out."""
        return self.size < 2 and not self.closes

    def table(self, candidates: Array | None) -> Array:
        why = self._current()
        if self._table is None:
            self._table = np.asarray(why) > 0
        return self._table

    def open(self, groups: list[int]) -> list[int]:
        why = self._current()
        if isinstance(why, np.ndarray):
            why = why.tolist()
        return [group for group in groups if not why[group]]

    def why(self, group: int) -> int:
        return int(self._current()[group])

    def _current(self) -> Array | list[int]:
        if self._why is None:
            self._why = why = self.reasons()
            self._closes = any(why) if isinstance(why, list) else bool(np.count_nonzero(why))
        return self._why
