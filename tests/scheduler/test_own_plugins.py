"""Plugins of users: the example works, with all that a plugin is asked for, and what cannot be loaded says why."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import NODES, PODS
from koord.cli.main import run
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind
from koord.scheduler.framework.engine import Engine
from koord.scheduler.live.run import SchedulerOptions
from koord.scheduler.own_plugins import PluginError, load
from koord.scheduler.profiles import profiles_of
from koord.scheduler.smallest import ways
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.builders import ask, node
from tests.scheduler.live.embedded import node_manifest, pod_manifest, scheduling, serving, until_bound

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = f"{EXAMPLES / 'plugins' / 'maintenance.py'}:Maintenance"
LICENCES = f"{EXAMPLES / 'plugins' / 'licences.py'}:Licences"
SEATS, NUMBERS = "example.com/seats", "example.com/seat-numbers"
SOON = {"example.com/maintenance": "soon"}


def engine(text: str = EXAMPLE, nodes: int = 1) -> Engine:
    cluster = Cluster()
    found = Engine(cluster, next(iter(profiles_of(SHIPPED, [load(text)]).profiles.values())))
    for i in range(nodes):
        cluster.put_node(node(f"n{i}"))
    return found


def test_the_example_turns_away_scores_and_mends() -> None:
    found = engine()
    found.cluster.put_node(node("n0", labels=SOON))
    placement = found.place(ask("p"))
    assert placement.why_not == {"Maintenance": {"node(s) go down soon": 1}}
    assert [way.steps[0].change.text for way in ways(found, ask("p"))] == [
        "the label example.com/maintenance taken off it"
    ]
    assert found.place(ask("q", labels={"example.com/short": "true"})).node == "n0"
    found.cluster.put_node(node("n0"))
    assert found.place(ask("p")).node == "n0"


def test_the_example_prefers_nodes_with_fewer_pods_as_its_weight_says() -> None:
    found = engine(f"{EXAMPLE}=100", nodes=2)
    for i in range(3):
        found.cluster.place(ask(f"tiny{i}", cpu="0", memory="0").record(), found.cluster.table.row_of["n0"])
    found.cluster.place(ask("large", cpu="7", memory="30Gi").record(), found.cluster.table.row_of["n1"])
    placement = found.place(ask("p", cpu="100m", memory="1Mi"), explain=True)
    assert (placement.node, placement.scores["Maintenance"]) == ("n1", 99)
    assert engine(f"{EXAMPLE}=0", nodes=1).profile.weights["Maintenance"] == 0


def test_every_judge_answers_alike_for_one_row_and_for_many() -> None:
    found = engine(nodes=30)
    for i in range(0, 30, 3):
        found.cluster.put_node(node(f"n{i}", labels=SOON))
    class_ = found.class_of(ask("p"))
    together = {found.cluster.table.names[row] for row in class_.feasible_rows().tolist()}
    one_by_one = {name for name, row in found.cluster.table.row_of.items() if class_.reasons(row) is None}
    assert together == one_by_one == {f"n{i}" for i in range(30) if i % 3}


def test_seats_are_given_out_once_explained_and_given_back() -> None:
    found = engine(LICENCES)
    found.cluster.put_node(node("n0", labels={SEATS: "3"}))
    pods = [ask(f"p{i}", labels={SEATS: "2"}) for i in range(2)]
    assert found.place(pods[0]).node == "n0"
    placement = found.place(pods[1])
    assert placement.why_not == {"Licences": {"Insufficient licence seats": 1}}
    assert [way.steps[0].change.text for way in ways(found, pods[1])] == ["the label example.com/seats=4 on it"]
    single = ask("single", labels={SEATS: "1"})
    found.place(single)
    patch = found.plan(single, found.cluster.table.row_of["n0"]).patch
    assert patch is not None
    assert patch.body["metadata"]["annotations"] == {NUMBERS: "2"}
    found.cluster.remove_pod(pods[0].key)
    assert found.place(pods[1]).node == "n0"


def test_a_node_that_flaps_while_a_pod_is_bound_gives_no_seat_out_twice() -> None:
    core = Core(profiles_of(SHIPPED, [load(LICENCES)]), alone=True)
    with_seats = node("n0", labels={SEATS: "2"})
    core.put(NODES, with_seats)
    core.put(PODS, ask("a", labels={SEATS: "1"}).pod)
    first = core.decide()
    core.removed(NODES, with_seats)
    core.put(NODES, with_seats)
    core.put(PODS, ask("b", labels={SEATS: "1"}).pod)
    second = core.decide()
    assert isinstance(first, Bind)
    assert isinstance(second, Bind)
    patches = [bind.members[0].plan.patch for bind in (first, second)]
    assert [patch and patch.body["metadata"]["annotations"][NUMBERS] for patch in patches] == ["0", "1"]


def test_seats_are_the_same_in_a_plan_and_on_a_cluster_also_after_a_restart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifests = [
        {"apiVersion": "v1", "kind": "Node", **node_manifest("n0", labels={SEATS: "3"})},
        *(
            {"apiVersion": "v1", "kind": "Pod", **pod_manifest(name, labels={SEATS: "1"})}
            for name in ("a", "b", "c", "d")
        ),
    ]
    path = tmp_path / "all.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))
    run(["plan", "-f", str(path), "--plugin", LICENCES, "-o", "json"])
    pods = json.loads(capsys.readouterr().out)["pods"]
    planned = {key.split("/")[1]: pod["annotations"].get(NUMBERS, "") for key, pod in pods.items()}
    assert sorted(planned.values()) == ["", "0", "1", "2"]

    async def live() -> dict[str, str]:
        options = SchedulerOptions(alone=True, plugins=(load(LICENCES),))
        async with serving(tmp_path / "data") as client:
            await client.create(NODES, manifests[0])
            async with scheduling(client, options=options):
                for manifest in manifests[1:3]:
                    await client.create(PODS, manifest)
                    await until_bound(client, manifest["metadata"]["name"])
            # Another scheduler, which knows only what pods say.
            async with scheduling(client, options=options):
                for manifest in manifests[3:]:
                    await client.create(PODS, manifest)
                await until_bound(client, "c")
            pods = await client.list(PODS, namespace="default")
        return {pod.metadata.name: pod.metadata.annotations.get(NUMBERS, "") for pod in pods}

    assert asyncio.run(live()) == planned


def test_plan_takes_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "-f", str(EXAMPLES / "plan"), "--plugin", EXAMPLE, "-o", "json"]) == 0
    pods = json.loads(capsys.readouterr().out)["pods"]
    assert pods["shop/web"]["scores"]["Maintenance"] == 100


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "module:Class"),
        (":Class", "module:Class"),
        ("no.such.module:Class", "cannot be loaded"),
        ("none.py:Class", "cannot be loaded"),
        (f"{EXAMPLE}x", "has no Plugin"),
        ("koord.scheduler.framework.ask:Ask", "has no Plugin"),
        ("koord.scheduler.framework.plugin:Plugin", "must have a name"),
        ("koord.scheduler.plugins.node_name:NodeName", "another name"),
        (f"{EXAMPLE}=much", "weight"),
        (f"{EXAMPLE}=-1", "weight"),
    ],
)
def test_what_cannot_be_loaded_says_why(text: str, words: str) -> None:
    with pytest.raises(PluginError, match=words):
        load(text)
