"""Constants of the latency model from files: whose they are, and what is said of bad ones."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from koord.api.machinery.faults import BadInput, Invalid
from koord.sim.latency_fit import fit
from koord.sim.live import constants
from koord.sim.live.constants import latency_of
from koord.sim.scenario import LatencySettings
from tests.sim.queues import recording

MODEL = fit(recording(1000))


def test_a_scenario_names_constants_beside_its_own_file(tmp_path: Path) -> None:
    (tmp_path / "latency.json").write_bytes(msgspec.json.encode(MODEL))
    assert latency_of(LatencySettings(constants="latency.json"), str(tmp_path)) == MODEL
    assert latency_of(LatencySettings(constants=str(tmp_path / "latency.json")), "elsewhere") == MODEL


def test_a_file_that_is_not_there_is_named_with_its_field(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"latency\.constants: .*none\.json: No .*koord sim calibrate"):
        latency_of(LatencySettings(constants="none.json"), str(tmp_path))


def test_a_recording_is_not_a_file_of_constants(tmp_path: Path) -> None:
    (tmp_path / "points.json").write_bytes(msgspec.json.encode(recording(10)))
    with pytest.raises(Invalid, match=r"points\.json: format: must be koord\.sim/latency/v1"):
        latency_of(LatencySettings(constants="points.json"), str(tmp_path))


def test_without_constants_there_is_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "SHIPPED", tmp_path / "latency.json")
    assert latency_of(LatencySettings(), ".") is None
    (tmp_path / "latency.json").write_bytes(msgspec.json.encode(MODEL))
    assert latency_of(LatencySettings(), ".") == MODEL
