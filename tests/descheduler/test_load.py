"""What pods of a node use together, however agents or others write it."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.text.timestamp import from_seconds
from koord.descheduler.load import _is_fresh, _sum_of, _total

PLAIN: dict[str, Any] = {"cpu": "1250m", "memory": "1000"}


@pytest.mark.parametrize(
    "odd",
    [
        {"cpu": "2", "memory": "1000"},
        {"cpu": "1m", "memory": "1Ki"},
        {"cpu": "0", "memory": "0"},
        {"cpu": "1m"},
        {"memory": "5"},
        {"cpu": "1m", "koordinator.sh/gpu-core": "50"},
        {"cpu": "1m", "memory": "5", "koordinator.sh/gpu-core": "50"},
        {"cpu": "1m", "memory": "123456789012345678901234"},
        {"cpu": "1500u", "memory": "1e3"},
        {},
    ],
)
def test_odd_ways_to_write_an_amount_add_up_as_the_usual_ones(odd: dict[str, Any]) -> None:
    lists = [PLAIN, odd, PLAIN]
    assert _total(lists) == _sum_of(lists)
    assert _total([PLAIN, PLAIN]) == {"cpu": 2500, "memory": 2000}


@pytest.mark.parametrize(
    ("ahead_s", "fresh"), [(-200, False), (-100, True), (0, True), (100, True), (200, False), (240e9, False)]
)
def test_a_report_counts_as_far_ahead_as_it_may_be_old(ahead_s: float, fresh: bool) -> None:
    now_s = 1_700_000_000.0
    metric = convert(NodeMetric, {"status": {"updateTime": from_seconds(now_s + ahead_s)}})
    assert _is_fresh(metric, now_s, 180.0) is fresh
