"""What ships with koord: the scenario that runs without another one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

DEFAULT: Final = Path(__file__).parents[1] / "scenarios" / "small.yaml"
