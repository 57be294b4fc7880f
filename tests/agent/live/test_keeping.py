"""What the agent keeps on disk, when the disk is full or takes no writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from koord.agent.executor.audit import Audit, read_file
from koord.agent.executor.ledger import Entry
from koord.agent.live.keeping import LEDGER, LedgerFile, read_ledger, write_ledger
from koord.agent.live.last_known import OLDEST_S, LastKnown, LastKnownFile, read_last_known, strangers
from koord.agent.state import Kubelet
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.words import KubeQoS
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_slo import NodeSLO
from koord.api.text.cpuset import CPUSet
from koord_chaos.faults.live.small_disk import small_disk
from tests.agent.states import pod
from tests.agent.trees import Tree

DRIVER = CgroupDriver.CGROUPFS
ENTRY = '{"knob":"cpu.cfs_quota_us","directory":"kubepods/pod%d","by":"cpu_suppress","found":"-1","wrote":["20000"]}'
LOG = pytest.LogCaptureFixture


def record(entries: int) -> bytes:
    return f"[{','.join(ENTRY % number for number in range(entries))}]".encode()


@pytest.mark.root
def test_a_full_disk_takes_the_next_record_and_an_older_one_never_returns(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "256k") as disk:
        write_ledger(disk.path, record(10))
        disk.fill()
        for entries in (11, 12, 9, 100):
            write_ledger(disk.path, record(entries))
            assert len(read_ledger(disk.path)) == entries


def test_a_record_that_the_disk_refuses_is_written_when_it_takes_it_again(tmp_path: Path, caplog: LOG) -> None:
    directory = tmp_path / "state"
    directory.write_text("in the way")
    file = LedgerFile(directory)
    file.save(record(1))
    file.save(record(2))
    assert caplog.text.count("cannot be written") == 1
    directory.unlink()
    file.catch_up()
    assert len(read_ledger(directory)) == 2
    (directory / LEDGER).unlink()
    file.catch_up()
    assert not (directory / LEDGER).exists(), "once is enough"


def test_what_a_disk_does_not_take_of_the_audit_is_still_told(tmp_path: Path, caplog: LOG) -> None:
    directory = tmp_path / "state"
    directory.write_text("in the way")
    audit = Audit(directory / "audit.log")
    for number in range(3):
        audit.add("now", "write", "cpu_suppress", str(number))
    assert [event.message for event in audit.newest(9)] == ["2", "1", "0"]
    assert caplog.text.count("cannot be written") == 1
    directory.unlink()
    audit.add("now", "write", "cpu_suppress", "3")
    assert [event.message for event in read_file(directory / "audit.log", 9)] == ["3"]


@pytest.mark.root
def test_a_full_disk_leaves_no_half_lines_in_the_audit(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        audit = Audit(disk.path / "audit.log")
        audit.add("now", "write", "cpu_suppress", "first")
        disk.fill()
        for _ in range(100):
            audit.add("now", "write", "cpu_suppress", "x" * 1000)
        disk.make_room()
        audit.add("now", "write", "cpu_suppress", "last")
        messages = [event.message for event in read_file(disk.path / "audit.log", 999)]
        assert (messages[0], messages[-1]) == ("last", "first")


def example(at_s: float = 0.0) -> LastKnown:
    node = convert(Node, {"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "8"}}})
    slo = convert(NodeSLO, {"metadata": {"name": "n1"}, "spec": {"cpuBurstStrategy": {"policy": "auto"}}})
    kubelet = Kubelet("static", CPUSet([0]), {"web": CPUSet([2, 3])}, {"full-pcpus-only": "true"})
    web = pod("web", "LS", requests={"cpu": "1"}, limits={"cpu": "2"}, annotations={"a": "b"})
    return LastKnown(at_s, node, slo, kubelet, {"web": web})


def test_what_was_known_last_is_known_to_the_next_agent(tmp_path: Path) -> None:
    assert read_last_known(tmp_path) is None
    LastKnownFile(tmp_path).save(example())
    assert read_last_known(tmp_path) == example()
    (tmp_path / "last-known.json").write_text('{"atS": 1')
    assert read_last_known(tmp_path) is None


def test_what_is_too_old_or_of_another_node_is_not_gone_by() -> None:
    assert example(1000.0).is_of("n1", 1000.0 + OLDEST_S - 1)
    assert not example(1000.0).is_of("n1", 1000.0 + OLDEST_S)
    assert not example(1000.0).is_of("n1", 1000.0 - OLDEST_S), "a clock that was set back says nothing"
    assert not example(1000.0).is_of("n2", 1000.0)


def test_pods_that_came_later_and_were_set_are_strangers(tmp_path: Path) -> None:
    tree = Tree(tmp_path, driver=DRIVER)
    web = pod("web", "LS", requests={"cpu": "1"})
    own, bare = tree.pod("own", KubeQoS.GUARANTEED, "own-main"), tree.pod("bare", KubeQoS.BURSTABLE)
    tree.pod("web", KubeQoS.BURSTABLE, "web-main")

    def entry(directory: str) -> Entry:
        return Entry("cpuset.cpus", directory, "cpuset", "0-7", ("1",))

    def strange(*directories: str) -> set[str]:
        return strangers({"web": web}, map(entry, directories), tree.cgroups, DRIVER)

    assert strange() == strange(f"{web.directory}/web-main", "kubepods/besteffort", "kubepods/podgone") == set()
    assert strange(f"{own}/own-main", web.directory) == {own}
    assert strange(bare) == {bare}
