"""`koord agent restore`: what the agent changed is put back, or it is said that it was not."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from koord.agent.host.cgroups import Version
from koord.agent.live.keeping import DAMAGED, LEDGER, read_ledger
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from koord.cli.main import run
from tests.agent.trees import Tree

ENTRY = {"knob": "cpu.cfs_quota_us", "by": "cpu_suppress", "found": "max 100000", "wrote": ["20000 100000"]}


class Host:
    def __init__(self, root: Path) -> None:
        self.tree = Tree(root / "host", Version.V2, CgroupDriver.CGROUPFS)
        self.pod = self.tree.pod("1", KubeQoS.BEST_EFFORT)
        self.file = f"sys/fs/cgroup/{self.pod}/cpu.max"
        self.tree.write(self.file, "20000 100000")
        self.state = root / "state"
        self.state.mkdir()

    def keep(self, *entries: dict[str, Any]) -> None:
        (self.state / LEDGER).write_text(json.dumps(entries))

    def restore(self) -> int:
        root = str(self.tree.root)
        return run(["agent", "--host-root", root, "--state-dir", str(self.state), "restore"])


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
