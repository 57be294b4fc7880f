"""openb: GPU nodes and the pods that came and went."""

from __future__ import annotations

import pytest

from koord.sim.traces.openb import NODES, PODS, read
from koord.sim.traces.trace import Trace, TraceFault
from tests.sim.traces.samples import text

HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"
NODE = "n1,64000,262144,2,P100\n"


def trace(pods: str, nodes: str = NODE, header: str = HEADER) -> Trace:
    return read({NODES: text("sn,cpu_milli,memory_mib,gpu,model\n" + nodes), PODS: text(header + pods)})


def test_nodes_and_pods_have_what_the_files_say() -> None:
    openb = trace("a,12000,16384,1,460,V100M16|T4,10,70\nb,1000,1,0,0,,5,\n")
    (node,), (first, second) = openb.gpu_nodes, openb.gpu_pods
    assert node == ("n1", "P100", 2, 64000, 262144)
    assert first == ("a", 12000, 16384, 1, 460, frozenset({"V100M16", "T4"}), 10, 70)
    assert (second.gpu_milli, second.models) == (0, frozenset())
    assert openb.nodes is not None
    assert openb.nodes.memory_bytes.tolist() == [262144 << 20]
    assert openb.nodes.pool == ("P100",)


def test_a_pod_that_ends_before_it_begins_is_repaired_and_counted() -> None:
    openb = trace("a,1,1,1,1000,,70,10\n")
    assert (openb.gpu_pods[0].begin_s, openb.gpu_pods[0].end_s) == (70, 71)
    assert [(repair.count, repair.first) for repair in openb.repairs] == [(1, f"{PODS}:2")]


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        ("a,1,1,1,1000,,0,1\na,1,1,1,1000,,0,1\n", "3: pod a stands twice"),
        ("a,1,1,1,1001,,0,1\n", "2: column gpu_milli: must be 1 to 1000"),
        ("a,1,1,2,0,,0,1\n", "2: column gpu_milli: must be 1 to 1000"),
        ("a,-1,1,1,1000,,0,1\n", "2: column cpu_milli: must be 0 or more, not -1"),
        ("", " has no pods"),
    ],
)
def test_pods_that_cannot_be_are_refused(pods: str, message: str) -> None:
    with pytest.raises(TraceFault, match=f"{PODS}:{message}"):
        trace(pods)


def test_a_node_that_stands_twice_is_refused() -> None:
    with pytest.raises(TraceFault, match=f"{NODES}:3: node n1 stands twice"):
        trace("a,1,1,1,1000,,0,1\n", NODE * 2)
