"""One agent to a node: the second one is refused, whatever directory it keeps its record in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from koord.agent.executor.ledger import Ledger
from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.knobs import CPU_QUOTA
from koord.agent.live.holding import HOLDER, HeldError, StrayRecordError, directory_of, held, holder_of
from koord.agent.live.keeping import LEDGER
from koord.api.kubernetes.cgroup import CgroupDriver
from tests.agent.trees import Tree

HOLDS = """
import sys
from pathlib import Path
from koord.agent.host.cgroups import Cgroups
from koord.agent.host.files import Files
from koord.agent.live.holding import held
with held(Path(sys.argv[1]), Cgroups.of(Files(sys.argv[2])), "koord agent", "now"):
    print("held", flush=True)
    sys.stdin.read()
"""
ENTRY = b'[{"knob": "%s", "directory": "kubepods", "by": "x", "found": "max 100000", "wrote": ["1 1"]}]'


@pytest.fixture(params=list(Version))
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    made = Tree(tmp_path / "host", request.param, CgroupDriver.CGROUPFS)
    made.cgroup("kubepods")
    return made


@pytest.mark.parametrize("directory", ["state", "another"])
def test_a_second_agent_is_refused_until_the_first_is_gone_however_it_ended(
    tree: Tree, directory: str, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path / "state"), str(tree.root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with pytest.raises(HeldError, match=f"process {first.pid}"), held(tmp_path / directory, tree.cgroups, "x", ""):
            pass
        first.kill()
        first.wait(timeout=60)
    with held(tmp_path / directory, tree.cgroups, "koord agent", "later"):
        holder = holder_of(tmp_path / directory)
    assert holder is not None
    assert holder.since == "later"


def test_two_nodes_on_one_machine_have_an_agent_each(tree: Tree, tmp_path: Path) -> None:
    other = Tree(tmp_path / "other", tree.version, CgroupDriver.CGROUPFS)
    other.cgroup("kubepods")
    with held(tmp_path / "a", tree.cgroups, "a", ""), held(tmp_path / "b", other.cgroups, "b", ""):
        pass


def test_an_agent_with_other_roots_keeps_off_the_record_of_a_node(tree: Tree, tmp_path: Path) -> None:
    state, other = tmp_path / "state", Tree(tmp_path / "other", tree.version, CgroupDriver.CGROUPFS)
    other.cgroup("kubepods")
    with held(state, tree.cgroups, "koord agent", ""):
        (state / LEDGER).write_bytes(ENTRY % CPU_QUOTA.name.encode())
    with (
        pytest.raises(StrayRecordError, match=f"made with --host-root {tree.root}"),
        held(state, other.cgroups, "", ""),
    ):
        pass
    assert len(Ledger.parse((state / LEDGER).read_bytes())) == 1
    (state / LEDGER).write_bytes(b"[]")
    with held(state, other.cgroups, "koord agent", ""):
        pass


def test_a_cgroup_that_was_made_anew_under_its_name_is_the_nodes(tree: Tree, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with held(state, tree.cgroups, "koord agent", ""):
        (state / LEDGER).write_bytes(ENTRY % CPU_QUOTA.name.encode())
    directory = Path(directory_of(tree.cgroups))
    directory.rename(directory.with_name("gone"))
    directory.mkdir()
    with held(state, tree.cgroups, "koord agent", ""):
        pass


def test_the_record_of_a_cgroup_that_was_removed_is_in_nobodys_way(tree: Tree, tmp_path: Path) -> None:
    """A local node has another cgroup when it is started on another port."""
    state, files = tmp_path / "state", tree.cgroups.files
    first, second = (Cgroups(files, tree.version, name) for name in ("first", "second"))
    for cgroups in (first, second):
        Path(directory_of(cgroups)).mkdir()
    with held(state, first, "koord agent", ""):
        (state / LEDGER).write_bytes(ENTRY % CPU_QUOTA.name.encode())
    with pytest.raises(StrayRecordError), held(state, second, "koord agent", ""):
        pass
    Path(directory_of(first)).rmdir()
    with held(state, second, "koord agent", ""):
        pass


def test_a_file_that_cannot_be_read_tells_nothing_and_is_written_anew(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / HOLDER).write_text("{")
    assert holder_of(tmp_path) is None
    with held(tmp_path, tree.cgroups, "koord agent", "") as before:
        assert before is None
    assert holder_of(tmp_path) is not None


def test_an_agent_goes_on_where_nothing_can_be_written(
    tree: Tree, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with held(tmp_path / "file", tree.cgroups, "koord agent", ""):
        pass
    assert "a second agent that uses this directory would not be noticed" in caplog.text
