"""The same devices as kube-scheduler's allocator chooses: its recorded answers to random claims on one node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from koord.api.kubernetes.dynamic_resources import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from koord.api.machinery.codec import convert
from koord.scheduler.plugins.dynamic_resources.quantities import exact
from tests.scheduler.plugins.dynamic_resources.build import allocated, holding

RECORDED = Path(__file__).parent / "data" / "kube_scheduler.jsonl"
CASES = [json.loads(line) for line in RECORDED.read_text().splitlines()]


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_both_choose_the_same_devices(case: dict[str, Any]) -> None:
    classes = {data["metadata"]["name"]: convert(DeviceClass, data) for data in case["classes"]}
    held = {f"held-{i}": convert(AllocationResult, data) for i, data in enumerate(case["allocated"])}
    result = allocated(
        [convert(ResourceClaim, data) for data in case["claims"]],
        [convert(ResourceSlice, data) for data in case["slices"]],
        usage=holding(**held),
        classes=classes,
        zone=case["node"]["metadata"]["labels"]["zone"],
    )
    chosen = [] if isinstance(result, str) else [told(one) for one in result]
    answer = [
        [[*names, {key: exact(text) for key, text in took.items()}] for *names, took in one] for one in case["answer"]
    ]
    assert chosen == answer


def told(allocation: AllocationResult) -> list[list[object]]:
    return [
        [
            one.request,
            one.driver,
            one.pool,
            one.device,
            {key: exact(text) for key, text in one.consumed_capacity.items()},
        ]
        for one in allocation.devices.results
    ]
