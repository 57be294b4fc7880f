"""Soft spreading over few domains: the whole scores of groups of rows, kept from one pod to the next.

A placement changes the number of pods in one domain; only the groups in it have another score then. Lists of some
dozens of plain numbers are faster here than arrays, and give the same, bit for bit.
"""

from __future__ import annotations

from koord.scheduler.state.table import Array


class Few:
    """Groups that have candidates, and results that hold until these groups change."""

    __slots__ = (
        "_by_code",
        "_members",
        "_raw",
        "_whole",
        "codes",
        "groups",
        "is_scored",
        "known",
        "nothing",
        "numbers",
    )

    def __init__(self, groups: list[int], codes: list[list[int]], numbers: list[int | None], is_scored: bool) -> None:
        self.groups, self.codes, self.is_scored = groups, codes, is_scored
        self.numbers = numbers
        "Of domains, by constraint; None where every row is one."
        self.known: list[tuple[Array, int, list[float]] | None] = [None] * len(codes)
        "What constraints add, for numbers per code and a number of domains."
        self.nothing = [0.0] * len(groups)
        self._raw: list[float] | None = None
        self._by_code: list[float] = []
        self._whole: list[int] = []
        self._members: dict[int, list[int]] | None = None

    def add_last(self, raw: list[float], by_code: list[float]) -> list[int]:
        """Whole scores, from what the other constraints add and what the last one adds by its codes.

        By default the last is about zones: a pod changes the number of one, and with it a part of the groups.
        """
        before, whole = self._by_code, self._whole
        if raw is not self._raw or len(by_code) != len(before):
            codes = self.codes[-1]
            whole = [int(others + by_code[code] + 0.5) for others, code in zip(raw, codes)]  # noqa: B905 - equally long
            self._raw, self._whole = raw, whole
        else:
            members = self._members
            if members is None:
                members = self._members = {}
                for at, code in enumerate(self.codes[-1]):
                    members.setdefault(code, []).append(at)
            for code, now in enumerate(by_code):
                if now != before[code]:
                    for at in members.get(code, ()):
                        whole[at] = int(raw[at] + now + 0.5)
        self._by_code = by_code
        return whole
