"""The start of a process: modules are many objects and no garbage, in which the collector would look all the same."""

from __future__ import annotations

import gc
from typing import Final

FIRST_PASS: Final = 200_000
"""Objects. A process of koord has about half as many when its modules are loaded."""


def put_off_collection() -> None:
    """None until there are `FIRST_PASS` objects, or somebody asks for one; from then on as usual."""
    usual = gc.get_threshold()

    def resume(phase: str, info: dict[str, int]) -> None:
        gc.callbacks.remove(resume)
        gc.set_threshold(*usual)

    gc.callbacks.append(resume)
    gc.set_threshold(FIRST_PASS, *usual[1:])
