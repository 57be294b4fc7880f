"""The sources of cold memory, the most exact first: the first one that this kernel has is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from koord.agent.host.cgroups import Cgroups
from koord.agent.host.cold import damon, generations, idle_pages, kidled
from koord.agent.host.cold.reading import ColdSource

SOURCES: Final[tuple[Callable[[Cgroups], ColdSource | None], ...]] = (
    kidled.detect,
    idle_pages.detect,
    generations.detect,
    damon.detect,
)


def source_of(cgroups: Cgroups) -> ColdSource | None:
    """None where this kernel does not tell hot and cold page cache apart."""
    return next((source for find in SOURCES if (source := find(cgroups)) is not None), None)
