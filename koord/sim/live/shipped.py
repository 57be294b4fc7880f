"""What ships with koord: the scenario that runs without another one, and its traces."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parents[1]
DEFAULT: Final = _HERE / "scenarios" / "small.yaml"
TRACES: Final = _HERE / "traces"
