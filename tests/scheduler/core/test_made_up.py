"""Names that users make up, and things that come and go for months, leave nothing behind in the scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.configuration.scheduler_config import parse
from koord.api.kinds import DEVICES, ELASTIC_QUOTAS
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.device import Device
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.scheduler.core.decision import Bind
from koord.scheduler.plugins.devices.ledger import Devices
from koord.scheduler.plugins.quota import quotas as quotas_module
from koord.scheduler.plugins.quota.quotas import Quotas
from koord.scheduler.state import cluster as cluster_module
from tests.scheduler.core.build import Fed, changed, node, pod

FEW = 8


def asking(name: str, i: int) -> Pod:
    """A pod that asks for what only pods like it know."""
    made_up: dict[str, dict[str, Any]] = {
        "resource": {"containers": [{"name": "c", "resources": {"requests": {f"example.com/r{i}": "1"}}}]},
        "label": {"nodeSelector": {f"example.com/l{i}": "x"}},
        "domain": {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": f"example.com/l{i}", "whenUnsatisfiable": "DoNotSchedule"}
            ]
        },
    }
    return pod(f"{name}-{i}", **made_up[name])


def offering(name: str, i: int) -> Node:
    if name == "resource":
        has = {"cpu": "4", "memory": "64Gi", "pods": "110", f"example.com/r{i}": "1"}
        return convert(Node, {"metadata": {"name": "late", "resourceVersion": "1"}, "status": {"allocatable": has}})
    return node("late", labels={f"example.com/l{i}": "x"})


@pytest.mark.parametrize("what", ["resource", "label", "domain"])
def test_columns_for_names_that_somebody_makes_up_are_few_and_a_node_that_has_one_is_found(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "IDLE_KEPT", FEW)
    fed = Fed()
    fed.put(node("n1"), node("n2"))
    columns = fed.feed.cluster.table.columns
    before, most = len(columns), 0
    for i in range(60):
        fed.put(asking(what, i))
        fed.nowhere()
        most = max(most, len(columns))
        if i not in (7, 41):
            fed.delete(asking(what, i))
    assert most <= before + FEW + 4
    fed.put(offering(what, 7))
    decisions = [fed.step(), fed.step()]
    assert [(decision.ask.key, decision.node) for decision in decisions if isinstance(decision, Bind)] == [
        (f"shop/{what}-7", "late")
    ]


def test_forgetting_what_nobody_has_changes_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    def placed(few: int) -> list[tuple[str, str]]:
        monkeypatch.setattr(cluster_module, "IDLE_KEPT", few)
        fed, found = Fed(), list[tuple[str, str]]()
        fed.put(*[node(f"n{i}", labels={"zone": f"z{i % 3}", "kubernetes.io/hostname": f"n{i}"}) for i in range(7)])
        spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
        for i in range(40):
            fed.put(
                asking("resource", i), asking("label", i), pod(f"p{i}", cpu="500m", topologySpreadConstraints=spread)
            )
            if i % 9 == 4:
                fed.put(node(f"more{i}", cpu="2", labels={"zone": "z1", f"example.com/l{i}": "x"}))
            if i % 9 == 8:
                fed.delete(node(f"more{i - 4}"))
            for _ in range(4):
                decision = fed.step()
                if isinstance(decision, Bind):
                    found.append((decision.ask.key, decision.node))
                    fed.core.bound(decision, decision.ask)
                    fed.put(changed(decision.ask.pod, node_name=decision.node))
        return found

    assert placed(0) == placed(1 << 20)


def test_quotas_and_namespaces_that_come_and_go_are_forgotten_and_those_that_stay_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quotas_module, "EMPTY_KEPT", FEW)
    enabled = [{"name": "ElasticQuota"}]
    fed = Fed(
        parse({"profiles": [{"schedulerName": "koord-scheduler", "plugins": {"multiPoint": {"enabled": enabled}}}]})
    )
    fed.put(node("n1", cpu="64"))
    team = convert(
        ElasticQuota,
        {"metadata": {"name": "team", "namespace": "shop"}, "spec": {"max": {"cpu": "10"}, "min": {"cpu": "1"}}},
    )
    fed.core.put(ELASTIC_QUOTAS, team)
    quotas = fed.feed.cluster.notes(Quotas)
    label = {"quota.scheduling.koordinator.sh/name": "team"}
    # It asks for nothing, and so is in no sum.
    fed.put(pod("idle", containers=[{"name": "c"}], metadata={"labels": label}))
    stays = pod("stays", cpu="2", on="n1", metadata={"labels": label})
    fed.put(stays)
    for i in range(60):
        passing = pod(
            f"p{i}", on="n1", metadata={"namespace": f"ns{i}", "labels": {**label, next(iter(label)): f"q{i}"}}
        )
        fed.put(passing)
        fed.delete(passing)
        assert len(quotas._buckets) <= 2 * 3 + FEW + 1
    quota = quotas.bucket(label, "shop").quota
    assert quota is not None
    assert (quota.name, quotas.used(quota)) == ("team", {"cpu": 2000})
    assert [key for key, _ in quotas.waiting_in(quota)] == ["shop/idle"]
    fed.delete(stays)
    assert not any(quotas.used(quota).values())


@pytest.mark.parametrize("first", ["Node", "Device"])
def test_devices_of_nodes_that_are_gone_are_forgotten(first: str) -> None:
    enabled = [{"name": "DeviceShare"}]
    fed = Fed(
        parse({"profiles": [{"schedulerName": "koord-scheduler", "plugins": {"multiPoint": {"enabled": enabled}}}]})
    )
    devices = fed.feed.cluster.notes(Devices)
    gpu = {"type": "gpu", "id": "GPU-1", "minor": 0, "health": True, "resources": {"koordinator.sh/gpu-core": "100"}}
    device = convert(Device, {"metadata": {"name": "n1"}, "spec": {"devices": [gpu]}})
    for _ in range(2):
        fed.put(node("n1"))
        fed.core.put(DEVICES, device)
        assert list(devices.machines) == ["n1"]
        if first == "Node":
            fed.delete(node("n1"))
            fed.core.removed(DEVICES, device)
        else:
            fed.core.removed(DEVICES, device)
            assert list(devices.machines) == ["n1"], "what pods have there stays known"
            fed.delete(node("n1"))
        assert not devices.machines
