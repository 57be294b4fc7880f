"""`koord agent devices`: what a host has, on composed hosts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from koord.cli.main import run
from tests.agent.devices.test_sources import NPU, Host


def test_a_host_tells_of_its_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = Host(tmp_path)
    host.card("0000:3b:00.0", "mlx5_0", "uverbs0", state="1: DOWN")
    host.write("var/run/koordlet/xpu-device-infos/npus.json", json.dumps([NPU]))
    assert run(["agent", "--host-root", str(tmp_path), "devices"]) == 0
    _, npu, card = capsys.readouterr().out.splitlines()
    assert npu.split()[:4] == ["gpu", "1", "npu-1", "no:"]
    assert "hot" in npu
    assert card.split()[:3] == ["rdma", "0", "0000:3b:00.0"]
    assert "a port is not active" in card


def test_programs_get_the_devices_as_the_object_has_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = Host(tmp_path)
    host.card("0000:3b:00.0", "mlx5_0", "uverbs0")
    assert run(["agent", "--host-root", str(tmp_path), "devices", "-o", "json"]) == 0
    (card,) = json.loads(capsys.readouterr().out)
    assert (card["type"], card["minor"], card["resources"]) == ("rdma", 0, {"koordinator.sh/rdma": "100"})


def test_a_host_without_devices_says_what_was_looked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["agent", "--host-root", str(tmp_path), "devices"]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "no devices" in said.err
