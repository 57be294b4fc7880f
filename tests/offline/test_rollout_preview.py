"""What a feature would do: the manager's and the agents' decisions, asked with a cluster's reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from koord.api import kinds
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.text.manifest import Manifest, read
from koord.api.text.selector import parse_labels
from koord.api.text.timestamp import parse_timestamp
from koord.cli.colocation_preview import _tables
from koord.manager.rollout.features import FEATURES, feature_of
from koord.offline.preview import preview
from koord.offline.rollout_preview import FeaturePreview, feature_preview

CLUSTER = Path(__file__).parents[2] / "examples" / "colocation" / "offline"
NOW_S = parse_timestamp("2026-11-15T12:01:00Z")


def found(*files: str) -> list[Manifest]:
    return list(read([CLUSTER / file for file in files]).items)


def previewed(name: str, *files: str, pool: str = "", percent: int = 100) -> FeaturePreview:
    matcher = parse_labels(pool) if pool else None
    return feature_preview(found(*(files or ("cluster.yaml",))), feature_of(name), matcher, percent, NOW_S)


def test_lending_says_what_each_node_would_lend() -> None:
    told = previewed("lending")
    # 60% of 32 CPUs, less 5 of the service and 1 of the system; and less 1 of the system.
    assert {name: node.batch_cpu_milli for name, node in told.nodes.items()} == {"n1": 13200, "n2": 18200}
    assert told.batch_cpu_milli == 13200 + 18200
    assert (told.nodes["n1"].services, told.nodes["n1"].batch_pods) == (1, 1)
    assert told.already == ()


def test_a_pool_or_a_share_is_all_that_is_looked_at() -> None:
    assert set(previewed("lending", pool="pool=batch").nodes) == {"n2"}
    assert len(previewed("lending", percent=50).nodes) == 1


def test_suppress_says_what_is_held_back_and_who_is_evicted() -> None:
    told = previewed("suppress")
    assert {eviction.pod for eviction in told.evictions} == {"jobs/crunch"}
    assert {name: node.held_back_milli for name, node in told.nodes.items()} == {"n1": 0, "n2": 0}


def test_batch_pods_that_use_more_than_their_budget_would_be_held_back() -> None:
    items = found("cluster.yaml")
    hot = [_with_usage(item) if item.kind is kinds.NODE_METRICS else item for item in items]
    told = feature_preview(hot, feature_of("suppress"), None, 100, NOW_S)
    # 65% of 32 CPUs are 20.8; the service uses 20 and others nothing, so that of the 8 that the job uses 0.8 are left.
    assert told.nodes["n1"].held_back_milli == 7200


def _with_usage(item: Manifest) -> Manifest:
    if item.key != "n1":
        return item
    pods = [
        {"namespace": "shop", "name": "web", "podUsage": {"resources": {"cpu": "20", "memory": "1Gi"}}},
        {"namespace": "jobs", "name": "crunch", "podUsage": {"resources": {"cpu": "8", "memory": "1Gi"}}},
    ]
    usage = {"resources": {"cpu": "28", "memory": "2Gi"}}
    status = {"updateTime": "2026-11-15T12:00:50Z", "nodeMetric": {"nodeUsage": usage}, "podsMetric": pods}
    return replace(item, object=convert(NodeMetric, {"metadata": {"name": "n1"}, "status": status}))


def test_a_node_that_has_a_feature_already_is_not_counted_again() -> None:
    both = ("cluster.yaml", "slo-controller-config.yaml")
    assert previewed("lending", *both).already == ("n1", "n2")
    assert previewed("lending", *both).nodes == {}


def test_every_feature_can_be_previewed_and_tells_only_figures_that_it_has() -> None:
    for feature in FEATURES:
        told = previewed(feature.name)
        assert told.about == feature.about
        assert bool(told.batch_cpu_milli) is (feature.name == "lending")
        assert bool(told.evictions) is (feature.name == "suppress")
        assert ("WOULD LEND" in _tables(told), "HELD BACK" in _tables(told)) == (
            feature.changes_lending,
            feature.name == "suppress",
        )
        assert (" lent" in _tables(told).rpartition("in all")[2]) is feature.changes_lending


def test_what_happens_without_the_feature_is_not_told_as_its_doing() -> None:
    both = ("cluster.yaml", "slo-controller-config.yaml")
    anyway, _ = preview(read([CLUSTER / each for each in both]), now_s=NOW_S)
    assert {eviction.pod for eviction in anyway.evictions} == {"jobs/crunch"}
    for name in ("cpu-burst", "memory-qos"):
        told = previewed(name, *both)
        assert set(told.nodes) == {"n1", "n2"}
        assert told.evictions == ()
