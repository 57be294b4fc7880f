"""What a configuration would do, before anyone switches it on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from koord.api import kinds
from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.configuration.scheduler_config import parse as parse_scheduler
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.faults import Invalid
from koord.api.text.manifest import Manifests, parse, read
from koord.api.text.timestamp import parse_timestamp
from koord.offline.order import require_order
from koord.offline.plan import plan
from koord.offline.preview import ResourceChange, preview
from koord.scheduler.profiles import profiles_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "colocation" / "offline"
NOW_S = parse_timestamp("2026-11-15T12:01:00Z")
CPU, MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"


def cluster(**sections: Any) -> Manifests:
    """The example's cluster, with this configuration."""
    data = {f"{key}-config": json.dumps(section) for key, section in sections.items()}
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"},
        "data": {key.replace("_", "-"): text for key, text in data.items()},
    }
    there, own = read([EXAMPLE / "cluster.yaml"]), parse(json.dumps(config), "config")
    return there.with_items((*there.items, *own.items)).require_valid()


def test_batch_resources_follow_the_spec_and_pods_are_placed_on_them() -> None:
    found, applied = preview(read([EXAMPLE]), now_s=NOW_S)
    # 32 * 60% - 1 of the system - 5 of web, and 128Gi * 65% - 4 - 44.
    assert found.nodes["n1"].resources[CPU] == ResourceChange(None, "13200")
    after = found.nodes["n1"].resources[MEMORY].after
    assert after is not None
    assert int(after) == pytest.approx(128 * 1024**3 * 0.65 - 48 * 1024**3, abs=1)
    assert found.nodes["n2"].resources[CPU] == ResourceChange(None, "18200")
    planned = plan(applied, profiles_of(SHIPPED), now_s=NOW_S, previewed=found).plan
    assert planned.pods["jobs/nightly"].node == "n2"
    assert planned.nodes["n2"].allocatable[CPU] == "18200"
    assert planned.colocation == found.nodes
    assert planned.evictions == found.evictions
    assert planned.ignored == {}


def test_who_would_be_evicted_is_named_with_the_feature_and_the_reason() -> None:
    found, _ = preview(read([EXAMPLE]), now_s=NOW_S)
    (gone,) = found.evictions
    assert (gone.pod, gone.node, gone.by) == ("jobs/crunch", "n1", "BEMemoryEvict")
    assert gone.why == "the node's memory usage is 75%, at or above 72%"
    strategy = {"clusterStrategy": {"enable": True, "memoryEvictThresholdPercent": 80}}
    assert preview(cluster(colocation={"enable": True}, resource_threshold=strategy), now_s=NOW_S)[0].evictions == ()


@pytest.mark.parametrize("offered", [True, False])
def test_lending_less_than_is_asked_for_evicts_whoever_offers_itself(offered: bool) -> None:
    limits = {
        "enable": True,
        "memoryEvictThresholdPercent": 90,
        "cpuAllocatableEvictThresholdPercent": 100,
        "cpuAllocatableEvictLowerPercent": 90,
        "allocatableEvictPriorityThreshold": 5999,
    }
    # 32 * 20% - 1 - 5 is 400, and 4000 are requested.
    lending = {"enable": True, "cpuReclaimThresholdPercent": 20}
    manifests = cluster(colocation=lending, resource_threshold={"clusterStrategy": limits})
    (crunch,) = [item for item in manifests.items if item.key == "jobs/crunch"]
    assert isinstance(crunch.object, Pod)
    labels = {**crunch.object.metadata.labels, "koordinator.sh/eviction-enabled": str(offered).lower()}
    crunch.object = replace(crunch.object, metadata=replace(crunch.object.metadata, labels=labels))
    found = preview(manifests, now_s=NOW_S)[0]
    assert found.nodes["n1"].resources[CPU].after == "400"
    assert [(gone.pod, gone.by) for gone in found.evictions] == (
        [("jobs/crunch", "CPUAllocatableEvict")] if offered else []
    )


def test_a_change_is_compared_with_what_it_replaces() -> None:
    before = cluster(colocation={"enable": True, "cpuReclaimThresholdPercent": 50})
    after = cluster(colocation={"enable": True, "cpuReclaimThresholdPercent": 60})
    found, _ = preview(after, now_s=NOW_S, replaced=before)
    assert found.nodes["n1"].resources[CPU] == ResourceChange("10k", "13200")
    same = preview(after, now_s=NOW_S, replaced=after)[0].nodes["n1"].resources
    assert all(resource_change.before == resource_change.after for resource_change in same.values())


def test_switched_off_nothing_is_lent_and_the_reason_is_said() -> None:
    before = cluster(colocation={"enable": True})
    found, applied = preview(cluster(colocation={"enable": False}), now_s=NOW_S, replaced=before)
    assert found.nodes["n1"].resources[CPU].after is None
    assert "off in the cluster" in found.nodes["n1"].why
    planned = plan(applied, profiles_of(SHIPPED), now_s=NOW_S, previewed=found).plan
    assert planned.pods["jobs/nightly"].outcome == "unschedulable"
    pool = {"nodeSelector": {"matchLabels": {"pool": "batch"}}, "enable": False}
    found, _ = preview(cluster(colocation={"enable": True, "nodeConfigs": [pool]}), now_s=NOW_S)
    assert found.nodes["n1"].why == ""
    assert "nodeConfigs[0]" in found.nodes["n2"].why


def test_stale_reports_lend_nothing_and_a_node_that_never_reported_is_left_as_it_is() -> None:
    found, _ = preview(read([EXAMPLE]), now_s=NOW_S + 3600)
    assert found.nodes["n1"].resources == {}
    assert "stale" in found.nodes["n1"].why
    manifests = read([EXAMPLE])
    quiet = manifests.with_items(item for item in manifests.items if item.kind is not kinds.NODE_METRICS)
    _, applied = preview(quiet, now_s=NOW_S)
    assert applied.of(kinds.NODES) == quiet.of(kinds.NODES)


def test_nodes_that_hold_batch_pods_back_by_the_new_settings_are_closed_in_the_plan() -> None:
    strategy = {"clusterStrategy": {"enable": True, "cpuSuppressThresholdPercent": 2}}
    # Lending more than there is, is no limit on usage: otherwise no more than 1% would be lent here.
    lending = {"enable": True, "cpuReclaimThresholdPercent": 101}
    found, applied = preview(cluster(colocation=lending, resource_threshold=strategy), now_s=NOW_S)
    planned = plan(applied, profiles_of(SHIPPED), now_s=NOW_S, previewed=found).plan
    assert planned.pods["jobs/nightly"].nodes_rejected == {
        "NodeResourcesFit: insufficient kubernetes.io/batch-memory": 1,
        "NodeClosing: node(s) hold batch pods back for too much cpu usage": 1,
    }


def test_thresholds_out_of_order_are_refused_and_both_are_named() -> None:
    look = {"filter": {"enabled": [{"name": "LoadAwareScheduling"}]}}
    args = {"name": "LoadAwareScheduling", "args": {"usageThresholds": {"cpu": 80}}}
    scheduler = parse_scheduler({"profiles": [{"plugins": look, "pluginConfig": [args]}]})
    manifests = cluster(resource_threshold={"clusterStrategy": {"enable": True, "cpuSuppressThresholdPercent": 70}})
    with pytest.raises(Invalid) as refused:
        require_order(manifests, scheduler)
    assert "usageThresholds.cpu" in str(refused.value)
    assert "resource-threshold-config.clusterStrategy.cpuSuppressThresholdPercent (70)" in str(refused.value)
    assert require_order(manifests, SHIPPED) == ()


def test_what_is_out_of_order_in_the_cluster_already_is_told_and_keeps_nobody_from_planning() -> None:
    bad = {"clusterStrategy": {"enable": True, "cpuSuppressThresholdPercent": 80, "cpuEvictThresholdPercent": 70,
                               "evictEnabledPriorityThreshold": 5999}}  # fmt: skip
    there = cluster(resource_threshold=bad)
    with pytest.raises(Invalid):
        require_order(there, SHIPPED)
    (told,) = require_order(there, SHIPPED, before=there)
    assert told.startswith("already in the cluster: resource-threshold-config.clusterStrategy.cpuSuppress")
    with pytest.raises(Invalid):
        require_order(there, SHIPPED, before=cluster())
