"""Which of many label selectors choose a pod, without asking each of them.

A selector is filed under one requirement that a pod must meet by having a label: a key and value, or a key. A pod looks
under its own labels, and under those selectors that ask for no label at all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from koord.api.text.selector import NOTHING, LabelMatcher, Operator

T = TypeVar("T", bound=Hashable)

_ONE_VALUE: Final = (Operator.EQUALS, Operator.IN)
_PRESENT: Final = (Operator.EQUALS, Operator.IN, Operator.EXISTS, Operator.GREATER, Operator.LESS)


class SelectorIndex(Generic[T]):
    """Things that have a selector. `likely` gives those that may choose a pod; they still have to be asked."""

    def __init__(self) -> None:
        self._filed: dict[Hashable, dict[T, None]] = {}

    def add(self, item: T, matcher: LabelMatcher) -> None:
        if matcher is not NOTHING:
            self._filed.setdefault(_place(matcher), {})[item] = None

    def remove(self, item: T, matcher: LabelMatcher) -> None:
        place = _place(matcher)
        filed = self._filed.get(place)
        if filed is not None:
            filed.pop(item, None)
            if not filed:
                del self._filed[place]

    def likely(self, labels: Mapping[str, str]) -> Iterator[T]:
        """In an order that depends only on what was added, and when."""
        places: Iterable[Hashable] = (None, *((place) for item in labels.items() for place in (item, item[0])))
        for place in places:
            filed = self._filed.get(place)
            if filed:
                yield from list(filed)


def _place(matcher: LabelMatcher) -> Hashable:
    key: str | None = None
    for requirement in matcher.requirements:
        if requirement.operator in _ONE_VALUE and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
        if requirement.operator in _PRESENT:
            key = requirement.key
    return key
