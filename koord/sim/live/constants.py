"""The constants of the latency model: from the file that a scenario names, or those that ship with koord."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final

from koord.api.machinery.faults import BadInput
from koord.api.text.bounded import read_bounded
from koord.sim.latency import LatencyModel, parse
from koord.sim.scenario import LatencySettings

MOST_MIB: Final = 4
SHIPPED: Final = files("koord.sim") / "latency.json"


def latency_of(settings: LatencySettings, folder: str) -> LatencyModel | None:
    """`folder`: where the scenario's paths begin. None: the scenario names no file, and no constants ship."""
    if not settings.constants:
        return parse(SHIPPED.read_bytes(), str(SHIPPED)) if SHIPPED.is_file() else None
    file = Path(folder, settings.constants)
    try:
        return parse(read_bounded(file, MOST_MIB, "a file of constants"), str(file))
    except OSError as error:
        raise BadInput(f"latency.constants: {file}: {error.strerror}; koord sim calibrate writes it") from None
