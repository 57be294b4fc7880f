"""`koord crds`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from koord.api.protocol.crd.definitions import DEFINITIONS, manifest
from koord.api.text.yaml import load_all
from koord.cli.main import run


def test_prints_every_definition_as_yaml_that_reads_back_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["crds"]) == 0
    assert load_all(capsys.readouterr().out, "output") == [manifest(definition) for definition in DEFINITIONS]


def test_prints_a_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["crds", "-o", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["kind"], printed["items"]) == ("List", [manifest(definition) for definition in DEFINITIONS])


@pytest.mark.parametrize("name", ["pmj", "PodMigrationJob", "podmigrationjobs"])
def test_prints_only_the_kind_that_is_named(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["crds", "--name", name, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["spec"]["names"]["kind"] == "PodMigrationJob"


def test_prints_a_kind_once_that_is_named_twice(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["crds", "--name", "pmj", "--name", "podmigrationjobs", "-o", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["items"]) == 1


def test_an_unknown_kind_is_bad_usage_and_the_known_ones_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["crds", "--name", "pods"]) == 2
    told = capsys.readouterr().err
    assert "'pods'" in told
    assert "Reservation" in told


def test_needs_neither_the_network_nor_the_numbers() -> None:
    code = "import sys; from koord.cli.main import run; run(['crds']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    heavy = {"aiohttp", "asyncio", "ssl", "numpy", "cryptography", "rich", "prometheus_client", "koord.kube"}
    assert heavy & set(done.stderr.split()) == set()
