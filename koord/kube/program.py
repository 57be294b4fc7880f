"""How this very program is started again, for components and their like."""

from __future__ import annotations

import sys


def own_program(module: str = "koord") -> tuple[str, ...]:
    """The command. Python would look in the current directory first: a folder of the same name there is not this
    program, and a user who can write there could run code as the caller."""
    return (sys.executable, "-P", "-m", module)
