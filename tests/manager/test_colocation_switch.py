"""What the switch writes, where, and what it leaves alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.configuration.slo_config import parse
from koord.api.text.selector import parse_labels
from koord.manager import colocation_switch as switch
from koord.manager.colocation_switch import SwitchError
from koord.manager.node_state import node_facts
from tests.manager import builders
from tests.manager.builders import NOW_S, config, node, pod

STRATEGY = "node.koordinator.sh/colocation-strategy"
PUBLISHED = {"kubernetes.io/batch-cpu": "35900", "kubernetes.io/batch-memory": "100Gi", "kubernetes.io/mid-cpu": "500"}


def section(**values: Any) -> dict[str, str]:
    return {"colocation-config": json.dumps(values)}


def pool(text: str) -> Any:
    return switch.selector_of(parse_labels(text))


def test_a_node_is_switched_by_one_word_of_its_annotation() -> None:
    said = {STRATEGY: '{"cpuReclaimThresholdPercent":50}'}
    off = switch.node_annotation(said, on=False)
    assert off is not None
    assert json.loads(off) == {"cpuReclaimThresholdPercent": 50, "enable": False}
    assert switch.node_annotation({STRATEGY: off}, on=True) == said[STRATEGY]
    assert switch.node_annotation({}, on=False) == '{"enable":false}'
    assert switch.node_annotation({STRATEGY: '{"enable":false}'}, on=True) is None


def test_a_cluster_is_switched_and_what_else_is_said_stays() -> None:
    data = section(enable=True, cpuReclaimThresholdPercent=50, somethingNew={"a": 1}, nodeConfigs=[{"name": "x"}])
    off = json.loads(switch.cluster_section(data, on=False))
    assert off == {**json.loads(data["colocation-config"]), "enable": False}
    assert json.loads(switch.cluster_section({}, on=True)) == {"enable": True}


def test_a_pool_is_switched_by_the_item_for_it() -> None:
    text = switch.pool_section(section(enable=True), pool("pool=batch,zone in (a,b)"), on=False)
    slo_config = parse({"colocation-config": text})
    assert not switch.standing(slo_config, {"pool": "batch", "zone": "a"}, {}).on
    assert switch.standing(slo_config, {"pool": "batch", "zone": "c"}, {}).on
    assert "nodeConfigs[0]" in switch.standing(slo_config, {"pool": "batch", "zone": "b"}, {}).why
    again = {"colocation-config": text}
    assert switch.pool_section(again, pool("zone in (b,a),pool==batch"), on=False) == text
    assert json.loads(switch.pool_section(again, pool("pool=batch,zone in (a,b)"), on=True)) == {
        "enable": True,
        "nodeConfigs": [],
    }


def test_the_settings_of_a_pool_survive_its_switch() -> None:
    item = {"name": "b", "nodeSelector": {"matchLabels": {"pool": "b"}}, "cpuReclaimThresholdPercent": 40}
    data = section(enable=True, nodeConfigs=[item])
    off = switch.pool_section(data, pool("pool=b"), on=False)
    assert json.loads(off)["nodeConfigs"] == [{**item, "enable": False}]
    assert json.loads(switch.pool_section({"colocation-config": off}, pool("pool=b"), on=True))["nodeConfigs"] == [item]


def test_a_pool_whose_nodes_another_item_picks_first_is_refused() -> None:
    first = {"name": "ssd", "nodeSelector": {"matchLabels": {"disk": "ssd"}}}
    text = switch.pool_section(section(enable=True, nodeConfigs=[first]), pool("pool=b"), on=False)
    slo_config = parse({"colocation-config": text})
    switch.require_off(slo_config, [("n1", {"pool": "b"})])
    with pytest.raises(SwitchError, match=r"nodeConfigs\[0\] picks node n2 too"):
        switch.require_off(slo_config, [("n1", {"pool": "b"}), ("n2", {"pool": "b", "disk": "ssd"})])


@pytest.mark.parametrize("text", ["", "size>3"])
def test_a_selector_that_cannot_be_stored_is_refused(text: str) -> None:
    with pytest.raises(SwitchError, match="label selector"):
        pool(text)


@pytest.mark.parametrize("text", ["{", "[]", "1"])
def test_what_cannot_be_read_is_not_overwritten(text: str) -> None:
    with pytest.raises(SwitchError, match="JSON"):
        switch.cluster_section({"colocation-config": text}, on=False)
    with pytest.raises(SwitchError, match="JSON"):
        switch.node_annotation({STRATEGY: text}, on=False)


@pytest.mark.parametrize("how", ["cluster", "node"])
def test_what_is_taken_back_is_what_the_manager_would_take_back(how: str) -> None:
    annotations = {STRATEGY: '{"enable":false}'} if how == "node" else {}
    shown = node(published=PUBLISHED, annotations=annotations)
    slo = config(enable=how != "cluster")
    patch = switch.taken_back(node_facts(shown), slo, NOW_S)
    assert patch is not None
    assert patch["status"]["allocatable"] == dict.fromkeys(PUBLISHED)
    assert patch["status"]["capacity"] == dict.fromkeys(PUBLISHED)
    assert "resourceVersion" not in patch["metadata"], "whatever else changes on the node in the meantime"
    (condition,) = patch["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "koordinator.sh/Lending", "False", "Disabled",
    )  # fmt: skip
    prepared = builders.prepared(builders.state(shown, report=builders.base()), slo)
    assert all(prepared.resources[name] is None for name in PUBLISHED)


def test_a_node_that_lends_or_shows_nothing_is_not_written() -> None:
    assert switch.taken_back(node_facts(node(published=PUBLISHED)), config(), NOW_S) is None
    assert switch.taken_back(node_facts(node()), config(enable=False), NOW_S) is None


def test_who_runs_on_what_is_lent_is_found_the_least_important_first() -> None:
    pods = [
        pod("mid", band="mid"),
        pod("batch", band="batch", qos="BE"),
        pod("asks", qos="LS", band="", batch_cpu="500"),
        pod("elsewhere", band="batch", node="n2"),
        pod("done", band="batch", phase="Succeeded"),
    ]
    assert [evictee.key for evictee in switch.on_lent(pods, {"n1"})] == ["default/asks", "default/batch", "default/mid"]


@pytest.mark.parametrize(
    "service",
    [
        pod("plain-best-effort", band=""),
        pod("best-effort-by-label", band="", qos="BE"),
        pod("service", band="", cpu="1"),
        pod("prod", band="prod", cpu="1"),
        # No resources are lent to the class free.
        pod("free", band="free", qos="BE"),
        pod("asks-for-none", band="", batch_cpu="0"),
    ],
    ids=lambda each: each.metadata.name,
)
def test_a_pod_that_never_asked_for_lent_resources_does_not_run_on_them(service: Any) -> None:
    assert switch.on_lent([service], {"n1"}) == []


@pytest.mark.parametrize(
    ("namespace", "of_cluster"),
    [
        ("kube-system", True),
        ("kube-public", True),
        ("kube-node-lease", True),
        ("koordinator-system", True),
        ("default", False),
    ],
)
def test_pods_of_the_cluster_itself_are_told_apart(namespace: str, of_cluster: bool) -> None:
    (evictee,) = switch.on_lent([pod("job", band="batch", namespace=namespace)], {"n1"})
    assert evictee.is_of_cluster is of_cluster


VALUES = st.dictionaries(
    st.sampled_from(["enable", "cpuReclaimThresholdPercent", "memoryReclaimThresholdPercent", "other"]),
    st.one_of(st.booleans(), st.integers(0, 100)),
)


@given(VALUES)
def test_off_and_on_again_leaves_a_node_as_it_was(said: dict[str, Any]) -> None:
    off = switch.node_annotation({STRATEGY: json.dumps(said)}, on=False)
    assert off is not None
    on = switch.node_annotation({STRATEGY: off}, on=True)
    assert (json.loads(on) if on is not None else {}) == {key: each for key, each in said.items() if key != "enable"}
    assert switch.node_annotation({STRATEGY: off}, on=False) == off
