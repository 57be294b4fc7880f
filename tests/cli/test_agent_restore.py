"""`koord agent restore`: what the agent changed is put back, or it is said that it was not."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.live.holding import HOLDER, held
from koord.agent.live.keeping import DAMAGED, LEDGER, read_ledger
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from koord.cli.main import run
from tests.agent.trees import Tree

ENTRY = {"knob": "cpu.cfs_quota_us", "by": "cpu_suppress", "found": "max 100000", "wrote": ["20000 100000"]}


class Host:
    def __init__(self, folder: Path) -> None:
        self.tree = Tree(folder / "host", Version.V2, CgroupDriver.CGROUPFS)
        self.pod = self.tree.pod("1", KubeQoS.BEST_EFFORT)
        self.file = f"sys/fs/cgroup/{self.pod}/cpu.max"
        self.tree.write(self.file, "20000 100000")
        self.state = folder / "state"
        self.state.mkdir()

    def keep(self, *entries: dict[str, Any]) -> None:
        (self.state / LEDGER).write_text(json.dumps(entries))

    def restore(self, *more: str, root: Path | None = None) -> int:
        roots = ["--host-root", str(root or self.tree.root), "--state-dir", str(self.state)]
        return run(["agent", "restore", *roots, *more])

    @property
    def record(self) -> Any:
        return json.loads((self.state / LEDGER).read_text())

    def was_held(self, root: str = "") -> None:
        """By an agent that has stopped."""
        with held(self.state, Cgroups.of(self.tree.cgroups.files, root), "koord agent", "then"):
            pass


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


Told = pytest.CaptureFixture[str]


def test_what_was_changed_is_as_it_was_found(host: Host, capsys: Told) -> None:
    host.keep({**ENTRY, "directory": host.pod})
    assert host.restore() == 0
    assert capsys.readouterr().err == "put back 1 settings\n"
    assert host.tree.read(host.file) == "max 100000"


def test_a_pod_that_restores_stays_until_it_is_stopped(host: Host) -> None:
    host.keep({**ENTRY, "directory": host.pod})
    where = ["--host-root", str(host.tree.root), "--state-dir", str(host.state)]
    command = [sys.executable, "-m", "koord", "agent", *where, "restore", "--stay"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "put back 1 settings\n"
        assert host.tree.read(host.file) == "max 100000"
        assert process.poll() is None
        process.terminate()
        # A signal that comes before the process waits for it ends it, too.
        assert process.wait(timeout=60) in (0, -signal.SIGTERM)


def test_a_damaged_record_is_refused_kept_and_changes_nothing(host: Host, capsys: Told) -> None:
    (host.state / LEDGER).write_text('[{"knob": 3')
    assert host.restore() != 0
    told = capsys.readouterr().err
    assert str(host.state / LEDGER) in told
    assert "damaged" in told
    assert (host.state / LEDGER).exists()
    assert host.tree.read(host.file) == "20000 100000"


def test_an_entry_that_leads_out_of_the_cgroups_is_refused_with_all_others(host: Host, capsys: Told) -> None:
    outside = host.tree.root / "sys/cpu.max"
    outside.write_text("20000 100000")
    host.keep({**ENTRY, "directory": host.pod}, {**ENTRY, "directory": "../.."})
    assert host.restore() != 0
    told = capsys.readouterr().err
    assert "entry 1: directory '../..'" in told
    assert outside.read_text() == host.tree.read(host.file) == "20000 100000"


def test_what_an_earlier_agent_could_not_read_is_still_not_put_back(host: Host, capsys: Told) -> None:
    (host.state / LEDGER).write_text("?")
    assert len(read_ledger(host.state)) == 0, "an agent that starts sets it aside"
    assert host.restore() != 0
    told = capsys.readouterr().err
    assert DAMAGED in told


def test_options_may_stand_before_the_command_too(host: Host) -> None:
    host.keep({**ENTRY, "directory": host.pod})
    assert run(["agent", "--host-root", str(host.tree.root), "--state-dir", str(host.state), "restore"]) == 0
    assert host.tree.read(host.file) == "max 100000"


@pytest.mark.parametrize("was_held", [True, False], ids=["the roots are recorded", "an older agent's record"])
@pytest.mark.parametrize(
    ("root", "more"),
    [("empty", ()), ("missing", ()), ("", ("--cgroup-root", "elsewhere")), ("other", ())],
    ids=["a folder that is no host", "a folder that is not there", "another cgroup", "another host"],
)
def test_wrong_roots_are_refused_and_keep_the_record(
    host: Host, tmp_path: Path, capsys: Told, root: str, more: tuple[str, ...], was_held: bool
) -> None:
    (tmp_path / "empty").mkdir()
    Tree(tmp_path / "other", Version.V2, CgroupDriver.CGROUPFS).pod("another", KubeQoS.BEST_EFFORT)
    if was_held:
        host.was_held()
    host.keep({**ENTRY, "directory": host.pod})
    before = host.record
    for _ in range(2):
        assert host.restore(*more, root=tmp_path / root if root else None) != 0
        told = capsys.readouterr().err
        assert str(host.state / LEDGER) in told
        assert "Nothing was changed" in told
        assert (f"made with --host-root {host.tree.root}" in told) is was_held
        assert host.record == before
    assert host.tree.read(host.file) == "20000 100000"
    assert host.restore() == 0, "with the right ones it goes on"
    assert host.tree.read(host.file) == "max 100000"


def test_the_same_host_under_another_path_is_the_same_host(host: Host, tmp_path: Path) -> None:
    host.was_held()
    host.keep({**ENTRY, "directory": host.pod})
    (tmp_path / "host-mount").symlink_to(host.tree.root)
    assert host.restore(root=tmp_path / "host-mount") == 0
    assert host.tree.read(host.file) == "max 100000"


def test_pods_that_have_ended_need_nothing_where_their_node_is_known(host: Host, capsys: Told) -> None:
    host.was_held()
    host.keep({**ENTRY, "directory": f"{host.pod}-that-has-ended"})
    assert host.restore() == 0
    assert capsys.readouterr().err == "put back 0 settings\n"
    assert host.record == []


def test_without_a_cgroup_root_the_recorded_one_is_taken(host: Host) -> None:
    whole = host.tree.root / "sys/fs/cgroup"
    (whole / "part").mkdir()
    (whole / "kubepods").rename(whole / "part/kubepods")
    host.was_held("part")
    host.keep({**ENTRY, "directory": host.pod})
    assert host.restore() == 0
    assert host.tree.read(host.file.replace("kubepods", "part/kubepods")) == "max 100000"


def test_a_running_agent_is_named_and_nothing_is_put_back(host: Host, capsys: Told) -> None:
    host.keep({**ENTRY, "directory": host.pod})
    with held(host.state, host.tree.cgroups, "koord agent", "2026-11-15T14:03:00Z"):
        assert host.restore() != 0
    told = capsys.readouterr().err
    assert f"in use by koord agent, process {os.getpid()}, since 2026-11-15T14:03:00Z" in told
    assert host.tree.read(host.file) == "20000 100000"
    assert host.restore() == 0


def test_a_folder_that_is_not_there_is_an_error(host: Host, capsys: Told) -> None:
    host.state.rmdir()
    assert host.restore() != 0
    assert f"--state-dir {host.state}: there is no such folder" in capsys.readouterr().err
    assert not host.state.exists()


@pytest.mark.parametrize("command", [["audit"], ["evidence", "shop/web"]])
def test_records_are_not_looked_up_in_a_folder_that_is_not_there(
    command: list[str], tmp_path: Path, capsys: Told
) -> None:
    assert run(["agent", *command, "--state-dir", str(tmp_path / "slip")]) == 2
    assert f"--state-dir {tmp_path / 'slip'}: there is no such folder" in capsys.readouterr().err


def test_a_folder_without_a_record_has_nothing_to_put_back(host: Host, capsys: Told) -> None:
    assert host.restore() == 0
    assert f"no agent has changed anything with a record in {host.state}" in capsys.readouterr().err
    assert not (host.state / LEDGER).exists()
    assert (host.state / HOLDER).exists()
