from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Literal

import pytest

from koord.api.machinery.faults import BadInput
from koord.operate.endpoints import Endpoints, Running, read_endpoints
from koord_minicluster.up.data_dir import DataDir, InUse
from koord_minicluster.up.plan import UpOptions, choose_port, components
from tests.control_plane import free_port


def test_a_temporary_directory_goes_with_its_owner() -> None:
    with DataDir(None) as data:
        path = data.path
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert not path.exists()


def test_a_given_directory_stays_and_is_private(tmp_path: Path) -> None:
    with DataDir(tmp_path / "deep" / "data") as data:
        assert stat.S_IMODE(data.path.stat().st_mode) == 0o700
    assert (tmp_path / "deep" / "data").is_dir()


def test_a_second_owner_is_told_who_the_first_is(tmp_path: Path) -> None:
    with DataDir(tmp_path):
        with pytest.raises(InUse) as caught, DataDir(tmp_path):
            pass
        assert f"pid {os.getpid()}" in str(caught.value)
        assert str(tmp_path) in str(caught.value)
    with DataDir(tmp_path):
        pass


def test_what_runs_can_be_read_while_it_runs(tmp_path: Path) -> None:
    running = Endpoints(7, "1", "2026-11-15T04:25:02Z", "k", {"api": Running(8, "ready", "api.log", {"a": "b"}, 2)})
    with DataDir(tmp_path) as data:
        data.write_endpoints(running)
        assert stat.S_IMODE(data.endpoints_file.stat().st_mode) == 0o600
        assert read_endpoints(tmp_path) == running
    assert read_endpoints(tmp_path) is None


def test_a_file_that_is_something_else_is_named(tmp_path: Path) -> None:
    (tmp_path / "endpoints.json").write_text("[]")
    with pytest.raises(BadInput, match=r"endpoints\.json"):
        read_endpoints(tmp_path)


def test_a_stale_kubeconfig_does_not_outlive_its_server(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("old")
    with DataDir(tmp_path) as data:
        assert not data.kubeconfig.exists()


def test_a_log_that_has_grown_large_makes_room_once(tmp_path: Path) -> None:
    with DataDir(tmp_path) as data:
        with data.open_log("a") as log:
            log.truncate(17 << 20)
        with data.open_log("a") as log:
            log.write(b"one\ntwo\n")
        assert data.log_tail("a", 1) == ["two"]
        assert (data.logs / "a.log.1").exists()
        assert data.log_tail("b") == []


def test_a_port_is_kept_between_runs_unless_another_is_asked_for_or_it_is_taken(tmp_path: Path) -> None:
    import socket

    last = free_port()
    assert choose_port(1234, last) == 1234
    assert choose_port(0, last) == last
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", last))
        taken.listen()
        assert choose_port(0, last) not in (0, last)
        with pytest.raises(BadInput, match=f"--port {last}: another program listens on it"):
            choose_port(last, 0)
    assert choose_port(0, 0) < 32768  # below what Linux gives to clients: none takes it before the server listens
    with DataDir(tmp_path) as data:
        assert data.last_port() == 0
        data.keep_port(last)
    with DataDir(tmp_path) as data:
        assert data.last_port() == last


@pytest.mark.parametrize(
    ("mode", "told"), [("off", None), ("report", ("--config", "/c", "--dry-run")), ("on", ("--config", "/c"))]
)
def test_the_descheduler_reports_unless_told_to_act(
    mode: Literal["off", "report", "on"], told: tuple[str, ...] | None
) -> None:
    plan = components(UpOptions(descheduler=mode, descheduler_config=Path("/c")), Path("/d"), 6443)
    found = next((component.args for component in plan if component.name == "descheduler"), None)
    assert (None if found is None else found[found.index("--alone") + 1 :]) == told


def test_the_api_server_is_the_first_of_all() -> None:
    plan = components(UpOptions(nodes=7, fleet_args=("--seed", "3")), Path("/d"), 6443)
    assert plan[0].name == "apiserver"
    assert "6443" in plan[0].args
    assert {component.name for component in plan} == {
        "apiserver",
        "controllers",
        "scheduler",
        "manager",
        "descheduler",
        "hollow",
        "console",
    }
    hollow = next(component for component in plan if component.name == "hollow")
    assert hollow.args[-4:-2] == ("--nodes", "7")
