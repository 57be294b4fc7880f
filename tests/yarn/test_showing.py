"""What people see of YARN: `koord explain`, `koord top nodes`, `koord status`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from koord.api.kinds import NODES
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.resources import amounts
from koord.api.machinery.codec import convert
from koord.api.text.manifest import read
from koord.cli.main import run
from koord.cli.top import node_table
from koord.operate.bands import Used, room_of
from koord.operate.facts import Facts, Server, nodes_of
from koord.operate.health import judge
from koord.operate.install.yarn import LOCAL_DIR
from koord.operate.top import for_programs, top_of
from koord.yarn.hadoop.configuration import clusters, node_manager_site
from koord.yarn.hadoop.one_machine import site
from koord.yarn.nodes import node_facts
from koord_bench import yarn as bench
from koord_minicluster.up.picture import Picture
from tests.cli.test_up_view import shown

EXAMPLES = Path(__file__).parents[2] / "examples" / "yarn"


def shared() -> Node:
    (found,) = read([str(EXAMPLES / "node.yaml")]).of(NODES)
    assert isinstance(found, Node)
    return found


def test_explain_shows_the_pool_and_its_two_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "node/n1", "-f", str(EXAMPLES / "node.yaml"), "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)["picture"]["yarn"]
    assert told["nodeManager"] == "n1.example.com:8041"
    parts = [told[each]["cpuMilli"] for each in ("yarn", "kubernetes", "reclaimed")]
    assert parts == [13000, 13700, 26700]
    assert told["yarn"]["memoryBytes"] + told["kubernetes"]["memoryBytes"] <= told["reclaimed"]["memoryBytes"]


def test_top_has_a_column_for_yarn_only_where_yarn_is() -> None:
    with_yarn = top_of([shared()], [])
    table = node_table(with_yarn.nodes, None, False)
    assert table.splitlines()[0].split().count("YARN") == 2
    bare = convert(Node, {"metadata": {"name": "n2"}, "status": {"allocatable": {"cpu": "8", "memory": "16Gi"}}})
    assert "YARN" not in node_table(top_of([bare], []).nodes, None, False)
    told = for_programs(with_yarn)["nodes"]
    assert isinstance(told, dict)
    assert told["n1"]["yarn"]["cpu"] == "13"


def test_the_live_view_says_how_much_is_lent_to_yarn() -> None:
    picture = Picture()
    picture.rooms = {"n1": room_of(shared())}
    picture.used = {"n1": Used({"prod": 1000})}
    picture.look()
    assert "13.7 of 64 cores are lent to batch pods, 13 to YARN" in shown(picture)


def test_status_says_which_nodes_yarn_cannot_use_and_what_to_set() -> None:
    message = "the ResourceManager has no NodeManager n2:8041 running. Start it"
    refused = convert(
        Node,
        {
            "metadata": {"name": "n2"},
            "status": {
                "conditions": [
                    {"type": "Ready", "status": "True"},
                    {"type": "koordinator.sh/YARN", "status": "False", "reason": "X", "message": message},
                ]
            },
        },
    )
    nodes = nodes_of([shared(), refused], None, 0.0)
    assert (nodes.yarn, dict(nodes.yarn_refused)) == (("n1",), {"n2": message})
    status = judge(Facts("1", Server("https://x", True), nodes=nodes))
    (problem,) = [problem for problem in status.problems if "YARN" in problem.what]
    assert "n2" in problem.what
    assert message in problem.how


def test_the_example_is_one_pool_sold_once() -> None:
    node = node_facts(shared())
    assert node.claim.plus(node.allocatable).fits(node.pool)
    assert node.claim.whole == node.claim
    assert amounts(shared().status.allocatable)["kubernetes.io/batch-cpu"] == node.allocatable.cpu_milli


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda each: each.stem)
def test_manifests_are_readable(file: Path) -> None:
    assert all(each["kind"] for each in yaml.safe_load_all(file.read_text()))


def test_the_example_of_hadoops_configuration_is_what_operator_and_copilot_take() -> None:
    data = yaml.safe_load((EXAMPLES / "hadoop-conf.yaml").read_text())["data"]
    (manager,) = clusters(data)[""].managers
    assert (manager.rpc, manager.admin) == ("rm.example.com:8032", "rm.example.com:8033")
    found = node_manager_site(data)
    assert found.web == "127.0.0.1:8042"
    assert all(local_dir.startswith(f"{LOCAL_DIR}/") for local_dir in found.local_dirs)
    assert found.local_dirs


@pytest.mark.parametrize(
    ("properties", "web", "dirs"),
    [
        ({}, "127.0.0.1:8042", ()),
        ({"yarn.nodemanager.webapp.address": "${yarn.nodemanager.hostname}:9042"}, "127.0.0.1:9042", ()),
        ({"hadoop.tmp.dir": "/data"}, "127.0.0.1:8042", ("/data/nm-local-dir",)),
        ({"yarn.nodemanager.local-dirs": "file:///a, /b"}, "127.0.0.1:8042", ("/a", "/b")),
    ],
)
def test_where_a_node_manager_is_follows_from_its_configuration(
    properties: dict[str, str], web: str, dirs: tuple[str, ...]
) -> None:
    found = node_manager_site({"yarn-site.xml": site(properties)})
    assert (found.web, found.local_dirs) == (web, dirs)


def test_a_round_is_quick_and_noise_disturbs_yarn_less_than_once_a_minute() -> None:
    found = {result.metric: result for result in bench.run(quick=True)}
    assert found["calls about a node"].met
    assert found["a round, CPU"].value > 0
    assert found["all change, CPU"].value > 0
