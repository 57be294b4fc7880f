"""What a NodeMetric says of containers: by name, whole, and nothing that cannot be true."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.manager.recommend.history import Amounts
from koord.manager.recommend.pods import PodFacts, pod_facts
from koord.manager.recommend.reports import UsageReport, is_plausible, usage_report
from tests.manager.recommend import builders

MIB = 1 << 20


def report(usage: Any, *, extensions: Any = None, containers: tuple[str, ...] = ("main",)) -> UsageReport:
    pod = pod_facts(msgspec.json.encode(builders.pod("web-1", containers=containers)))
    told = {"name": "web-1", "namespace": "ns", "podUsage": {"resources": usage}, "extensions": extensions or {}}
    other = {"name": "other", "namespace": "ns", "podUsage": {"resources": {"cpu": "1", "memory": "1"}}}
    raw = {"metadata": {"name": "n1"}, "status": {"updateTime": "2026-11-15T04:25:02Z", "podsMetric": [told, other]}}

    def wanted(key: str) -> PodFacts | None:
        return pod if key == "ns/web-1" else None

    return usage_report(convert(NodeMetric, raw), wanted)


def test_a_pod_with_one_container_uses_what_that_does() -> None:
    assert [container_usage[1:] for container_usage in report({"cpu": "250m", "memory": "64Mi"}).usage] == [
        ("main", Amounts(250, 64 * MIB))
    ]


def test_of_several_containers_only_what_is_told_of_each_counts() -> None:
    told = {"containers": {"main": {"cpu": "1", "memory": "1Mi"}, "gone": {"cpu": "1", "memory": "1Mi"}}}
    found = report({"cpu": "2", "memory": "2Mi"}, extensions=told, containers=("main", "proxy"))
    assert [container_usage.container for container_usage in found.usage] == ["main"]


@pytest.mark.parametrize(
    "extensions", [{}, {"containers": []}, {"containers": {"main": 7}}, {"containers": {"main": {"cpu": {}}}}]
)
def test_extensions_of_another_form_say_nothing(extensions: Any) -> None:
    assert report({"cpu": "2", "memory": "2Mi"}, extensions=extensions, containers=("main", "proxy")).usage == ()


@pytest.mark.parametrize("usage", [{}, {"cpu": "1"}, {"cpu": "-1", "memory": "1Mi"}, {"cpu": "lots", "memory": "1Mi"}])
def test_half_a_sample_or_an_impossible_one_is_none(usage: Any) -> None:
    assert report(usage).usage == ()


def test_nobody_uses_more_than_the_node_has() -> None:
    assert is_plausible(Amounts(4000, MIB), 4000, MIB)
    assert not is_plausible(Amounts(4001, 1), 4000, MIB)
    assert not is_plausible(report({"cpu": "9E", "memory": "9E"}).usage[0].used, 4000, MIB)
