"""The smallest change that would let a pod in: each is true, and none is left behind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_requests
from koord.api.kubernetes.storage import PersistentVolume, PersistentVolumeClaim
from koord.api.machinery.codec import convert
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.change import smaller
from koord.scheduler.framework.engine import Engine
from koord.scheduler.profiles import profiles_of
from koord.scheduler.smallest import Hints, Way, ways
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.builders import ask, node, recorded

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def shipped(nodes: list[Node], running: list[tuple[Ask, str]] = []) -> Engine:  # noqa: B006 - never changed
    cluster = Cluster()
    engine = Engine(cluster, next(iter(profiles_of(SHIPPED).profiles.values())))
    for each in nodes:
        cluster.put_node(each)
    for pod, where in running:
        cluster.place(recorded(cluster, pod), cluster.table.row_of[where])
    return engine


def spread(skew: int, key: str = ZONE) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}


def near(kind: str, key: str = HOST) -> dict[str, Any]:
    rule = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}}}


def required(key: str, operator: str, *values: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    }


GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
PORT = [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}]}]
WEB: dict[str, Any] = {"labels": {"app": "web"}}
SHUNNED = "shop/other gone, as its anti-affinity asks"


@pytest.mark.parametrize(
    ("nodes", "running", "wanted", "texts"),
    [
        (
            [node("n1", cpu="4")],
            [],
            ask("p", cpu="6"),
            {"a request of 4 cpu instead of 6", "2 more cpu there"},
        ),
        (
            [node("n1", cpu="4", memory="2Gi")],
            [],
            ask("p", cpu="6", memory="3Gi"),
            {"a request of 4 cpu instead of 6 and 2Gi memory instead of 3Gi", "2 more cpu and 1Gi more memory there"},
        ),
        ([node("n1", pods="1")], [(ask("other"), "n1")], ask("p"), {"room for 1 more pod there"}),
        ([node("n1", cpu="1")], [(ask("other", cpu="1"), "n1")], ask("p", cpu="1"), {"1 more cpu there"}),
        (
            [node("n1", taints=[GPU])],
            [],
            ask("p"),
            {"a toleration for the taint gpu=yes:NoSchedule", "the taint gpu=yes:NoSchedule taken off it"},
        ),
        (
            [node("n1", unschedulable=True)],
            [],
            ask("p"),
            {"the node uncordoned", "a toleration for cordoned nodes (node.kubernetes.io/unschedulable)"},
        ),
        (
            [node("n1")],
            [],
            ask("p", nodeSelector={"disk": "ssd"}),
            {"the label disk=ssd on it", "the selector disk=ssd left out"},
        ),
        (
            [node("n1", labels={"old": "1"})],
            [],
            ask("p", **required("old", "DoesNotExist")),
            {"the label old taken off it", "the required node affinity left out"},
        ),
        (
            [node("n1", labels={"generation": "3"})],
            [],
            ask("p", **required("generation", "Gt", "4")),
            {"the label generation=5 on it", "the required node affinity left out"},
        ),
        (
            [node("n1")],
            [(ask("other", containers=PORT), "n1")],
            ask("p", containers=PORT),
            {"the host port 8080/TCP left out", "shop/other gone, to free port 8080/TCP"},
        ),
        (
            [node("n1", labels={ZONE: "east"}), node("n2", labels={ZONE: "west"}, cpu="0")],
            [(ask(f"web{i}", **WEB), "n1") for i in range(2)],
            ask("p", topologySpreadConstraints=[spread(1)], **WEB),
            {f"a maxSkew of 3 instead of 1 over {ZONE}"},
        ),
        (
            [node("n1", labels={HOST: "n1"})],
            [(ask("other", **WEB), "n1")],
            ask("p", **near("podAntiAffinity")),
            {f"the anti-affinity (app=web over {HOST}) left out", SHUNNED},
        ),
        (
            [node("n1", labels={HOST: "n1"})],
            [(ask("other", **near("podAntiAffinity")), "n1")],
            ask("p", **WEB),
            {"shop/other gone, whose anti-affinity keeps it away"},
        ),
        (
            [node("n1", labels={HOST: "n1"})],
            [],
            ask("p", **near("podAffinity")),
            {f"the affinity (app=web over {HOST}) left out"},
        ),
    ],
)
def test_what_one_rule_takes(nodes: list[Node], running: list[tuple[Ask, str]], wanted: Ask, texts: set[str]) -> None:
    engine = shipped(nodes, running)
    found = ways(engine, wanted)
    assert {way.steps[0].change.text for way in found if way.nodes == ("n1",) and len(way.steps) == 1} == texts


def test_a_claim_that_only_one_pod_may_use() -> None:
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    claim = {
        "metadata": {"name": "c", "namespace": "shop", "annotations": bound},
        "spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": "v", "storageClassName": "s"},
    }
    uses: dict[str, Any] = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
    engine = shipped([node("n1")])
    volume = {"metadata": {"name": "v"}, "spec": {"storageClassName": "s"}}
    engine.cluster.put_storage(convert(PersistentVolume, volume))
    engine.cluster.put_storage(convert(PersistentVolumeClaim, claim))
    engine.cluster.place(recorded(engine.cluster, ask("user", **uses)), engine.cluster.table.row_of["n1"])
    assert [way.steps[0].change.text for way in ways(engine, ask("p", **uses))] == ["shop/user gone, to free the claim"]


def test_a_disk_that_only_one_pod_may_use() -> None:
    uses: dict[str, Any] = {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]}
    engine = shipped([node("n1")], [(ask("user", **uses), "n1")])
    assert [way.steps[0].change.text for way in ways(engine, ask("p", **uses))] == ["shop/user gone, to free the disk"]


def test_several_rules_are_mended_together_and_the_fewest_come_first() -> None:
    engine = shipped([node("n1", taints=[GPU], cpu="1500m"), node("n2", cpu="1")])
    found = ways(engine, ask("p", cpu="2"))
    assert [len(way.steps) for way in found] == sorted(len(way.steps) for way in found)
    assert found[0].nodes == ("n2",)
    assert any(len(way.steps) == 2 and way.nodes == ("n1",) for way in found)


def test_what_asks_for_more_than_another_is_not_told() -> None:
    engine = shipped([node("n1", taints=[GPU], cpu="1"), node("n2", cpu="1")])
    assert {way.nodes for way in ways(engine, ask("p", cpu="2"), most=20)} == {("n2",)}


def test_of_one_kind_two_examples_are_enough() -> None:
    nodes = [node(f"n{i}", labels={HOST: f"n{i}"}) for i in range(6)]
    users = [(ask(f"user{i}", containers=PORT), f"n{i}") for i in range(6)]
    found = ways(shipped(nodes, users), ask("p", containers=PORT), most=20)
    assert sum(1 for way in found if way.steps[0].change.gone) == 2


def test_the_node_with_the_least_lack_is_proposed() -> None:
    engine = shipped([node(f"n{i}", cpu=str(i)) for i in range(1, 40)])
    assert ways(engine, ask("p", cpu="41"))[0].nodes == ("n39",)


def test_nothing_is_proposed_where_nothing_helps() -> None:
    claim: dict[str, Any] = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]}
    engine = shipped([node("n1")])
    assert ways(engine, ask("p", **claim)) == []
    assert ways(shipped([]), ask("p")) == []


def test_hints_stay_the_same_while_the_reasons_do() -> None:
    engine = shipped([node("n1", cpu="4"), node("n2", cpu="2")])
    hints, wanted = Hints(engine), ask("p", cpu="6")
    told = hints.of(wanted, engine.place(wanted))
    assert told == "It would fit on n1 with a request of 4 cpu instead of 6."
    engine.cluster.place(ask("other", cpu="1").record(), engine.cluster.table.row_of["n1"])
    assert hints.of(wanted, engine.place(wanted)) == told
    engine.cluster.put_node(node("n2", cpu="2", taints=[GPU]))
    assert "a request of 3 cpu instead of 6" in hints.of(wanted, engine.place(wanted))


def test_a_hint_names_pods_of_the_readers_namespace_alone_and_none_that_are_gone() -> None:
    """A disk that only one pod may use: first a pod of another namespace does, then one of the same."""
    uses: dict[str, Any] = {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]}
    engine = shipped([node("n1")], [(ask("theirs", namespace="lab", **uses), "n1")])
    hints, wanted = Hints(engine), ask("p", **uses)
    elsewhere = "It would fit on n1 with 1 pod of other namespaces gone, to free the disk."
    assert hints.of(wanted, engine.place(wanted)) == elsewhere
    assert "lab/theirs gone" in Hints(engine, sees_all=True).of(wanted, engine.place(wanted))
    engine.cluster.remove_pod("lab/theirs")
    engine.cluster.place(recorded(engine.cluster, ask("own", **uses)), engine.cluster.table.row_of["n1"])
    assert hints.of(wanted, engine.place(wanted)) == "It would fit on n1 with shop/own gone, to free the disk."
    stranger = ask("q", namespace="lab", **uses)
    assert hints.of(stranger, engine.place(stranger)) == elsewhere


def test_a_pod_that_fits_or_is_refused_gets_no_hint() -> None:
    engine = shipped([node("n1")])
    assert Hints(engine).of(ask("p"), engine.place(ask("p"))) == ""


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Node], list[tuple[Ask, str]], Ask]:
    taints = st.lists(st.sampled_from([GPU, {"key": "old", "effect": "NoExecute"}]), max_size=2, unique_by=str)
    nodes = [
        node(
            f"n{i}",
            cpu=draw(st.sampled_from(["1", "2500m", "4"])),
            memory=draw(st.sampled_from(["1Gi", "4Gi"])),
            pods=draw(st.sampled_from(["1", "10"])),
            labels={HOST: f"n{i}", **draw(st.dictionaries(st.sampled_from([ZONE, "disk"]), st.sampled_from("ab")))},
            taints=draw(taints),
            unschedulable=draw(st.booleans()),
        )
        for i in range(draw(st.integers(1, 5)))
    ]
    running = [
        (_pod(draw, f"r{i}"), f"n{draw(st.integers(0, len(nodes) - 1))}") for i in range(draw(st.integers(0, 5)))
    ]
    return nodes, running, _pod(draw, "wanted")


def _pod(draw: st.DrawFn, name: str) -> Ask:
    spec: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "nodeSelector": st.just({"disk": "a"}),
                "topologySpreadConstraints": st.just([spread(1), spread(1, HOST)]),
                "affinity": st.sampled_from(
                    [near("podAntiAffinity"), near("podAffinity", ZONE), required("disk", "In", "b")]
                ).map(lambda each: each["affinity"]),
            },
        )
    )
    webs: st.SearchStrategy[dict[str, Any]] = st.sampled_from([{}, WEB])
    requests = {"cpu": draw(st.sampled_from(["500m", "2", "5"])), "memory": draw(st.sampled_from(["256Mi", "2Gi"]))}
    ports = draw(st.sampled_from([[], [{"containerPort": 80, "hostPort": 8080}]]))
    containers = [
        {"name": "c", "ports": ports, "resources": {"requests": requests}},
        {"name": "d", "resources": {"requests": {"cpu": "100m"}}},
    ]
    return ask(name, containers=containers, **spec, **draw(webs))


def after(way: Way, nodes: list[Node], running: list[tuple[Ask, str]], wanted: Ask) -> tuple[Engine, Ask]:
    """A new cluster with the changes made, and the pod as it would be."""
    gone: set[str] = set()
    by_name = {node.metadata.name: node for node in nodes}
    for step in way.steps:
        change = step.change
        gone.update(change.gone)
        if change.node is not None:
            by_name[change.node.metadata.name] = change.node
        if change.pod is not None:
            wanted = Ask(change.pod)
    return shipped(list(by_name.values()), [(pod, where) for pod, where in running if pod.key not in gone]), wanted


@given(worlds())
@settings(max_examples=60, deadline=None)
def test_every_proposed_change_lets_the_pod_in(world: tuple[list[Node], list[tuple[Ask, str]], Ask]) -> None:
    nodes, running, wanted = world
    engine = shipped(nodes, running)
    before = engine.place(wanted, explain=True)
    if before.node is not None:
        engine.cluster.remove_pod(wanted.key)
        return
    found = ways(engine, wanted, most=20)
    # Whatever was tried was taken back.
    assert engine.place(wanted, explain=True) == before
    assert shipped(nodes, running).place(wanted, explain=True) == before
    for way in found:
        changed, asked = after(way, nodes, running, wanted)
        feasible = {changed.cluster.table.names[row] for row in changed.class_of(asked).feasible_rows().tolist()}
        assert way.nodes[0] in feasible, way.sentence
        if all(step.change.on == "pod" for step in way.steps):
            assert set(way.nodes) <= feasible, way.sentence


@pytest.mark.parametrize(
    ("spec", "most", "asked"),
    [
        ({"containers": [{"cpu": "3"}, {"cpu": "1"}]}, 2000, 2000),
        ({"containers": [{"cpu": "1"}], "initContainers": [{"cpu": "4"}]}, 2000, 2000),
        ({"containers": [{"cpu": "3"}], "overhead": {"cpu": "500m"}}, 2000, 2000),
        ({"containers": [{"cpu": "3"}], "overhead": {"cpu": "2500m"}}, 2000, None),
        ({"containers": [{"cpu": "1"}], "resources": {"requests": {"cpu": "3"}}}, 2000, 2000),
    ],
)
def test_a_pod_is_cut_to_what_there_is(spec: dict[str, Any], most: int, asked: int | None) -> None:
    for group in ("containers", "initContainers"):
        each = enumerate(spec.get(group, []))
        spec[group] = [{"name": f"{group}{i}".lower(), "resources": {"requests": requests}} for i, requests in each]
    pod = smaller(convert(Pod, {"metadata": {"name": "p"}, "spec": spec}), {"cpu": most})
    assert (None if pod is None else pod_requests(pod)["cpu"]) == asked


INSTANCE = "node.kubernetes.io/instance-type"


@pytest.mark.parametrize(
    ("there", "wanted", "proposed"),
    [
        ({HOST: "n1"}, {HOST: "n9"}, False),
        ({}, {HOST: "n9"}, False),
        ({"kubernetes.io/arch": "amd64"}, {"kubernetes.io/arch": "arm64"}, False),
        ({"kubernetes.io/os": "linux"}, {"kubernetes.io/os": "windows"}, False),
        ({INSTANCE: "small"}, {INSTANCE: "large"}, False),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({}, {ZONE: "b"}, True),
        ({"disk": "hdd"}, {"disk": "ssd"}, True),
        ({"disk": "hdd"}, {"disk": "ssd", HOST: "n9"}, False),
    ],
)
def test_a_label_that_kubelet_owns_is_never_to_be_changed(
    there: dict[str, str], wanted: dict[str, str], proposed: bool
) -> None:
    engine = shipped([node("n1", labels=there)])
    found = ways(engine, ask("web", nodeSelector=wanted))
    assert found, "the pod's owner can do something"
    assert any("the label" in way.sentence for way in found) is proposed


def test_nor_where_pods_are_spread_over_it() -> None:
    engine = shipped([node("n1", labels={})])
    found = ways(engine, ask("web", topologySpreadConstraints=[spread(1, HOST)], **WEB))
    assert [way.sentence for way in found] == [f"It would fit on n1 with the spreading over {HOST} left out."]
