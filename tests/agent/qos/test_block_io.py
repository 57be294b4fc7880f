"""Block I/O: the limits of pods on disks, on composed hosts and on this machine's kernel."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from koord.agent.executor.delivery import Delivery
from koord.agent.executor.executor import Executor
from koord.agent.executor.ledger import Ledger
from koord.agent.host import disks
from koord.agent.host.all_knobs import knob_named
from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.files import Files
from koord.agent.host.io_knobs import LIMITS, io_cost_model, io_cost_qos, io_limit, io_weight
from koord.agent.host.knobs import Knob
from koord.agent.live.keeping import read_ledger, write_ledger
from koord.agent.qos import block_io
from koord.agent.qos.block_io import Block, Disks
from koord.agent.state import NodeState
from koord.api.kubernetes.cgroup import CgroupDriver
from koord_minicluster.local.live import tree as trees
from tests.agent.dying import killed_at
from tests.agent.states import NOW, node, pod
from tests.agent.trees import Tree

SDA = Block("device", "/dev/sda")
KNOWN: Disks = {SDA: ("8:0",)}


def state(be: dict[str, Any] | None = None, root: dict[str, Any] | None = None, *pods: Any) -> NodeState:
    classes = {
        name: {"blkioQOS": {"enable": True, "blocks": [{"name": "/dev/sda", "type": "device", "ioCfg": each}]}}
        for name, each in (("beClass", be), ("cgroupRoot", root))
        if each is not None
    }
    return node(*pods, slo={"resourceQOSStrategy": classes})


def wanted(found: NodeState, known: Disks = KNOWN) -> dict[str, Any]:
    decision = block_io.decide(found, known)
    assert decision is not None
    assert all(isinstance(wish.setting, Knob) for wish in decision.wishes)
    return {f"{wish.target} {wish.setting.name}": wish.value for wish in decision.wishes}  # type: ignore[union-attr]


def test_best_effort_as_a_whole_has_limits() -> None:
    assert wanted(state({"readBPS": 1048576, "writeIOPS": 100, "ioWeightPercent": 40})) == {
        "band BestEffort io.max rbps 8:0": 1048576,
        "band BestEffort io.max wiops 8:0": 100,
        "band BestEffort io.weight 8:0": 40,
    }


def test_zero_is_no_limit_and_the_usual_weight_no_wish() -> None:
    assert wanted(state({"readBPS": 0, "writeBPS": 0, "ioWeightPercent": 100})) == {}


def test_a_pod_has_its_own_by_annotation_if_it_has_a_class() -> None:
    text = json.dumps({"blocks": [{"name": "/dev/sda", "type": "device", "ioCfg": {"readIOPS": 7}}]})
    own = pod("own", "LS", annotations={"koordinator.sh/blkioQOS": text})
    plain = pod("plain", annotations={"koordinator.sh/blkioQOS": text})
    broken = pod("broken", "BE", annotations={"koordinator.sh/blkioQOS": "{"})
    assert wanted(state(None, None, own, plain, broken)) == {"pod own io.max riops 8:0": 7}


def test_a_disk_that_is_not_there_is_left_out() -> None:
    assert wanted(state({"readBPS": 5}), {}) == {}


def test_a_disk_that_is_not_there_is_told_where_it_was_asked_for() -> None:
    blocks = [
        {"name": "/dev/sdz", "ioCfg": {"readIOPS": 7}},
        {"name": "data", "type": "volumegroup", "ioCfg": {"readIOPS": 7}},
        {"name": "logs", "type": "podvolume", "ioCfg": {"readIOPS": 7}},
    ]
    own = pod("own", "LS", annotations={"koordinator.sh/blkioQOS": json.dumps({"blocks": blocks})})
    decision = block_io.decide(state({"readBPS": 5}, None, own), {})
    assert decision is not None
    assert [(problem.pod and problem.pod.uid, problem.doing, problem.why) for problem in decision.problems] == [
        (None, "limit I/O of '/dev/sda'", "this node has no such block device"),
        ("own", "limit I/O of '/dev/sdz'", "this node has no such block device"),
        ("own", "limit I/O of 'data'", "this node has no such volume group"),
        ("own", "limit I/O of 'logs'", "this node has no such volume of the pod on a disk"),
    ]


def test_more_than_the_kernel_counts_to_is_no_limit() -> None:
    assert wanted(state({"readBPS": 2**70, "writeBPS": 2**62, "readIOPS": 2**33, "writeIOPS": 2**31})) == {
        "band BestEffort io.max wbps 8:0": 2**62,
        "band BestEffort io.max wiops 8:0": 2**31,
    }


def test_how_disks_are_measured_is_said_for_the_root() -> None:
    found = wanted(state(None, {"readLatency": 1000, "writeLatencyPercent": 90}))
    assert found == {
        "node io.cost.qos 8:0": "enable=1 ctrl=user rpct=95 rlat=1000 wpct=90 wlat=3000",
        "node io.cost.model 8:0": "ctrl=auto",
    }


MODEL = {
    "modelReadBPS": 1,
    "modelReadSeqIOPS": 2,
    "modelReadRandIOPS": 3,
    "modelWriteBPS": 4,
    "modelWriteSeqIOPS": 5,
    "modelWriteRandIOPS": 6,
}


def test_a_model_counts_only_whole() -> None:
    whole = wanted(state(None, {"enableUserModel": True, **MODEL}))
    text = "ctrl=user model=linear rbps=1 rseqiops=2 rrandiops=3 wbps=4 wseqiops=5 wrandiops=6"
    assert whole["node io.cost.model 8:0"] == text
    part = {key: value for key, value in MODEL.items() if key != "modelWriteBPS"}
    assert wanted(state(None, {"enableUserModel": True, **part}))["node io.cost.model 8:0"] == "ctrl=auto"
    assert wanted(state(None, MODEL))["node io.cost.model 8:0"] == "ctrl=auto"


def test_without_settings_nothing_is_decided_and_without_wishes_all_is_put_back() -> None:
    assert block_io.decide(node(), {}) is None
    decision = block_io.decide(node(slo={}), {})
    assert decision is not None
    assert decision.wishes == ()


@pytest.mark.parametrize("disk", ["8:0", "253:17"])
def test_knobs_are_found_again_by_their_names(disk: str) -> None:
    made = [*(io_limit(what, disk) for what in LIMITS), io_weight(disk), io_cost_qos(disk), io_cost_model(disk)]
    assert [knob_named(knob.name) for knob in made] == made


@pytest.mark.parametrize("name", ["io.max rbps ../../x", "io.max size 8:0", "io.max rbps 8:0 ", "io.weight", "x 8:0"])
def test_a_name_that_is_no_knobs_is_none(name: str) -> None:
    assert knob_named(name) is None


V2_FILE = "8:0 rbps=1000 wbps=max riops=max wiops=120\n8:16 rbps=5 wbps=max riops=max wiops=max\n"


def test_a_line_of_a_file_is_read_and_put_back_as_it_would_be_written() -> None:
    knob = io_limit("rbps", "8:0")
    assert knob.v1 is not None
    assert knob.v2 is not None
    assert knob.v2.form.read(V2_FILE) == 1000
    assert knob.v2.form.shown is not None
    assert knob.v2.form.shown(V2_FILE) == "8:0 rbps=1000"
    assert knob.v2.form.shown("") == "8:0 rbps=max"
    assert knob.v1.form.shown is not None
    assert knob.v1.form.shown("8:16 7\n8:0 1000\n") == "8:0 1000"
    assert knob.v1.form.shown("8:16 7\n") == "8:0 0"


def test_what_the_kernel_shows_of_costs_is_what_was_asked_for() -> None:
    form = io_cost_qos("8:0").v2
    assert form is not None
    shown = "8:0 enable=1 ctrl=user rpct=95.00 rlat=3000 wpct=95.00 wlat=3000 min=1.00 max=10000.00"
    assert form.form.same(shown, "8:0 enable=1 ctrl=user rpct=95 rlat=3000 wpct=95 wlat=3000")
    assert not form.form.same(shown, "8:0 enable=1 ctrl=user rpct=90 rlat=3000 wpct=95 wlat=3000")
    assert not form.form.same("8:0 enable=0", "8:0 enable=1 ctrl=user")


QOS_OF_KERNEL = "8:0 enable=1 ctrl=auto rpct=0.00 rlat=0 wpct=0.00 wlat=0 min=100.00 max=100.00\n"
MODEL_OF_KERNEL = "8:0 ctrl=auto model=linear rbps=488636629 rseqiops=8932 rrandiops=8518\n"
MODEL_OF_USER = "8:0 ctrl=user model=linear rbps=1 rseqiops=2 rrandiops=3 wbps=4 wseqiops=5 wrandiops=6"


@pytest.mark.parametrize(
    ("knob", "file", "put_back"),
    [
        (io_weight("8:0"), "default 100\n", "8:0 default"),
        (io_weight("8:0"), "default 300\n8:0 50\n", "8:0 50"),
        (io_cost_qos("8:0"), "", "8:0 enable=0 ctrl=auto"),
        (io_cost_qos("8:0"), QOS_OF_KERNEL, "8:0 enable=1 ctrl=auto"),
        (io_cost_model("8:0"), "", "8:0 ctrl=auto"),
        (io_cost_model("8:0"), MODEL_OF_KERNEL, "8:0 ctrl=auto"),
        (io_cost_model("8:0"), f"{MODEL_OF_USER}\n", MODEL_OF_USER),
    ],
)
def test_what_a_disk_had_by_the_kernels_choice_is_the_kernels_to_choose_again(
    knob: Knob, file: str, put_back: str
) -> None:
    """A number that is written is the user's from then on, even one that the kernel showed."""
    for place in (knob.v1, knob.v2):
        assert place is not None
        assert place.form.shown is not None
        assert place.form.shown(file) == put_back
        assert place.form.same(place.form.shown(file), put_back)
        assert place.form.shown(put_back) == put_back


def test_a_weight_is_undone_without_a_trace(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS)
    tree.write("sys/fs/cgroup/kubepods/besteffort/io.weight", "default 100\n")
    executor = Executor(tree.cgroups, Ledger())
    assert _round(tree.cgroups, executor, state({"ioWeightPercent": 40}), KNOWN) == ["8:0 40"]
    again = Executor(tree.cgroups, Ledger.parse(executor.ledger.text()))
    assert _round(tree.cgroups, again, state(), KNOWN) == ["8:0 default"]


def _round(cgroups: Cgroups, executor: Executor, found: NodeState, known: Disks) -> list[str]:
    decision = block_io.decide(found, known)
    assert decision is not None
    outcome = executor.apply(Delivery(cgroups).writes([decision.wishes], found), {block_io.NAME}, NOW)
    assert not outcome.refused
    return [done_write.text for done_write in outcome.done]


def test_limits_are_written_and_undone_on_v2(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS)
    tree.write("sys/fs/cgroup/kubepods/besteffort/io.max", "")
    executor = Executor(tree.cgroups, Ledger())
    assert _round(tree.cgroups, executor, state({"writeBPS": 4096}), KNOWN) == ["8:0 wbps=4096"]
    assert _round(tree.cgroups, executor, state({"writeBPS": 4096}), KNOWN) == []
    assert _round(tree.cgroups, executor, state(), KNOWN) == ["8:0 wbps=max"]
    assert len(executor.ledger) == 0


def _disk(root: Path, name: str, number: str, **files: str) -> Path:
    real = root / f"sys/devices/{name}"
    real.mkdir(parents=True, exist_ok=True)
    (real / "dev").write_text(f"{number}\n")
    for key, text in files.items():
        path = real / key.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    link = root / "sys/class/block" / name.rpartition("/")[2]
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(real)
    return real


def test_names_of_disks_lead_to_their_numbers(tmp_path: Path) -> None:
    _disk(tmp_path, "sda", "8:0")
    _disk(tmp_path, "sda/sda1", "8:1", partition="1")
    _disk(tmp_path, "sdb", "8:16")
    for name, slaves, own in (("dm-0", ("sda1", "sdb"), "data-logs"), ("dm-1", ("sdb",), "data--old-logs")):
        volume = _disk(tmp_path, name, f"253:{name[-1]}", dm__name=f"{own}\n")
        for slave in slaves:
            (volume / "slaves").mkdir(exist_ok=True)
            (volume / "slaves" / slave).mkdir()
    (tmp_path / "dev/disk/by-id").mkdir(parents=True)
    (tmp_path / "dev/sdb").touch()
    (tmp_path / "dev/disk/by-id/fast").symlink_to("../../sdb")
    files = Files(str(tmp_path))
    assert disks.of_device(files, "/dev/sda") == ("8:0",)
    assert disks.of_device(files, "sda1") == ("8:0",), "limits hold for whole disks"
    assert disks.of_device(files, "/dev/disk/by-id/fast") == ("8:16",)
    assert disks.of_device(files, "/dev/sdz") == ()
    assert disks.of_device(files, "../../etc/passwd") == ()
    assert disks.of_group(files, "data") == ("8:0", "8:16")
    assert disks.of_group(files, "data-old") == ("8:16",)
    assert disks.of_group(files, "dat") == ()


def test_a_volume_of_a_pod_is_found_where_kubelet_mounted_it(tmp_path: Path) -> None:
    (tmp_path / "proc/1").mkdir(parents=True)
    pods = "/var/lib/kubelet/pods/u1/volumes"
    (tmp_path / "proc/1/mountinfo").write_text(
        f"36 35 8:32 / {pods}/kubernetes.io~csi/pv-a/mount rw - ext4 /dev/sdc rw\n"
        f"37 35 0:44 / {pods}/kubernetes.io~empty-dir/pv-b rw - tmpfs tmpfs rw\n"
        f"38 35 8:48 / {pods}/kubernetes.io~local-volume/my\\040disk rw - ext4 /dev/sdd rw\n"
    )
    files = Files(str(tmp_path))
    assert disks.of_pod_volume(files, "u1", "pv-a") == ("8:32",)
    assert disks.of_pod_volume(files, "u1", "my disk") == ("8:48",)
    assert disks.of_pod_volume(files, "u1", "pv-b") == (), "memory is no disk"
    assert disks.of_pod_volume(files, "u2", "pv-a") == ()


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    """A disk of this test's own: 8 MiB of a file."""
    image = tmp_path / "disk"
    image.write_bytes(os.urandom(8 << 20))
    made = subprocess.run(["losetup", "-f", "--show", str(image)], capture_output=True, text=True, timeout=60)
    if made.returncode:
        pytest.skip(f"no loop device can be had: {made.stderr.strip()}")
    try:
        yield made.stdout.strip()
    finally:
        subprocess.run(["losetup", "-d", made.stdout.strip()], timeout=60, check=True)


BEST_EFFORT = "kubepods/besteffort"


@contextmanager
def _best_effort() -> Iterator[tuple[Cgroups, Path]]:
    """A node of the test's own where disks are limited, in either version, with the directory of best effort."""
    files = Files("/")
    version = Cgroups.of(files).version
    mounted = Path("/sys/fs/cgroup/blkio" if version is Version.V1 else "/sys/fs/cgroup")
    if version is Version.V1 and not (mounted / "blkio.throttle.read_bps_device").exists():
        pytest.skip("needs the hierarchy blkio")
    if version is Version.V2 and "io" not in (mounted / "cgroup.subtree_control").read_text().split():
        pytest.skip("needs the controller io, handed down from the top")
    root = f"koord-test-io-{os.getpid()}"
    cgroups = Cgroups(files, version, root)
    cgroups.look_for_pods_in("kubepods")
    try:
        for directory in (mounted / root, mounted / root / "kubepods", mounted / root / BEST_EFFORT):
            directory.mkdir()
            if version is Version.V2 and directory.name != "besteffort":
                (directory / "cgroup.subtree_control").write_text("+io")
        yield cgroups, mounted / root / BEST_EFFORT
    finally:
        files.close()
        trees.remove_within(mounted / root, time.monotonic() + 10)


def _limited(loop: str, **limits: int) -> NodeState:
    block = {"name": loop, "type": "device", "ioCfg": limits}
    return node(slo={"resourceQOSStrategy": {"beClass": {"blkioQOS": {"enable": True, "blocks": [block]}}}})


@pytest.mark.root
def test_the_kernel_holds_best_effort_to_its_limit(loop: str) -> None:
    with _best_effort() as (cgroups, own):
        known = block_io.resolved(cgroups.files, [Block("device", loop)])
        executor = Executor(cgroups, Ledger())
        knob, before = io_limit("rbps", known[Block("device", loop)][0]), _limits_shown(own)
        _round(cgroups, executor, _limited(loop, readBPS=1048576), known)
        assert cgroups.get(knob, BEST_EFFORT) == 1048576
        assert _seconds_to_read(loop, own) > 1.4, "two MiB at one a second"
        _round(cgroups, executor, node(slo={}), known)
        assert _limits_shown(own) == before
        assert any(_seconds_to_read(loop, own) < 1.4 for _ in range(5)), "as fast as the disk is at the time"


@pytest.mark.root
@pytest.mark.parametrize("is_after", [False, True])
def test_killed_at_every_write_the_disks_limits_are_as_they_were_found(
    tmp_path: Path, loop: str, is_after: bool
) -> None:
    with _best_effort() as (cgroups, own):
        known = block_io.resolved(cgroups.files, [Block("device", loop)])
        cgroups.set(io_limit("wbps", known[Block("device", loop)][0]), BEST_EFFORT, 5000000)
        before, state_dir = _limits_shown(own), tmp_path / "state"
        limited = _limited(loop, readBPS=1048576, writeBPS=2097152, readIOPS=100, writeIOPS=200)

        def agent() -> Executor:
            return Executor(cgroups, read_ledger(state_dir), lambda text: write_ledger(state_dir, text))

        def work(dies: Callable[[Cgroups], None]) -> None:
            dies(cgroups)
            _round(cgroups, agent(), limited, known)

        step = 0
        while killed_at(work, step, is_after=is_after):
            agent().restore_all(NOW)
            assert _limits_shown(own) == before, f"killed at write {step}"
            step += 1
        assert step == 4
        assert _limits_shown(own) != before, "an agent that is not killed sets them"
        agent().restore_all(NOW)
        assert _limits_shown(own) == before


def _limits_shown(own: Path) -> dict[str, str]:
    files = [*own.glob("blkio.throttle.*_device"), *own.glob("io.max")]
    return {file.name: file.read_text() for file in sorted(files)}


def _seconds_to_read(loop: str, cgroup: Path) -> float:
    script = f"echo $$ > {cgroup}/cgroup.procs; exec dd if={loop} of=/dev/null bs=64k count=32 iflag=direct"
    began = time.monotonic()
    subprocess.run(["/bin/sh", "-c", script], capture_output=True, timeout=60, check=True)
    return time.monotonic() - began
