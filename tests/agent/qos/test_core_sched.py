"""Core scheduling, with cookies that the test keeps in place of the kernel's: this machine's has none (`FakeCookies`).

On a kernel that has them the same is told by `tests/agent/test_real_core_sched.py`, in a guest.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koord.agent.core import Agent, Done
from koord.agent.executor.executor import Executor
from koord.agent.executor.ledger import Ledger
from koord.agent.host import core_sched as core_sched_host
from koord.agent.host.all_knobs import knob_named
from koord.agent.host.cgroups import Version
from koord.agent.host.core_sched import KernelCookies
from koord.agent.host.core_sched_knobs import CORE_COOKIE
from koord.agent.host.files import Files
from koord.agent.host.knobs import CPU_IDLE
from koord.agent.live.metrics import AgentCollector
from koord.agent.pods import AgentPod
from koord.agent.qos import core_sched
from koord.agent.state import DEFAULT_GATES
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from tests.agent.states import NOW, node, pod
from tests.agent.trees import Tree

GROUP, POLICY = "koordinator.sh/core-sched-group-id", "koordinator.sh/core-sched-policy"
GATES = {**DEFAULT_GATES, AgentGate.CORE_SCHED: True}
ON = {"cpuQOS": {"enable": True}}
BOTH: dict[str, Any] = {"policies": {"cpuPolicy": "coreSched"}, "lsClass": ON, "beClass": ON}
KINDS = {"BE": KubeQoS.BEST_EFFORT, "LS": KubeQoS.BURSTABLE, "LSR": KubeQoS.BURSTABLE, "SYSTEM": KubeQoS.BURSTABLE}


class Killed(BaseException):
    """The agent died here: nothing of it catches that."""


class FakeCookies:
    """A kernel's cookies, of tasks that exist here alone. Those that are held are one agent's."""

    def __init__(self, tasks: dict[int, int], made: list[int], left: int | None = None) -> None:
        self.tasks, self._made, self._held, self.left, self.given = tasks, made, set[int](), left, 0
        self.missing = ""
        self.on_give: Callable[[int], None] = lambda task: None

    def absence(self) -> str:
        return self.missing

    def of(self, task: int) -> int | None:
        return self.tasks.get(task)

    def held(self) -> Collection[int]:
        return self._held

    def make(self) -> int:
        self._made.append(1000 + len(self._made))
        self._held.add(self._made[-1])
        return self._made[-1]

    def hold(self, cookie: int, task: int) -> bool:
        if self.tasks.get(task) != cookie:
            return False
        self._held.add(cookie)
        return True

    def release(self, kept: Collection[int]) -> None:
        self._held &= {*kept}

    def give(self, cookie: int, task: int) -> None:
        if self.left is not None and self.given >= self.left:
            raise Killed
        self.given += 1
        if task not in self.tasks:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        assert cookie == 0 or cookie in self._held, "a cookie is given by who has it"
        self.tasks[task] = cookie
        self.on_give(task)


class Host:
    def __init__(self, root: Path) -> None:
        self.tree = Tree(root, Version.V2, CgroupDriver.CGROUPFS)
        self.tasks: dict[int, int] = {}
        self.made: list[int] = []
        self.saved, self.now_s = [b"[]"], NOW
        self.pods: dict[str, AgentPod] = {}
        self.start()

    def start(self, left: int | None = None) -> None:
        cgroups = self.tree.cgroups
        self.cookies = FakeCookies(self.tasks, self.made, left)
        cgroups.cookies = self.cookies
        self.agent = Agent(cgroups, Executor(cgroups, Ledger.parse(self.saved[-1]), self.saved.append))

    def add(self, name: str, qos: str, *tasks: int, **labels: str) -> None:
        """The first task is the sandbox's."""
        named = {{"group": GROUP, "policy": POLICY}[key]: value for key, value in labels.items()}
        requests = {} if qos == "BE" else {"cpu": "1"}
        self.pods[name] = pod(name, qos, labels=named, requests=requests)
        directory = self.tree.pod(name, KINDS[qos], f"{name}-main", "pause")
        self.run(f"{directory}/pause", *tasks[:1])
        self.run(f"{directory}/{name}-main", *tasks[1:])

    def run(self, directory: str, *tasks: int, cookie: int = 0) -> None:
        file = f"sys/fs/cgroup/{directory}/cgroup.threads"
        self.tree.write(file, "".join(f"{task}\n" for task in [*self.tree.read(file).split(), *tasks]))
        self.tasks |= dict.fromkeys(tasks, cookie)

    def round(self, classes: Mapping[str, Any]) -> Done:
        self.now_s += 10
        state = replace(node(*self.pods.values(), slo={"resourceQOSStrategy": dict(classes)}), gates=GATES)
        return self.agent.decide(state, self.now_s)

    def of(self, *tasks: int) -> list[int]:
        return [self.tasks[task] for task in tasks]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_containers_of_a_group_share_a_cookie_and_their_sandboxes_have_none(host: Host) -> None:
    host.add("web", "LS", 10, 11, 12)
    host.add("api", "LS", 20, 21)
    host.add("job", "BE", 30, 31)
    host.round(BOTH)
    services, (job,) = host.of(11, 12, 21), host.of(31)
    assert len({*services}) == 1
    assert 0 not in (services[0], job)
    assert services[0] != job, "services expel, best effort does not"
    assert host.of(10, 20, 30) == [0, 0, 0]
    again = host.round(BOTH)
    assert (again.outcome.done, again.problems) == ([], ())
    host.round({})
    assert {*host.tasks.values()} == {0}
    assert len(host.agent.executor.ledger) == 0
    assert not host.cookies.held()


@pytest.mark.parametrize(
    ("qos", "labels", "group"),
    [
        ("LS", {}, "-expeller"),
        ("BE", {}, ""),
        ("LS", {GROUP: "team"}, "team-expeller"),
        ("BE", {GROUP: "team"}, "team"),
        ("BE", {POLICY: "exclusive"}, "p"),
        ("BE", {POLICY: "exclusive", GROUP: "team"}, "p"),
        ("LS", {POLICY: "none", GROUP: "team"}, None),
        ("BE", {POLICY: "shared"}, ""),
        ("BE", {POLICY: "exclusiv", GROUP: "team"}, "team"),
        ("LSR", {}, None),
        ("SYSTEM", {}, None),
        ("", {}, "-expeller"),
    ],
)
def test_a_pods_group_is_what_it_says_or_its_class_says(qos: str, labels: dict[str, str], group: str | None) -> None:
    requests = {} if qos == "BE" else {"cpu": "1"}
    state = node(pod("p", qos, labels=labels, requests=requests), slo={"resourceQOSStrategy": BOTH})
    assert core_sched.group_of(state, state.pods["p"]) == group
    assert set(core_sched.groups(state)) == ({group} - {None})


def test_without_the_policy_there_are_no_groups() -> None:
    state = node(pod("p", "BE"), slo={"resourceQOSStrategy": {"beClass": ON}})
    assert core_sched.groups(state) == {}


def test_a_task_without_its_cookie_gets_it_and_anothers_cookie_is_left(host: Host) -> None:
    host.add("job", "BE", 30, 31, 32)
    host.round(BOTH)
    (cookie,) = {*host.of(31, 32)}
    host.tasks[31] = 0
    host.run("kubepods/besteffort/podjob/job-main", 33)
    host.run("kubepods/besteffort/podjob/job-main", 34, cookie=7)
    host.round(BOTH)
    assert host.of(31, 33, 34) == [cookie, cookie, 7]
    assert host.round(BOTH).outcome.done == []
    host.round({})
    assert host.of(31, 32, 33, 34) == [0, 0, 0, 7]


def test_tasks_that_are_born_while_cookies_are_given_have_them_too(host: Host) -> None:
    host.add("job", "BE", 30, 31)
    born = iter((40, 41))

    def fork(task: int) -> None:
        child = next(born, None)
        if child is not None:
            host.run("kubepods/besteffort/podjob/job-main", child)

    host.cookies.on_give = fork
    host.round(BOTH)
    assert 0 not in host.of(31, 40, 41)


def test_the_next_agent_goes_on_with_the_cookies_that_it_finds(host: Host) -> None:
    host.add("web", "LS", 10, 11)
    host.add("job", "BE", 30, 31)
    host.round(BOTH)
    before = dict(host.tasks)
    host.start()
    host.add("api", "LS", 20, 21)
    done = host.round(BOTH)
    assert host.tasks == {**before, 20: 0, 21: before[11]}
    assert [done_write.write.directory for done_write in done.outcome.done] == ["kubepods/burstable/podapi/api-main"]


def test_a_pod_that_changes_its_group_changes_its_cookie(host: Host) -> None:
    host.add("a", "BE", 10, 11)
    host.add("b", "BE", 20, 21)
    host.round(BOTH)
    assert host.of(11) == host.of(21)
    host.pods["b"] = pod("b", "BE", labels={POLICY: "exclusive"})
    host.round(BOTH)
    assert host.of(11) != host.of(21)
    host.pods["b"] = pod("b", "BE", labels={POLICY: "none"})
    host.round(BOTH)
    assert host.of(21) == [0]


def test_a_class_with_sched_idle_is_in_the_idle_class_and_comes_out_again(host: Host) -> None:
    idle = {**BOTH, "beClass": {"cpuQOS": {"enable": True, "schedIdle": 1}}}
    host.add("web", "LS", 10, 11)
    host.add("job", "BE", 20, 21)
    web, job = host.pods["web"].directory, host.pods["job"].directory
    host.round(idle)
    assert host.tree.cgroups.get(CPU_IDLE, job) == 1
    assert host.tree.cgroups.get(CPU_IDLE, web) == 0
    assert host.tree.cgroups.get(CPU_IDLE, "kubepods/besteffort") == 0, "kubelet writes shares there"
    host.round(BOTH)
    assert host.tree.cgroups.get(CPU_IDLE, job) == 0


def test_cookies_are_told_by_koordinators_name(host: Host) -> None:
    host.add("web", "LS", 10, 11, group="team")
    host.round(BOTH)
    state = replace(node(*host.pods.values(), slo={"resourceQOSStrategy": BOTH}), gates=GATES)
    told = [
        sample.labels
        for family in AgentCollector(host.agent, lambda: state, {}, lambda: host.now_s).collect()
        for sample in family.samples
        if sample.name == "koordlet_container_core_sched_cookie"
    ]
    assert told == [
        {
            "node": "n1", "pod_name": "web", "pod_namespace": "ns", "pod_uid": "web", "container_name": "main",
            "container_id": "containerd://web-main", "core_sched_group": "team-expeller",
            "core_sched_cookie": str(host.of(11)[0]),
        }
    ]  # fmt: skip


def test_a_kernel_without_it_is_told_and_nothing_is_done(host: Host) -> None:
    host.add("job", "BE", 30, 31)
    host.cookies.missing = "this kernel has no core scheduling"
    done = host.round(BOTH)
    assert [problem.why for problem in done.problems] == ["this kernel has no core scheduling"]
    assert done.outcome.done == []
    assert host.of(31) == [0]


def history(host: Host) -> None:
    host.add("web", "LS", 10, 11, 12)
    host.add("job", "BE", 30, 31, 32)
    host.add("other", "BE", 40, 41)
    host.run("kubepods/besteffort/podjob/job-main", 33, cookie=7)
    host.round(BOTH)
    host.pods["job"] = pod("job", "BE", labels={POLICY: "exclusive"})
    host.round(BOTH)
    host.round({**BOTH, "beClass": {}})


def test_killed_at_any_cookie_restore_takes_all_away(tmp_path: Path) -> None:
    whole = Host(tmp_path / "whole")
    history(whole)
    assert whole.cookies.given > 6
    for left in range(whole.cookies.given):
        host = Host(tmp_path / str(left))
        host.start(left)
        with pytest.raises(Killed):
            history(host)
        host.start()
        assert not host.agent.executor.restore_all(NOW + 1000).refused
        assert host.tasks == {**dict.fromkeys((10, 11, 12, 30, 31, 32, 40, 41), 0), 33: 7}, f"killed after {left}"
        assert len(host.agent.executor.ledger) == 0


class Kernel:
    """What a kernel's prctl does to cookies, for threads of this process and some tasks beside it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **tasks: int) -> None:
        self.tasks = {int(name.removeprefix("t")): cookie for name, cookie in tasks.items()}
        self.made = 0
        monkeypatch.setattr(core_sched_host, "_prctl", self.prctl)
        monkeypatch.setattr(core_sched_host, "_cookie_of", self.cookie_of)

    def cookie_of(self, task: int) -> int:
        if task and task not in self.tasks:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        return self.tasks.get(task or threading.get_native_id(), 0)

    def prctl(self, operation: int, task: int, answer_at: int = 0) -> None:
        me = threading.get_native_id()
        if task and task not in self.tasks:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        match operation:
            case 1:
                self.made += 1
                self.tasks[task or me] = 4000 + self.made
            case 2:
                self.tasks[task] = self.tasks.get(me, 0)
            case 3:
                self.tasks[me] = self.tasks[task]


def test_a_thread_holds_each_cookie_and_gives_it_from_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a prctl of the test's own: this machine's kernel knows no cookies."""
    kernel = Kernel(monkeypatch, t7=0, t8=0, t9=55)
    cookies = KernelCookies(Files("/"))
    one, other = cookies.make(), cookies.make()
    assert one != other
    cookies.give(one, 7)
    cookies.give(other, 8)
    assert (cookies.of(7), cookies.of(8)) == (one, other)
    assert kernel.cookie_of(0) == 0, "the agent itself has none"
    assert cookies.hold(55, 9)
    assert not cookies.hold(one, 9), "it has another"
    cookies.give(55, 7)
    cookies.give(0, 8)
    assert (cookies.of(7), cookies.of(8)) == (55, 0)
    with pytest.raises(ProcessLookupError):
        cookies.give(one, 6)
    cookies.give(one, 8)
    cookies.release([55])
    with pytest.raises(OSError, match="no task holds"):
        cookies.give(one, 7)
    cookies.release([])
    assert not cookies.held()


@pytest.mark.parametrize(("number", "told"), [(errno.EINVAL, "CONFIG_SCHED_CORE"), (errno.ENODEV, "one thread a core")])
def test_what_a_kernel_lacks_is_said(monkeypatch: pytest.MonkeyPatch, number: int, told: str) -> None:
    def refuse(task: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(core_sched_host, "_cookie_of", refuse)
    assert told in KernelCookies(Files("/")).absence()


def test_the_agents_own_tasks_are_left_alone() -> None:
    assert KernelCookies(Files("/")).of(os.getpid()) is None


def test_tasks_of_a_composed_host_are_never_this_machines(tmp_path: Path) -> None:
    """Their numbers would be those of others here."""
    assert "does not see the host's processes" in KernelCookies(Files(str(tmp_path))).absence()


def test_what_cannot_be_looked_at_is_kept_for_the_next_restore_and_told(host: Host) -> None:
    """As from a container without the host's processes: their numbers are others' there."""
    host.add("job", "BE", 30, 31)
    host.round(BOTH)
    cgroups = host.tree.cgroups
    assert isinstance(cgroups.cookies, KernelCookies)
    executor = Executor(cgroups, Ledger.parse(host.saved[-1]))
    (refusal,) = executor.restore_all(NOW + 1000).refused
    assert "does not see the host's processes" in refusal.error
    assert len(executor.ledger) == 1
    host.start()
    assert not host.agent.executor.restore_all(NOW + 1001).refused
    assert host.of(31) == [0]


def test_the_knob_is_found_again_by_its_name() -> None:
    assert knob_named(CORE_COOKIE.name) is CORE_COOKIE
