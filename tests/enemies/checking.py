"""Assertions about a world with enemies: nothing fails, it takes bounded time, and honest objects do well."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Protocol

from koord.api.machinery.shield import Failure
from tests.enemies.cases import Enemy, army
from tests.enemies.honest import Thing, honest

MOST_CPU_S: Final = 8.0
"""For a story of some sixty enemies, which takes half a second."""


class World(Protocol):
    @property
    def defects(self) -> Sequence[Failure]: ...
    @property
    def told(self) -> Collection[str]: ...


Story = Callable[[Sequence[Thing], Sequence[Thing], Sequence[Thing]], Any]


def check(crowd: Sequence[Enemy], story: Story, undisturbed: World) -> None:
    shown = "\n".join(f"{i}: {enemy}" for i, enemy in enumerate(crowd))
    assert not undisturbed.defects
    began_s = time.process_time()
    scene: World = story(honest("good"), honest("bad"), army(crowd))
    took_s = time.process_time() - began_s
    assert not scene.defects, f"{''.join(traceback.format_exception(scene.defects[0].error))}\n{shown}"
    assert scene.told == undisturbed.told, shown
    assert took_s < MOST_CPU_S, shown


def telling(scene: World, text: str) -> list[str]:
    """What came of innocents that says so."""
    return [line for line in scene.told if text in line]
