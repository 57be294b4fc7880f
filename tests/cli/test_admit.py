"""`koord admit`, as a user runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from koord.api.text.yaml import load
from koord.cli.main import run

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "examples" / "admission")


def test_the_guide_shows_what_the_example_prints(capsys: pytest.CaptureFixture[str]) -> None:
    guide = (ROOT / "docs" / "admission.md").read_text()
    (shown,) = re.findall(r"```\n(.*?)```", guide, re.DOTALL)
    assert run(["admit", "-f", EXAMPLE]) == 1
    assert capsys.readouterr().out == shown


def test_json_is_a_list_with_the_keys_that_programs_count_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["admit", "-f", EXAMPLE, "-o", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert len(found) == 4
    assert all({"object", "allowed", "message", "patches"} <= each.keys() for each in found)
    by_name = {each["object"]["metadata"]["name"]: each for each in found}
    assert by_name["nightly-report"]["object"]["metadata"]["labels"] == {"koordinator.sh/qosClass": "BE"}
    assert by_name["ledger"]["patches"] == []
    assert run(["admit", "-f", EXAMPLE, "-o", "yaml"]) == 1
    assert load(capsys.readouterr().out, "output") == found


def test_the_exit_code_says_whether_something_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c}]}\n")
    assert run(["admit", "-f", str(file)]) == 0
    assert capsys.readouterr().out == "pod/default/web: allowed, as it is\n"
    assert run(["admit", "-f", str(file), "-o", "name", "-n", "shop"]) == 0
    assert capsys.readouterr().out == "pod/shop/web\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Missing option '-f'"),
        (["-f", EXAMPLE, "--feature-gates", "Nonsense=true"], "feature gate Nonsense: is not known here"),
        (["-f", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
    ],
)
def test_bad_usage_ends_with_2_and_one_message(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["admit", *arguments]) == 2
    errors = capsys.readouterr().err
    assert said in errors
    assert "Traceback" not in errors


def test_kinds_that_koord_does_not_know_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ingress.yaml"
    file.write_text("apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web}\n")
    assert run(["admit", "-f", str(file)]) == 0
    assert "1 Ingress" in capsys.readouterr().err
