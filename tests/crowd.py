"""How much longer than alone things may take here: for the tests of a promise that is a time."""

from __future__ import annotations

import os


def crowd() -> float:
    """On a machine that others use, everything takes as much longer as there are more of them than cores."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
