"""The start of a process: imports create many objects and no garbage, so garbage collection is delayed."""

from __future__ import annotations

import gc
from typing import Final

FIRST_PASS: Final = 200_000
"""Number of objects. A koord process has about half as many once its modules are loaded."""


def put_off_collection() -> None:
    """Delays the first collection until there are `FIRST_PASS` objects or a caller requests one; then runs as usual."""
    usual = gc.get_threshold()

    def resume(phase: str, info: dict[str, int]) -> None:
        gc.callbacks.remove(resume)
        gc.set_threshold(*usual)

    gc.callbacks.append(resume)
    gc.set_threshold(FIRST_PASS, *usual[1:])
