"""What quotas cost: the check of a pod, and changes of quotas, with ten thousand of them in five levels."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Final

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import ELASTIC_QUOTAS, NODES, PODS
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol import names
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.scheduler.core.core import Core
from koord.scheduler.framework.ask import Ask
from koord.scheduler.profiles import profiles_of
from koord_bench.harness import cpu_times

WIDTHS: Final = (6, 6, 6, 6, 7)
"""Children at each level: 10,626 quotas."""
QUICK_WIDTHS: Final = (3, 3, 3, 3, 3)


@dataclass(frozen=True, slots=True)
class QuotaCosts:
    quotas: int
    check_us: float
    "Of one pod, whether its quota lets it through."
    change_s: float
    "Changes of quotas in a second, each followed by a check of one of its pods."


def measured(widths: tuple[int, ...] = WIDTHS, pods: int = 5_000, seed: int = 0) -> QuotaCosts:
    core, rng = Core(profiles_of(SHIPPED), alone=True), random.Random(seed)
    allocatable = {"cpu": "10000", "memory": "10000Gi", "pods": "100000"}
    core.put(NODES, convert(Node, {"metadata": {"name": "n"}, "status": {"allocatable": allocatable}}))
    number, level = 0, [""]
    for width in widths:
        level = [f"{parent}-{i}" if parent else f"q{i}" for parent in level for i in range(width)]
        number += len(level)
        for name in level:
            core.put(ELASTIC_QUOTAS, _quota(name, "1"))
    asks = []
    for i in range(pods):
        pod = convert(Pod, _pod(f"p{i}", rng.choice(level)))
        core.put(PODS, pod)
        asks.append(Ask(pod))
    engine = next(iter(core.engines.values()))
    changes = [(_quota(ask.meta.labels[names.LABEL_QUOTA_NAME], "2"), ask) for ask in asks[: pods // 5]]

    def check() -> None:
        for ask in asks:
            engine.refusal(ask)

    def change() -> None:
        for quota, ask in changes:
            core.put(ELASTIC_QUOTAS, quota)
            engine.refusal(ask)

    _, check_s = cpu_times(check, 2)
    (change_s,) = cpu_times(change, 1)
    return QuotaCosts(number, 1e6 * check_s / len(asks), len(changes) / change_s)


def _quota(name: str, least: str) -> ElasticQuota:
    parent = name.rpartition("-")[0]
    labels = {names.LABEL_QUOTA_PARENT: parent} if parent else {}
    spec = {"min": {"cpu": least, "memory": "1Gi"}, "max": {"cpu": "1000", "memory": "1000Gi"}}
    return convert(ElasticQuota, {"metadata": {"name": name, "namespace": "teams", "labels": labels}, "spec": spec})


def _pod(name: str, quota: str) -> dict[str, Any]:
    requests = {"cpu": "1", "memory": "1Gi"}
    return {
        "metadata": {"name": name, "namespace": "lab", "uid": name, "labels": {names.LABEL_QUOTA_NAME: quota}},
        "spec": {"containers": [{"name": "worker", "image": "train:1", "resources": {"requests": requests}}]},
        "status": {"phase": "Pending"},
    }
