"""What does it cost to know what nodes lend, how often is that written, and how fast do batch pods get their nodes?

A full recalculation is timed in CPU, from rows as informers keep them to the decision whether to write. Noise is played
in virtual time: reports jitter, or the measurements that they are means of, and writes are counted. End to end,
everything that `koord up` runs takes part: plain pods are made batch pods by the webhooks, checked, placed and bound.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from koord.api.configuration.slo_config import SloConfig
from koord.api.configuration.slo_config_types import ColocationConfig
from koord.api.kinds import CLUSTER_COLOCATION_PROFILES, NAMESPACES, NODES, PODS
from koord.api.protocol.names import RESOURCE_BATCH_CPU
from koord.api.protocol.priority import PriorityClass, QoSClass
from koord.kube.client import Client
from koord.kube.locate import locate
from koord.kube.program import own_program
from koord.manager.node_resource.plugins import calculate, choose
from koord.manager.node_resource.prepare import prepare
from koord.manager.node_resource.writing import decide
from koord.manager.node_state import NOTHING, Amounts, MetricRow, NodeFacts, NodeState, PodRow, PodUsage
from koord.manager.plugin import Plugin
from koord_bench.api_load import Target, encode
from koord_bench.bursts import watching
from koord_bench.children import cpu_s, running, wait_until
from koord_bench.harness import Progress, Report, Result, Size, cpu_times, silent

BENCH: Final = "manager"
PODS_A_NODE: Final = 30
NOISE: Final = 0.05
REPORT_S: Final = 60.0
MEASURE_S: Final = 1.0
AVERAGED: Final = int(300 / MEASURE_S)
"""Measurements in a report: metricAggregateDurationSeconds is 300."""
LENDABLE: Final = 0.6
"""The default of cpuReclaimThresholdPercent."""
BUSY: Final = (0.5, 0.9)
WINDOW_S: Final = 300.0
NAMESPACE: Final = "jobs"
CLIENTS: Final = 16
WITHIN_S: Final = 300.0
_START_S: Final = 1_000_000.0
_COMPONENTS: Final = ("apiserver", "manager", "scheduler", "controllers", "hollow")

FULL: Final = Size(nodes=5000, noisy_nodes=100, hours=4, up_nodes=200, pods=3000)
QUICK: Final = Size(nodes=200, noisy_nodes=5, hours=1, up_nodes=10, pods=60)


def run(quick: bool = False, progress: Progress = silent) -> list[Result]:
    report, size = Report(BENCH, quick, progress), QUICK if quick else FULL
    _recalculation(report, size)
    _noise(report, size)
    asyncio.run(_end_to_end(report, size))
    return report.rows


def _recalculation(report: Report, size: Size) -> None:
    report.progress(f"recalculating {size.nodes} nodes of {PODS_A_NODE} pods")
    once_s = calculated_s(size.nodes)
    report.progress(f"recalculating {2 * size.nodes} nodes")
    twice_s = calculated_s(2 * size.nodes)
    case = report.case(f"{size.nodes} nodes, {PODS_A_NODE} pods each")
    case.add("CPU of a full recalculation", once_s, "s", goal=2.0)
    case.add("the same for twice the nodes", twice_s / once_s, "times", goal=2.5)


def calculated_s(nodes: int, pods_a_node: int = PODS_A_NODE) -> float:
    """CPU of a full recalculation. The best of three: other load on the machine only ever adds."""
    config, plugins = SloConfig(colocation=ColocationConfig(enable=True)), choose()
    states = [_state(f"n{i}", random.Random(i), pods_a_node) for i in range(nodes)]
    gc.collect()
    gc.freeze()
    try:
        return min(cpu_times(lambda: [_decided(state, config, plugins, None, _START_S) for state in states], 3))
    finally:
        gc.unfreeze()


def _decided(
    state: NodeState, config: SloConfig, plugins: Sequence[Plugin], written_s: float | None, now_s: float
) -> tuple[bool, NodeFacts]:
    """Whether the node's status is written, and the node after that."""
    node = state.node
    settings = config.for_node(node.labels, node.annotations)
    prepared = prepare(node, calculate(state, config, settings, plugins, now_s))
    decision = decide(node, prepared, settings.colocation, written_s, now_s)
    if decision.patch is None:
        return False, node
    lent = {name: amount for name, amount in prepared.resources.items() if amount is not None}
    lending = ("", "") if prepared.lending is None else (prepared.lending.status, prepared.lending.reason)
    annotations = {key: text for key, text in prepared.annotations.items() if text is not None}
    return True, replace(node, allocatable=lent, lent_capacity=lent, lending=lending, annotations=annotations)


def _state(name: str, dice: random.Random, number: int = PODS_A_NODE) -> NodeState:
    """A node of 64 cores, whose services use about half of what they ask for, with batch pods beside them."""
    pods, usage = [], {}
    for i in range(number):
        key, is_service = f"default/{name}-{i}", i < number * 2 // 3
        band = PriorityClass.PROD if is_service else PriorityClass.BATCH
        qos = QoSClass.LS if is_service else QoSClass.BE
        milli, memory = dice.randint(500, 2500), dice.randint(1, 6) << 30
        pods.append(PodRow(key, key, "1", name, band, qos, True, is_service, is_service, milli, memory))
        usage[key] = PodUsage(milli // 2, memory // 2, band)
    has = Amounts(64_000, 256 << 30)
    node = NodeFacts(name, name, "1", {}, {}, has, NOTHING, NOTHING, {}, {})
    return NodeState(node, pods, _report(name, usage, Amounts(1500, 4 << 30), _START_S))


def _report(name: str, usage: dict[str, PodUsage], system: Amounts, now_s: float) -> MetricRow:
    used = Amounts(
        system.cpu_milli + sum(pod.cpu_milli for pod in usage.values()),
        system.memory_bytes + sum(pod.memory_bytes for pod in usage.values()),
    )
    return MetricRow(name, name, "1", now_s, used, system, usage, (), None)


def _noise(report: Report, size: Size) -> None:
    """Noise of reports, and of measurements, whose means agents report."""
    for of, averaged in (("reports", 1), ("measurements", AVERAGED)):
        for share in BUSY:
            name = f"{of} {NOISE:.0%} up and down, services use {share:.0%} of what may be lent"
            report.progress(f"{size.hours} hours on {size.noisy_nodes} nodes: {name}")
            writes = [
                _writes_s(f"n{i}", random.Random(i), size.hours * 3600.0, share, averaged)
                for i in range(size.noisy_nodes)
            ]
            most = max(sum(at_s <= other_s < at_s + WINDOW_S for other_s in one) for one in writes for at_s in one)
            per_hour = sum(map(len, writes)) / size.noisy_nodes / size.hours
            case, metric = report.case(name), f"most Node patches of a node in {WINDOW_S:.0f} s"
            case.add(metric, most, "patches", goal=1, at_any_size=True)
            case.add("Node patches", per_hour, "per node and hour")


def _writes_s(name: str, dice: random.Random, for_s: float, share: float, averaged: int) -> list[float]:
    """When a node's status was written, in virtual time. All its pods go up and down together, which is the worst.

    A report is the mean of the last `averaged` measurements.
    """
    config, plugins = SloConfig(colocation=ColocationConfig(enable=True)), choose()
    state = _state(name, dice)
    node, metric, writes, now_s = state.node, state.metric, list[float](), _START_S
    assert metric is not None
    services = sum(pod.cpu_milli for pod in metric.pods.values() if pod.priority == PriorityClass.PROD)
    level = share * LENDABLE * node.capacity.cpu_milli / services
    measured = deque((_factor(dice) for _ in range(averaged)), maxlen=averaged)
    while now_s < _START_S + for_s:
        now_s += REPORT_S
        measured.extend(_factor(dice) for _ in range(min(averaged, int(REPORT_S / MEASURE_S))))
        factor = level * sum(measured) / len(measured)
        usage = {key: _times(pod, factor) for key, pod in metric.pods.items()}
        reported = NodeState(node, state.pods, _report(name, usage, metric.system, now_s))
        is_written, node = _decided(reported, config, plugins, writes[-1] if writes else None, now_s)
        if is_written:
            writes.append(now_s)
    return writes


def _factor(dice: random.Random) -> float:
    return dice.uniform(1 - NOISE, 1 + NOISE)


def _times(usage: PodUsage, factor: float) -> PodUsage:
    return PodUsage(int(usage.cpu_milli * factor), int(usage.memory_bytes * factor), usage.priority)


@contextmanager
def _up(nodes: int) -> Iterator[tuple[Path, dict[str, int]]]:
    """`koord up`, ready: its kubeconfig, and the process of each component."""
    with tempfile.TemporaryDirectory(prefix="koord-bench-") as folder:
        data, log = Path(folder, "data"), Path(folder, "log")
        command = [*own_program(), "up", "--headless", "--nodes", str(nodes), "--data-dir", str(data)]
        with running(command, log) as process:
            wait_until(lambda: b"\nready:" in b"\n" + log.read_bytes(), process, log, within_s=WITHIN_S)
            endpoints = json.loads((data / "endpoints.json").read_text())["components"]
            yield data / "kubeconfig", {name: endpoints[name]["pid"] for name in _COMPONENTS}


async def _end_to_end(report: Report, size: Size) -> None:
    report.progress(f"starting {size.up_nodes} nodes")
    with _up(size.up_nodes) as (kubeconfig, pids):
        config = locate(str(kubeconfig))
        async with Client(config) as client:
            await _ready_to_lend(client, size.up_nodes)
            report.progress(f"making {size.pods} pods batch pods, and placing them")
            async with watching(client, NAMESPACE) as times:
                before_s = {name: cpu_s(pid) for name, pid in pids.items()}
                began_s = time.monotonic()
                await Target(config).spread(CLIENTS, [_pod(number) for number in range(size.pods)], 201)
                await times.all_bound(size.pods)
                took_s = time.monotonic() - began_s
                spent = {name: cpu_s(pid) - before_s[name] for name, pid in pids.items()}
            for pod in await client.list(PODS, namespace=NAMESPACE):
                assert RESOURCE_BATCH_CPU in pod.spec.containers[0].resources.requests, "admission did not change it"
    case = report.case(f"koord up, {size.up_nodes} nodes, both webhooks on")
    case.add("bound pods", size.pods / took_s, "pods/s", more_is_better=True, goal=150.0)
    for name, seconds in spent.items():
        case.add(f"CPU of the {name}", 1000 * seconds / size.pods, "ms/pod")
    # On two idle cores: no faster than the busiest component, and all components share both cores.
    busiest_s = max(sum(spent.values()) / 2, *spent.values())
    case.add("bound pods, by CPU time on two cores", size.pods / busiest_s, "pods/s", more_is_better=True)


async def _ready_to_lend(client: Client, nodes: int) -> None:
    """A namespace whose pods become batch pods, and nodes that have lent something."""
    profile = {
        "metadata": {"name": "batch-jobs"},
        "spec": {
            "namespaceSelector": {"matchLabels": {"colocation": "on"}},
            "qosClass": "BE",
            "priorityClassName": PriorityClass.BATCH,
            "schedulerName": "koord-scheduler",
        },
    }
    await client.create(CLUSTER_COLOCATION_PROFILES, profile)
    await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE, "labels": {"colocation": "on"}}})
    async with asyncio.timeout(WITHIN_S):
        while await _lending(client) < nodes:  # noqa: ASYNC110 - other processes bring it about
            await asyncio.sleep(0.5)


async def _lending(client: Client) -> int:
    return sum(RESOURCE_BATCH_CPU in node.status.allocatable for node in await client.list(NODES))


def _pod(number: int) -> bytes:
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "100m", "memory": "128Mi"}}
    body = {
        "metadata": {"name": f"job-{number}", "labels": {"app": "job"}},
        "spec": {"containers": [{"name": "app", "image": "app:1", "resources": resources}]},
    }
    return encode("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", json.dumps(body).encode())
