"""The scenarios that ship with koord can be read, and say what their names promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from koord.sim.live import shipped
from koord.sim.scenario import Scenario, parse

FILES = sorted(shipped.DEFAULT.parent.glob("*.yaml"))


def read(file: Path) -> Scenario:
    return parse(file.read_text(), file.name)


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_a_shipped_scenario_has_the_name_of_its_file(file: Path) -> None:
    assert read(file).name == file.stem


def test_the_mix_is_a_week_on_the_machines_that_constants_were_not_chosen_with() -> None:
    mix, heavy = (read(shipped.DEFAULT.with_name(f"{name}.yaml")) for name in ("mix", "mix-heavy"))
    for scenario in (mix, heavy):
        assert scenario.services.machines == "second"
        assert scenario.ticks - scenario.warm_up_ticks == 7 * 1440
        assert scenario.cluster.nodes == 250
    assert heavy.cluster.request_over_peak.most < mix.cluster.request_over_peak.least
