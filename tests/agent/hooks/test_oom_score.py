"""Whom the out-of-memory killer takes first: scores of processes, where a pod says so."""

from pathlib import Path

import pytest

from koord.agent.hooks import oom_score
from koord.agent.host.cgroups import Version
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from tests.agent.states import node, pod
from tests.agent.trees import Tree

OF_POD, OF_CONTAINERS = "koordinator.sh/oom-score-adj", "koordinator.sh/oom-score-adj-spec"


@pytest.fixture(params=list(Version))
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Tree:
    found = Tree(tmp_path, request.param, CgroupDriver.CGROUPFS)
    found.pod("web", KubeQoS.BEST_EFFORT, "web-main", "pause")
    processes(found, "web-main", 12, 13)
    processes(found, "pause", 14)
    for pid in (12, 13, 14):
        found.write(f"proc/{pid}/oom_score_adj", "0\n")
    return found


def processes(tree: Tree, container: str, *pids: int) -> None:
    name = tree.cgroups.name("cpu", f"kubepods/besteffort/podweb/{container}", "cgroup.procs")
    tree.write(name, "".join(f"{pid}\n" for pid in pids))


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
    changed = oom_score.apply(node(pod("web", "LS", annotations=annotations)), tree.cgroups)
    scores = [int(tree.read(f"proc/{pid}/oom_score_adj")) for pid in (12, 13, 14)]
    assert scores == [expected, expected, 0], "a sandbox has no part in it"
    assert changed == (2 if expected else 0)


def test_processes_that_are_gone_refuse_or_have_it_already_keep_no_others_waiting(tree: Tree) -> None:
    processes(tree, "web-main", 10, 11, 12, 13)
    (tree.root / "proc/11/oom_score_adj").mkdir(parents=True)
    tree.write("proc/12/oom_score_adj", "-500\n")
    assert oom_score.apply(node(pod("web", "LS", annotations={OF_POD: "-500"})), tree.cgroups) == 1
    assert tree.read("proc/13/oom_score_adj") == "-500"
