"""Python's garbage collector, kept away from big decodes.

Decoding a list makes many objects and no garbage, which the collector takes as its signal to look through the whole
heap, again and again: that can cost more than the decoding. `paused` holds it off for one stretch of code; `freeze`
takes what is alive (a cache after its first sync) out of all later passes; `for_a_server` makes passes rare
besides. `put_off` is for the start of a process: modules, too, are many objects and no garbage.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

FIRST_PASS: Final = 200_000
"""Objects. A process of koord has about half as many when its modules are loaded."""


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """No collection inside. Never await in it: others would run without a collector."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def put_off() -> None:
    """No collection until there are `FIRST_PASS` objects, or somebody asks for one; from then on as usual."""
    usual = gc.get_threshold()

    def resume(phase: str, info: dict[str, int]) -> None:
        gc.callbacks.remove(resume)
        gc.set_threshold(*usual)

    gc.callbacks.append(resume)
    gc.set_threshold(FIRST_PASS, *usual[1:])


def freeze() -> None:
    """Collect once, then leave alone what is alive at this time."""
    gc.collect()
    gc.freeze()


def for_a_server() -> None:
    """Collect less often, as suits a process whose requests make thousands of objects and leave none behind.

    Call it once what lives long is there: that is left alone from then on.
    """
    freeze()
    gc.set_threshold(10_000, 20, 50)
