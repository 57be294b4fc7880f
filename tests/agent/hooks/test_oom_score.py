"""Whom the out-of-memory killer takes first: scores of processes where a pod says so, told and undone like the rest."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from koord.agent.core import Agent, Done
from koord.agent.executor.executor import Executor
from koord.agent.executor.ledger import Ledger
from koord.agent.host.cgroups import Version
from koord.agent.state import DEFAULT_GATES
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from tests.agent.real import put
from tests.agent.real_node import real_node
from tests.agent.states import NOW, node, pod
from tests.agent.trees import Tree

OF_POD, OF_CONTAINERS = "koordinator.sh/oom-score-adj", "koordinator.sh/oom-score-adj-spec"
GATES = {gate: gate is AgentGate.OOM_SCORE_ADJ for gate in AgentGate}


class Host:
    """A pod with two processes and a sandbox with one."""

    def __init__(self, tree: Tree, dry_run: bool = False) -> None:
        self.tree = tree
        tree.pod("web", KubeQoS.BEST_EFFORT, "web-main", "pause")
        self.run("web-main", 12, 13)
        self.run("pause", 14)
        self.saved = [b"[]"]
        self.agent = Agent(tree.cgroups, Executor(tree.cgroups, Ledger(), self.saved.append, dry_run))
        self.now_s = NOW

    def run(self, container: str, *pids: int) -> None:
        name = self.tree.cgroups.name("cpu", f"kubepods/besteffort/podweb/{container}", "cgroup.procs")
        self.tree.write(name, "".join(f"{pid}\n" for pid in pids))
        for pid in pids:
            if not (self.tree.root / f"proc/{pid}").exists():
                self.begin(pid)

    def begin(self, pid: int, score: int = 0, started: int = 500) -> None:
        fields = " ".join(["S", *["0"] * 18, str(started), "0"])
        self.tree.write(f"proc/{pid}/stat", f"{pid} (a) b) {fields}\n")
        self.tree.write(f"proc/{pid}/oom_score_adj", f"{score}\n")

    def round(self, annotations: dict[str, str], qos: str = "LS") -> Done:
        self.now_s += 10
        state = replace(node(pod("web", qos, annotations=annotations), slo={}), gates=GATES)
        return self.agent.decide(state, self.now_s)

    def scores(self, *pids: int) -> list[int]:
        return [int(self.tree.read(f"proc/{pid}/oom_score_adj")) for pid in pids]


@pytest.fixture(params=list(Version))
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    return Tree(tmp_path, request.param, CgroupDriver.CGROUPFS)


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, 0),
        ({OF_POD: "-500"}, -500),
        ({OF_POD: "-500", OF_CONTAINERS: '{"main": 200}'}, 200),
        ({OF_POD: "-500", OF_CONTAINERS: '{"other": 200}'}, -500),
        ({OF_CONTAINERS: '{"other": 200}'}, 0),
        ({OF_POD: "1001"}, 0),
        ({OF_POD: "much"}, 0),
        ({OF_CONTAINERS: '{"main": -1001}'}, 0),
        ({OF_POD: "-500", OF_CONTAINERS: "{"}, 0),
    ],
)
def test_a_containers_word_counts_before_its_pods(tree: Tree, annotations: dict[str, str], expected: int) -> None:
    host = Host(tree)
    done = host.round(annotations)
    assert host.scores(12, 13, 14) == [expected, expected, 0], "a sandbox has no part in it"
    assert len(done.outcome.done) == (2 if expected else 0), "what is written is told"


@pytest.mark.parametrize("annotations", [{OF_POD: "-1000"}, {OF_CONTAINERS: '{"main": 0}'}])
def test_best_effort_goes_first_whatever_it_says(tree: Tree, annotations: dict[str, str]) -> None:
    host = Host(tree)
    host.round(annotations, "BE")
    assert host.scores(12, 13) == [1000, 1000]


def test_processes_that_are_gone_refuse_or_have_it_already_keep_no_others_waiting(tree: Tree) -> None:
    host = Host(tree)
    host.begin(11)
    (tree.root / "proc/11/oom_score_adj").unlink()
    (tree.root / "proc/11/oom_score_adj").mkdir()
    host.begin(12, score=-500)
    host.run("web-main", 10, 11, 12, 13)
    (tree.root / "proc/10/stat").unlink()
    done = host.round({OF_POD: "-500"})
    assert host.scores(12, 13) == [-500, -500]
    assert [done_write.write.process for done_write in done.outcome.done] == ["13@500"]


def test_a_dry_run_tells_the_processes_and_writes_nothing(tree: Tree) -> None:
    host = Host(tree, dry_run=True)
    done = host.round({OF_POD: "-500"})
    assert {host.agent.executor.file(done_write.write) for done_write in done.outcome.done} == {
        "proc/12/oom_score_adj",
        "proc/13/oom_score_adj",
    }
    assert host.scores(12, 13) == [0, 0]


def test_what_the_pod_no_longer_says_is_undone_also_for_processes_born_since(tree: Tree) -> None:
    host = Host(tree)
    host.begin(12, score=7)
    host.round({OF_POD: "-500"})
    # A child has its parent's score from the first moment on.
    host.begin(15, score=-500)
    host.run("web-main", 12, 13, 15)
    host.round({OF_POD: "-500"})
    host.round({})
    assert host.scores(12, 13) == [7, 0]
    assert host.scores(15)[0] in (0, 7)
    assert len(host.agent.executor.ledger) == 0


def test_another_process_of_the_same_number_is_left_alone(tree: Tree) -> None:
    host = Host(tree)
    host.round({OF_POD: "-500"})
    host.begin(12, score=-500, started=900)
    again = Executor(tree.cgroups, Ledger.parse(host.saved[-1]))
    assert not again.restore_all(NOW + 100).refused
    assert host.scores(12, 13) == [-500, 0]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


@pytest.mark.root
def test_on_this_kernel_a_score_is_set_and_put_back(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    score = Path(f"/proc/{sleeper.pid}/oom_score_adj")
    before = score.read_text()
    with real_node(tmp_path) as node:
        node.gates = {**DEFAULT_GATES, AgentGate.OOM_SCORE_ADJ: True}
        web = node.pod("web", "LS", annotations={OF_POD: "300"})
        put(node.cgroups, web.containers[0].directory, sleeper.pid)
        node.round()
        assert score.read_text().strip() == "300"
        node.start()
        assert not node.agent.executor.restore_all(node.now_s).refused
        assert score.read_text() == before
