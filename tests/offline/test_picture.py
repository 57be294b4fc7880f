"""The picture of a node: the pods on its CPUs and devices."""

import json
import sys
from pathlib import Path
from subprocess import run

import pytest

from koord.api import kinds
from koord.api.kubernetes.node import Node
from koord.api.machinery.codec import convert
from koord.api.text.manifest import Manifests, parse, read
from koord.cli.top_cpus import cpu_table
from koord.offline.picture.picture import picture_of
from koord.scheduler.plugins.numa.figures import figures

EXAMPLES = Path(__file__).parents[2] / "examples"
DB = """
apiVersion: v1
kind: Pod
metadata:
  name: db
  namespace: shop
  labels: {koordinator.sh/qosClass: LSR}
  annotations: {scheduling.koordinator.sh/resource-status: '{"cpuset":"0-3,16"}'}
spec: {nodeName: hollow-0001, containers: [{name: main, image: db, resources: {requests: {cpu: "5"}}}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: api
  namespace: shop
  annotations:
    scheduling.koordinator.sh/resource-status: >-
      {"numaNodeResources":[{"node":1,"resources":{"cpu":"2","memory":"1Gi"}}]}
spec: {nodeName: hollow-0001, containers: [{name: main, image: api, resources: {requests: {cpu: "2", memory: 1Gi}}}]}
"""


def manifests() -> Manifests:
    given = read([EXAMPLES / "own-cpus"])
    return given.with_items((*given.items, *parse(DB, "db").items))


def lines(node: str) -> list[str]:
    (section,) = picture_of(manifests(), node)
    return ["".join(span.text for span in line) for line in section.lines]


def test_every_thread_of_a_core_shows_its_owner() -> None:
    drawn = lines("hollow-0001")
    assert drawn[1] == "  [aa][aa][..][..][..][..][..][..]"
    assert drawn[3] == "  [a.][..][..][..][..][..][..][..]"
    assert drawn[4:] == ["a shop/db 0-3,16", "shop/api shares NUMA node 1"]
    assert "15 free, 14 of them in whole cores; cpu 3 of 16 taken, memory 1Gi of 64Gi taken" in drawn[2]


def test_cpus_that_no_pod_gets_are_marked() -> None:
    given = manifests()
    reserved = """
apiVersion: v1
kind: Node
metadata: {name: hollow-0001, annotations: {node.koordinator.sh/reservation: '{"reservedCPUs":"14-15"}'}}
status: {allocatable: {cpu: "32"}}
"""
    items = [item for item in given.items if item.key != "hollow-0001" or item.kind.kind != "Node"]
    (section,) = picture_of(given.with_items((*items, *parse(reserved, "node").items)), "hollow-0001")
    assert "".join(span.text for span in section.lines[1]).endswith("[..][xx]")


def test_a_node_whose_cpus_are_not_known_has_no_picture() -> None:
    assert picture_of(read([EXAMPLES / "plan"]), "n1") == []
    assert picture_of(manifests(), "gone") == []


def test_the_table_has_a_line_for_each_numa_node() -> None:
    given = manifests()
    found = figures(*(given.of(kind) for kind in (kinds.NODES, kinds.NODE_RESOURCE_TOPOLOGIES, kinds.PODS)))
    _, first, second, *_ = cpu_table(found).splitlines()
    assert first.split() == ["hollow-0001", "0", "-", "0-15", "12", "12", "-", "4/16", "0/64Gi", "shop/db", "0-3,16"]
    assert second.endswith("shop/api, shop/db 0-3,16")
    assert [cpu_figures.numa_policy for cpu_figures in found] == ["", "SingleNUMANode"]


def test_nodes_that_tell_nothing_of_their_cpus_are_one_line() -> None:
    nodes = [convert(Node, {"metadata": {"name": f"n{i}"}}) for i in range(5)]
    assert cpu_table(figures(nodes, [], [])) == "no NodeResourceTopology tells of the CPUs of n0, n1 and 3 more nodes"
    assert cpu_table(figures(nodes[:2], [], [])).endswith("the CPUs of n0, n1")


def test_programs_get_the_same() -> None:
    command = [sys.executable, "-m", "koord", "explain", "node/hollow-0002", "-f", "examples/own-cpus", "-o", "json"]
    done = run(command, cwd=EXAMPLES.parent, capture_output=True, text=True, check=True)
    (first, second) = json.loads(done.stdout)["picture"]["cpus"]["numaNodes"]
    assert first["freeInWholeCores"] == 16
    assert second["cores"][0] == [16, 17]


def test_a_reservation_shows_how_much_of_it_is_used_and_by_whom() -> None:
    text = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "32"}}
---
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: Reservation
metadata: {name: night}
spec: {owners: [{object: {name: x}}], template: {}}
status:
  phase: Available
  nodeName: n1
  allocatable: {cpu: "8", memory: 16Gi}
  allocated: {cpu: "3"}
  currentOwners: [{namespace: shop, name: report}]
---
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: Reservation
metadata: {name: elsewhere}
spec: {owners: [{object: {name: x}}], template: {}}
status: {phase: Available, nodeName: n2}
"""
    (section,) = picture_of(parse(text, "given"), "n1")
    (line,) = ["".join(span.text for span in line) for line in section.lines]
    assert line == "night [####......]  37%  cpu 3/8, memory 0/16Gi  shop/report"


HELD = """
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: Reservation
metadata:
  name: night
  uid: uid-night
  annotations:
    scheduling.koordinator.sh/resource-status: '{"cpuset":"4-7"}'
    scheduling.koordinator.sh/device-allocated: >-
      {"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory-ratio":"50"}}]}
spec: {owners: [{object: {name: x}}], template: {spec: {containers: [{name: c}]}}}
status: {phase: Available, nodeName: hollow-0001, allocatable: {cpu: "4"}}
---
apiVersion: v1
kind: Pod
metadata:
  name: owner
  namespace: shop
  labels: {koordinator.sh/qosClass: LSR}
  annotations:
    scheduling.koordinator.sh/reservation-allocated: '{"name":"night","uid":"uid-night"}'
    scheduling.koordinator.sh/resource-status: '{"cpuset":"6-7"}'
    scheduling.koordinator.sh/device-allocated: >-
      {"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"20","koordinator.sh/gpu-memory-ratio":"20"}}]}
spec:
  nodeName: hollow-0001
  containers: [{name: main, image: db, resources: {requests: {cpu: "2", koordinator.sh/gpu: "20"}}}]
---
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: Device
metadata: {name: hollow-0001}
spec:
  devices:
  - type: gpu
    minor: 0
    health: true
    resources: {koordinator.sh/gpu-core: "100", koordinator.sh/gpu-memory-ratio: "100"}
"""


def test_what_a_reservation_holds_and_nobody_uses_is_not_drawn_as_free() -> None:
    given = manifests()
    sections = {
        section.name: section
        for section in picture_of(given.with_items((*given.items, *parse(HELD, "held").items)), "hollow-0001")
    }
    text = {name: ["".join(span.text for span in line) for line in section.lines] for name, section in sections.items()}
    assert "reservation/night 4-5" in "\n".join(text["cpus"])
    assert "shop/owner 6-7" in "\n".join(text["cpus"])
    assert text["devices"] == ["gpu 0  [#####.....]  50%  reservation/night 30%, shop/owner 20%"]


FORECAST = """
apiVersion: slo.koordinator.sh/v1alpha1
kind: NodeMetric
metadata: {name: n9}
status:
  prodReclaimableMetric: {resource: {resources: {cpu: 2498m, memory: 3Gi}}}
  prodPeakMetric:
    resource: {resources: {cpu: 6812m, memory: 5Gi}}
    misses: {minutes: 1440, exceededMinutes: {cpu: 90, memory: 0}, exceededBy: {cpu: 350m, memory: "0"}}
---
apiVersion: v1
kind: Node
metadata: {name: n9}
"""


def test_a_forecast_says_how_often_it_was_exceeded_and_by_how_much() -> None:
    (section,) = picture_of(parse(FORECAST, "forecast"), "n9")
    cpu, memory = ("".join(span.text for span in line) for line in section.lines)
    assert "peak 6812m, reclaimable 2498m" in cpu
    assert "exceeded in 90 of 1440 minutes of the last day (6.2%), at most by 350m" in cpu
    assert "never exceeded in 1440 minutes" in memory


def test_a_forecast_that_nobody_judged_says_so() -> None:
    young = FORECAST.replace("    misses: {minutes: 1440", "    unused: {minutes: 1440")
    (section,) = picture_of(parse(young, "forecast"), "n9")
    assert "no prediction was judged yet" in section.lines[0][0].text


@pytest.mark.parametrize(
    "misses",
    [
        "{minutes: -3, exceededMinutes: {cpu: 9}, exceededBy: {cpu: -4}}",
        "{minutes: 10, exceededMinutes: {cpu: 11}, exceededBy: {cpu: 4}}",
        "{minutes: 10, exceededMinutes: {memory: -1}}",
    ],
)
def test_a_forecast_whose_errors_cannot_be_is_told_without_them(misses: str) -> None:
    lying = FORECAST.replace(
        '{minutes: 1440, exceededMinutes: {cpu: 90, memory: 0}, exceededBy: {cpu: 350m, memory: "0"}}', misses
    ).replace("cpu: 2498m", "cpu: -3")
    (section,) = picture_of(parse(lying, "forecast"), "n9")
    assert section.lines[0][0].text.endswith("peak 6812m, reclaimable 0; no prediction was judged yet")


MEMORY = """
apiVersion: v1
kind: Node
metadata: {name: n8}
---
apiVersion: slo.koordinator.sh/v1alpha1
kind: NodeMetric
metadata: {name: n8}
spec: {metricCollectPolicy: {nodeMemoryCollectPolicy: POLICY}}
status:
  nodeMetric:
    nodeUsage: {resources: {cpu: "1", memory: 8Gi}}
    pageCache: {total: 4Gi, cold: COLD, counted: COUNTED}
"""


def test_memory_says_what_is_page_cache_and_how_much_of_it_is_cold() -> None:
    text = MEMORY.replace("POLICY", "usageWithHotPageCache").replace("COLD", "1Gi").replace("COUNTED", "hot")
    (section,) = picture_of(parse(text, "memory"), "n8")
    (line,) = ("".join(span.text for span in line) for line in section.lines)
    assert line == "used 8Gi; page cache 4Gi, its hot part is counted as used, 1Gi of it cold"


def test_memory_says_that_cold_page_cache_is_not_available_where_it_is_asked_for() -> None:
    text = MEMORY.replace("POLICY", "usageWithHotPageCache").replace("cold: COLD, ", "").replace("COUNTED", "none")
    (section,) = picture_of(parse(text, "memory"), "n8")
    first, second = ("".join(span.text for span in line) for line in section.lines)
    assert "page cache 4Gi, not counted as used, not known how much of it is cold" in first
    assert "cold memory is not available" in second
