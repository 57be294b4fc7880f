"""Python's garbage collector, kept away from big decodes.

Decoding a list makes many objects and no garbage, which the collector takes as its signal to look through the whole
heap, again and again: that can cost more than the decoding. `paused` holds it off for one stretch of code; `freeze`
takes what is alive (a cache after its first sync) out of all later passes; `for_a_server` makes passes rare
besides.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


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
