"""Cache and bandwidth by resctrl, on a composed machine (`resctrl_tree`): no machine at hand has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from koord.agent.core import Agent, Done
from koord.agent.executor.executor import Executor
from koord.agent.executor.ledger import Ledger, LedgerError
from koord.agent.host import resctrl as host
from koord.agent.host.all_knobs import knob_named
from koord.agent.host.resctrl import MOUNT, Bandwidth, Cache, Resctrl, Unit
from koord.agent.host.resctrl_knobs import RESCTRL_TASKS, group
from koord.agent.live.metrics import AgentCollector
from koord.agent.pods import AgentPod
from koord.agent.qos import cache_shares, resctrl
from koord.agent.series import names
from koord.agent.state import DEFAULT_GATES, NodeState
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.words import KubeQoS
from koord.api.protocol.annotations.pod_qos import PodResctrl, ResctrlShare, Schemata
from tests.agent.resctrl_tree import Killed, ResctrlFiles, ResctrlMachine
from tests.agent.states import NOW, cpus, node, pod

OWN = "node.koordinator.sh/resctrl"
GATES = {**DEFAULT_GATES, AgentGate.RESCTRL: True, AgentGate.RESCTRL_COLLECTOR: True}
BE_30: dict[str, Any] = {"beClass": {"resctrlQOS": {"enable": True, "mbaPercent": 25}}}
"""Of the cache best effort has 30 percent by default."""
KINDS = {"BE": KubeQoS.BEST_EFFORT, "LS": KubeQoS.BURSTABLE}


def own(**shares: Any) -> dict[str, str]:
    return {OWN: json.dumps(shares)}


class Host:
    """Rounds of an agent, ten seconds apart, on a composed machine."""

    def __init__(self, root: Path, vendor: str = "GenuineIntel", **machine: Any) -> None:
        self.machine = ResctrlMachine(root, **machine)
        made = cpus(len(self.machine.caches))
        self.topology = replace(made, cpus=tuple(cpu._replace(cache=cpu.socket) for cpu in made.cpus), vendor=vendor)
        self.saved, self.now_s = [b"[]"], NOW
        self.pods: dict[str, tuple[AgentPod, str]] = {}
        self.start()

    def start(self, left: int | None = None) -> None:
        cgroups = self.machine.cgroups(left)
        assert isinstance(cgroups.files, ResctrlFiles)
        self.files = cgroups.files
        self.agent = Agent(cgroups, Executor(cgroups, Ledger.parse(self.saved[-1]), self.saved.append))

    def add(self, name: str, qos: str, *tasks: int, annotations: Mapping[str, str] | None = None) -> None:
        requests = {"cpu": "1"} if qos == "LS" else {}
        found = pod(name, qos, requests=requests, annotations=annotations)
        self.pods[name] = (found, self.machine.pod(name, KINDS[qos], *tasks))

    def end(self, name: str) -> None:
        _, directory = self.pods.pop(name)
        self.machine.end(directory)
        self.agent.executor.forget(directory)

    def state(self, classes: Mapping[str, Any] | None, gates: Mapping[AgentGate, bool] = GATES) -> NodeState:
        slo = {"resourceQOSStrategy": dict(classes or {})}
        pods = [pod for pod, _ in self.pods.values()]
        return replace(node(*pods, slo=slo, topology=self.topology), gates=gates)

    def round(self, classes: Mapping[str, Any] | None, gates: Mapping[AgentGate, bool] = GATES) -> Done:
        self.now_s += 10
        return self.agent.decide(self.state(classes, gates), self.now_s)

    def groups_of(self, *tasks: int) -> list[str]:
        return [self.machine.group_of(task) for task in tasks]


@pytest.mark.parametrize(
    ("full", "least", "start", "end", "mask"),
    [
        (0x7FF, 1, 0, 40, 0x1F),  # 11 ways: 0 up to ceil(4.4)
        (0xFFFFF, 1, 20, 65, 0x1FF0),  # 20 ways: 4 up to 13
        (0x7FF, 1, 25, 40, 0x18),  # ceil(2.75) up to ceil(4.4)
        (0x7FF, 1, 0, 100, 0x7FF),
        (0x7FF, 1, 41, 42, 0x10),  # inside one way: that way, and not none
        (0x7FF, 1, 99, 100, 0x400),
        (0xFF, 2, 0, 5, 0x3),  # one way would do, two must be
        (0xFF, 2, 99, 100, 0xC0),
        (0xFF, 1, 50, 50, None),
        (0xFF, 1, 60, 50, None),
        (0xFF, 1, 0, 101, None),
    ],
)
def test_a_part_of_a_cache_is_whole_ways(full: int, least: int, start: int, end: int, mask: int | None) -> None:
    assert cache_shares.mask(Cache(("L3",), full, least, (0,)), start, end) == mask


PERCENT = Bandwidth(Unit.PERCENT, 10, 10, 100, (0,))
AMD = Bandwidth(Unit.EIGHTH_GBPS, 1, 1, 2048, (0,))
MBPS = Bandwidth(Unit.MBPS, 1, 1, 2**32 - 1, (0,))


@pytest.mark.parametrize(
    ("of", "percent", "amount"),
    [
        (PERCENT, 33, 40), (PERCENT, 30, 30), (PERCENT, 1, 10), (PERCENT, 100, 100), (PERCENT, 0, None),
        (PERCENT, 101, None), (AMD, 45, 72), (AMD, 15, 24), (AMD, 100, 2048), (MBPS, 45, None), (MBPS, 100, None),
    ],
)  # fmt: skip
def test_a_part_of_bandwidth_is_in_the_machines_units(of: Bandwidth, percent: int, amount: int | None) -> None:
    assert cache_shares.amount(of, percent) == amount


def test_a_class_has_a_group_with_its_share_and_all_tasks_of_its_pods(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.add("job", "BE", 10, 11, 12)
    host.add("web", "LS", 20, 21)
    before = host.machine.shown()
    host.round(BE_30)
    assert host.machine.groups() == ["BE"]
    # 12 ways: up to ceil(3.6); 25 percent in steps of 10.
    assert host.machine.schemata("BE") == {"L3": {0: 0xF, 1: 0xF}, "MB": {0: 30, 1: 30}}
    assert host.groups_of(10, 11, 12, 20, 21) == ["BE", "BE", "BE", "/", "/"], "its sandbox goes along"
    again = host.round(BE_30)
    assert (again.outcome.done, again.outcome.refused, again.problems) == ([], [], ())
    host.round({})
    assert host.machine.shown() == before
    assert len(host.agent.executor.ledger) == 0


def test_lse_and_lsr_pods_share_one_group(tmp_path: Path) -> None:
    host = Host(tmp_path)
    for number, qos in enumerate(("LSE", "LSR")):
        host.machine.pod(qos.lower(), KubeQoS.BURSTABLE, 10 + number)
        host.pods[qos] = (pod(qos.lower(), qos, requests={"cpu": "1"}), "")
    host.round({"lsrClass": {"resctrlQOS": {"enable": True, "catRangeStartPercent": 30}}})
    assert host.groups_of(10, 11) == ["LSR", "LSR"]
    assert host.machine.schemata("LSR")["L3"] == {0: 0xFF0, 1: 0xFF0}


def test_code_and_data_have_the_same_share_where_they_are_told_apart(tmp_path: Path) -> None:
    host = Host(tmp_path, code_and_data=True, caches=(0,))
    host.round(BE_30)
    assert host.machine.schemata("BE") == {"L3CODE": {0: 0xF}, "L3DATA": {0: 0xF}, "MB": {0: 30}}


@pytest.mark.parametrize(
    ("vendor", "machine", "bandwidth", "told"),
    [
        ("AuthenticAMD", {"bandwidth": 2048}, {0: 40, 1: 40}, ()),
        ("GenuineIntel", {"bandwidth": 0}, None, ("this machine does not divide it",)),
        (
            "GenuineIntel",
            {"bandwidth": 4294967295, "options": "rw,mba_MBps"},
            {0: 4294967295, 1: 4294967295},
            ("MB/s",),
        ),
    ],
)
def test_bandwidth_as_the_machine_counts_it(
    tmp_path: Path, vendor: str, machine: dict[str, Any], bandwidth: dict[int, int] | None, told: tuple[str, ...]
) -> None:
    host = Host(tmp_path, vendor, **machine)
    done = host.round(BE_30)
    assert host.machine.schemata("BE").get("MB") == bandwidth
    assert [part in problem.why for part, problem in zip(told, done.problems, strict=True)] == [True] * len(told)


def test_a_pod_has_a_group_of_its_own_by_annotation_and_leaves_it_when_it_goes(tmp_path: Path) -> None:
    host = Host(tmp_path)
    shares = own(
        llc={"schemata": {"range": [0, 50]}, "schemataPerCache": [{"cacheID": 1, "percent": 25}]},
        mb={"schemata": {"percent": 42}},
    )
    host.add("db", "BE", 10, 11, annotations=shares)
    before = host.machine.shown()
    host.round(BE_30)
    assert host.machine.schemata("koordlet-db") == {"L3": {0: 0x3F, 1: 0x7}, "MB": {0: 50, 1: 50}}
    assert host.groups_of(10, 11) == ["koordlet-db"] * 2, "and not in its class"
    host.round(BE_30, {**GATES, AgentGate.RESCTRL: False})
    assert host.groups_of(10, 11) == ["BE", "BE"]
    host.round({})
    host.round({})
    assert set(host.machine.groups()) == {"koordlet-db"}, "the annotation needs no class"
    host.end("db")
    host.round({})
    assert host.machine.groups() == []
    assert host.machine.shown() == {**before, "tasks": ""}


def test_before_its_containers_a_pod_has_its_group_and_is_born_in_it(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.add("mine", "LS", annotations=own(llc={"schemata": {"range": [0, 30]}}))
    host.add("job", "BE")
    mine, job = host.pods["mine"][0], host.pods["job"][0]
    state = host.state(BE_30)
    assert resctrl.class_ahead(state, mine, host.files) == "", "a runtime would refuse a group that is not there"
    host.agent.made_ready(state, mine, host.now_s)
    assert resctrl.class_ahead(state, mine, host.files) == "koordlet-mine"
    assert resctrl.class_ahead(state, job, host.files) == "", "its class has its group with the next round"
    host.round(BE_30)
    assert resctrl.class_ahead(state, job, host.files) == "BE"
    assert resctrl.class_ahead(host.state(None), job, host.files) == "", "it was switched off"
    host.end("mine")
    host.round(BE_30)
    assert not host.files.exists(f"{MOUNT}/koordlet-mine")


def test_a_share_of_bandwidth_is_refused_where_it_is_counted_in_megabytes(tmp_path: Path) -> None:
    host = Host(tmp_path, bandwidth=4294967295, options="rw,mba_MBps")
    host.add("a", "LS", 10, annotations=own(mb={"schemata": {"percent": 20}}))
    host.add("b", "LS", 11, annotations=own(llc={"schemata": {"percent": 25}}))
    done = host.round({})
    assert [problem.why for problem in done.problems] == ["mb: 20 percent says nothing where resctrl counts MB/s"]
    assert host.machine.schemata("koordlet-b") == {"L3": {0: 7, 1: 7}, "MB": {0: 4294967295, 1: 4294967295}}
    assert not done.outcome.refused


def test_an_annotation_that_this_machine_cannot_follow_is_told_and_counts_as_missing(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.add("a", "BE", 10, annotations=own(llc={"schemataPerCache": [{"cacheID": 7, "range": [0, 10]}]}))
    host.add("b", "BE", 11, annotations={OWN: "{"})
    host.add("c", "BE", 12, annotations=own(mb={"schemata": {"percent": 20}}))
    host.add("d", "BE", 13, annotations=own(mb={"schemata": {"range": [0, 20]}}))
    done = host.round(BE_30)
    assert [(problem.pod.meta.name, problem.why) for problem in done.problems if problem.pod] == [
        ("a", "llc.schemataPerCache: this machine has no cache 7: valid is 0, 1"),
        ("d", "mb: a range says nothing of bandwidth; valid is percent"),
    ]
    assert host.groups_of(10, 11, 12, 13) == ["BE", "BE", "koordlet-c", "BE"]


def test_a_pod_is_told_what_this_machine_does_not_divide_and_has_the_rest() -> None:
    cache = Cache(("L3",), 0x7FF, 1, (0, 1))
    asked = PodResctrl(ResctrlShare(Schemata(range=(0, 40))), ResctrlShare(Schemata(percent=20)))
    machine = Resctrl(cache, None, 15, frozenset())
    assert cache_shares.not_had(machine, asked) == ("mb: this machine does not divide memory bandwidth",)
    assert cache_shares.of_pod(machine, asked) == {"L3": {0: 0x1F, 1: 0x1F}}
    assert cache_shares.not_had(machine, PodResctrl(asked.llc)) == ()


def test_groups_of_others_and_the_tasks_in_them_are_left_alone(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.machine.make("gold")
    host.add("job", "BE", 10, 11)
    host.machine.move(11, "gold")
    before = host.machine.shown()
    host.round(BE_30)
    assert host.groups_of(10, 11) == ["BE", "gold"]
    assert host.round(BE_30).outcome.done == []
    host.round({})
    assert host.machine.shown() == before


def test_a_group_of_the_same_name_is_put_back_as_it_was_found(tmp_path: Path) -> None:
    """As another agent left it, which gave its groups the same names."""
    host = Host(tmp_path)
    host.machine.make("BE")
    host.machine.set_schemata("BE", "L3:0=f00")
    host.add("job", "BE", 10)
    before = host.machine.shown()
    host.round(BE_30)
    assert host.machine.schemata("BE")["L3"] == {0: 0xF, 1: 0xF}
    host.agent.executor.restore_all(host.now_s)
    assert host.machine.shown() == before


def test_where_groups_run_out_classes_come_first_and_the_rest_is_told(tmp_path: Path) -> None:
    host = Host(tmp_path, closids=4)
    host.machine.make("gold")
    share = own(mb={"schemata": {"percent": 20}})
    host.add("b", "LS", 10, annotations=share)
    done = host.round(BE_30)
    assert done.problems == ()
    host.add("a", "LS", 11, annotations=share)
    done = host.round(BE_30)
    assert host.machine.groups() == ["BE", "gold", "koordlet-b"], "what a pod has it keeps"
    assert [problem.pod.meta.name for problem in done.problems if problem.pod] == ["a"]
    assert "no more than 3 groups" in done.problems[0].why
    assert not done.outcome.refused
    host.end("b")
    assert host.round(BE_30).problems == (), "what is given back makes room in the same round"
    assert host.machine.groups() == ["BE", "gold", "koordlet-a"]


@pytest.mark.parametrize(("made", "told"), [(True, "mount -t resctrl resctrl /sys/fs/resctrl"), (False, "no resctrl")])
def test_a_machine_without_it_is_told_and_nothing_is_done(tmp_path: Path, made: bool, told: str) -> None:
    host = Host(tmp_path)
    (host.machine.tree.root / MOUNT).rename(tmp_path / "elsewhere")
    if made:
        (host.machine.tree.root / MOUNT).mkdir()
    done = host.round(BE_30)
    assert told in done.problems[0].why
    assert done.problems[0].pod is None
    assert (done.outcome.done, done.outcome.refused) == ([], [])
    assert host.round({}).problems == (), "a pod that asks for nothing gets no event"


def test_tasks_that_are_born_while_others_are_moved_are_moved_too(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.add("job", "BE", 10, 11)
    born = iter(range(100, 103))

    def fork(task: int) -> None:
        child = next(born, None)
        if child is not None:
            host.machine.run("kubepods/besteffort/podjob/job-main", child)

    host.machine.on_move = fork
    host.round(BE_30)
    assert host.groups_of(10, 11, 100, 101, 102) == ["BE"] * 5


def test_a_machine_that_forks_without_end_does_not_hold_the_round_up(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.add("job", "BE", 10, 11)
    born = iter(range(100, 1000))
    host.machine.on_move = lambda task: host.machine.run("kubepods/besteffort/podjob/job-main", next(born))
    host.round(BE_30)
    assert next(born) < 200
    host.machine.on_move = lambda task: None
    host.round(BE_30)
    assert {host.machine.group_of(task) for task in (10, 11, *range(100, next(born) - 1))} == {"BE"}


def test_between_two_looks_nothing_is_read(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.add("job", "BE", 10)
    state = host.state(BE_30)
    host.agent.decide(state, NOW)
    host.machine.run("kubepods/besteffort/podjob/job-main", 11)
    host.agent.decide(state, NOW + 1)
    assert host.groups_of(11) == ["/"]
    host.agent.decide(state, NOW + 10, is_thorough=True)
    assert host.groups_of(11) == ["BE"]


def history(host: Host) -> None:
    """A class, a pod of its own, one that goes, another share."""
    host.add("job", "BE", 10, 11)
    host.add("db", "LS", 20, 21, annotations=own(llc={"schemata": {"percent": 50}}))
    host.round(BE_30)
    host.round({"beClass": {"resctrlQOS": {"enable": True, "catRangeEndPercent": 50}}})
    host.pods["db"] = (replace(host.pods["db"][0], meta=pod("db", "LS").meta), host.pods["db"][1])
    host.round({**BE_30, "lsClass": {"resctrlQOS": {"enable": True}}})


def test_killed_at_any_write_restore_leaves_everything_as_found(tmp_path: Path) -> None:
    whole = Host(tmp_path / "whole")
    history(whole)
    writes = whole.files.writes
    assert writes > 12
    for left in range(writes):
        host = Host(tmp_path / str(left))
        host.machine.make("gold")
        host.start(left)
        with pytest.raises(Killed):
            history(host)
        found = {**dict.fromkeys(["gold/tasks"], ""), "tasks": "10\n11\n20\n21\n"}
        host.start()
        outcome = host.agent.executor.restore_all(NOW + 1000)
        assert not outcome.refused
        assert host.machine.groups() == ["gold"], f"killed after {left} writes"
        assert {key: host.machine.shown()[key] for key in found} == found
        assert len(host.agent.executor.ledger) == 0


STEPS = st.tuples(st.sampled_from(["add", "end", "share", "unshare", "round", "restart", "off"]), st.integers(0, 3))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=4, max_size=14))
def test_pods_that_come_and_go_leave_no_group_behind(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    host = Host(tmp_path_factory.mktemp("host"), closids=4)
    host.machine.make("gold")
    next_task = iter(range(10, 1000))
    share = own(llc={"schemata": {"percent": 50}})
    for step, number in steps:
        name = f"p{number}"
        if step == "add" and name not in host.pods:
            host.add(name, "BE" if number % 2 else "LS", next(next_task), next(next_task))
        elif step == "end" and name in host.pods:
            host.end(name)
        elif step in ("share", "unshare") and name in host.pods:
            found, directory = host.pods[name]
            meta = pod(name, str(found.labelled_qos), annotations=share if step == "share" else {}).meta
            host.pods[name] = (replace(found, meta=meta), directory)
        elif step == "restart":
            host.start()
        else:
            host.round({} if step == "off" else BE_30)
    host.round(BE_30)
    living = {f"koordlet-{name}" for name in host.pods}
    assert {*host.machine.groups()} - {"gold", "BE"} <= living
    assert host.round(BE_30).outcome.done == [], "a second round has nothing to write"
    for name in list(host.pods):
        host.end(name)
    host.round({})
    assert host.machine.groups() == ["gold"]
    assert len(host.agent.executor.ledger) == 0


def test_knobs_are_found_again_by_their_names_and_others_groups_are_none(tmp_path: Path) -> None:
    for name in ("BE", "koordlet-0b6f"):
        assert knob_named(group(name).name) is group(name)
    assert knob_named(RESCTRL_TASKS.name) is RESCTRL_TASKS
    for name in ("gold", "info", "koordlet-", "koordlet-a/b", "koordlet-..", "..", ""):
        assert host.is_own(name) is False
        assert knob_named(f"resctrl group {name}") is None
    entry = {"knob": "resctrl tasks", "directory": "kubepods", "by": "resctrl", "found": "gold", "wrote": ["BE"]}
    with pytest.raises(LedgerError, match="found 'gold'"):
        Ledger.parse(json.dumps([entry]).encode())


def test_lines_are_read_as_kernels_write_them() -> None:
    text = "    MB:0=2048;1=  16\nL3CODE:0=0fff;1=000f\nL3DATA:0=0fff;1=000f\n    L2:0=ff\n  SMBA:0=2048\n"
    assert host.parse(text) == {
        "MB": {0: 2048, 1: 16},
        "L3CODE": {0: 0xFFF, 1: 0xF},
        "L3DATA": {0: 0xFFF, 1: 0xF},
    }
    assert host.parse("L3:uninitialized\n") == {}
    assert host.parse(host.write(host.parse(text))) == host.parse(text)


def test_counters_of_classes_and_pods_become_samples(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.add("db", "LS", 20, annotations=own(llc={"schemata": {"percent": 50}}))
    host.round(BE_30)
    tree = host.machine.tree
    tree.write(f"{MOUNT}/BE/mon_data/mon_L3_01/llc_occupancy", "4096\n")
    tree.write(f"{MOUNT}/BE/mon_data/mon_L3_00/mbm_total_bytes", "Unavailable\n")
    tree.write(f"{MOUNT}/koordlet-db/mon_data/mon_L3_00/mbm_local_bytes", "77\n")
    state = host.state(BE_30)
    host.agent.round(state, NOW + 100)
    last = host.agent.samples.last
    assert last(names.resctrl("BE", 1, "llc_occupancy"), NOW + 100, 1) == 4096
    assert last(names.resctrl("BE", 0, "mbm_total_bytes"), NOW + 100, 1) is None
    assert last(names.resctrl("db", 0, "mbm_local_bytes"), NOW + 100, 1) == 77
    collector = AgentCollector(host.agent, lambda: state, {}, lambda: NOW + 100)
    told = {metric.name: [(sample.labels, sample.value) for sample in metric.samples] for metric in collector.collect()}
    assert ({"node": "n1", "cache_id": "1", "qos": "BE"}, 4096) in told["koordlet_resctrl_llc_occupancy"]
    local = {"node": "n1", "cache_id": "0", "pod_namespace": "ns", "pod_name": "db", "mb_type": "mbm_local_bytes"}
    assert (local, 77) in told["koordlet_pod_resctrl_memory_bandwidth"]


def test_without_its_gate_or_settings_it_asks_for_nothing() -> None:
    resctrl_settings = resctrl.asked(node(pod("a", "BE", annotations=own(llc={"schemata": {"percent": 5}})), slo={}))
    assert not resctrl_settings.classes
    assert not resctrl_settings.pods, "the annotation has a gate of its own, which is off"
