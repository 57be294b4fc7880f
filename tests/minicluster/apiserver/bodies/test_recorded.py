"""Bodies are read, kept and refused as a real server does it. Its answers are recorded; group cluster asks it again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.control_plane import ControlPlane
from tests.minicluster.apiserver.bodies import builtin, custom, definitions, ours, record

RECORDED: dict[str, Any] = json.loads((record.DATA / "bodies.json").read_text())
BUILTIN = {**builtin.MALFORMED, **builtin.MISTYPED, **builtin.STRICT}


@pytest.mark.parametrize("validation", record.VALIDATIONS)
@pytest.mark.parametrize("name", BUILTIN)
def test_a_body_of_a_built_in_kind_is_taken_or_refused_in_the_same_words(name: str, validation: str) -> None:
    assert ours.decoded(BUILTIN[name], validation) == RECORDED["builtin"][name][validation]


@pytest.mark.parametrize("name", builtin.KEPT)
def test_of_a_good_body_the_same_is_kept(name: str) -> None:
    assert ours.kept(builtin.KEPT[name]) == RECORDED["kept"][name]


@pytest.mark.parametrize("validation", record.VALIDATIONS)
@pytest.mark.parametrize("name", custom.BODIES)
def test_a_custom_object_is_pruned_defaulted_and_judged_the_same(name: str, validation: str) -> None:
    assert ours.created(custom.BODIES[name], validation) == RECORDED["custom"][name][validation]


@pytest.mark.parametrize("name", custom.CHANGES)
def test_an_update_is_not_blamed_for_faults_that_were_there_before(name: str) -> None:
    assert ours.changed(*custom.CHANGES[name]) == RECORDED["changes"][name].get("causes", [])


@pytest.mark.parametrize("name", definitions.DEFINITIONS)
def test_a_definition_is_completed_or_refused_with_the_same_causes(name: str) -> None:
    assert ours.defined(definitions.DEFINITIONS[name]) == RECORDED["definitions"][name]


@pytest.mark.cluster
def test_the_real_server_still_answers_as_recorded(own_control_plane: ControlPlane) -> None:
    server = record.RealServer(own_control_plane)
    if server.send("GET", "/version")[1]["gitVersion"] != RECORDED["server"]:
        pytest.skip("recorded from another release")
    assert record.answers(server) == {key: RECORDED[key] for key in RECORDED if key not in ("server", "date")}
