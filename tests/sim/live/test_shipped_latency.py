"""The constants that ship: those of the recording among the examples, and the page shows them."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from click.testing import CliRunner

from koord.cli.sim_calibrate import calibrate
from koord.sim.latency_fit import fit
from koord.sim.latency_recording import parse
from koord.sim.live.constants import latency_of
from koord.sim.scenario import LatencySettings

ROOT = Path(__file__).parents[3]
RECORDING = ROOT / "examples" / "simulate" / "response-times.json"


def test_the_shipped_constants_are_those_of_the_shipped_recording() -> None:
    fitted = fit(parse(RECORDING.read_bytes(), str(RECORDING)))
    shipped = latency_of(LatencySettings(), ".")
    assert fitted == shipped


def test_the_page_shows_what_the_command_prints() -> None:
    page = (ROOT / "docs" / "latency-model.md").read_text()
    (shown,) = re.findall(r"response-times\.json\n\n```\n(.*?)```", page, re.DOTALL)
    assert shown == CliRunner().invoke(calibrate, [str(RECORDING)]).stdout


def test_the_recording_names_no_host() -> None:
    assert set(msgspec.json.decode(RECORDING.read_bytes())["machine"]) == {
        "cpu", "cpus", "kernel", "cgroups", "date", "resctrl",
    }  # fmt: skip
