"""A node's state in a line, from manifests as users write them: `node("n1")`, `pod("web", cpu="16")`, `metric(...)`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from koord.api.configuration.slo_config import NodeSettings, SloConfig, parse
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.device import Device
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.crd.node_resource_topology import NodeResourceTopology
from koord.api.text.timestamp import from_seconds
from koord.manager import node_state as rows
from koord.manager.node_resource.plugins import calculate, choose
from koord.manager.node_resource.prepare import Prepared, prepare
from koord.manager.node_state import LENDING, NodeState
from koord.manager.plugin import Plugin, PluginOutcome

NOW_S = 1_800_000_000.0
GI = 1024**3
PRIORITIES = {"prod": 9500, "mid": 7500, "batch": 5500, "free": 3500}


def config(**colocation: Any) -> SloConfig:
    """slo-controller-config with co-location on, and these settings of it."""
    return config_of({"colocation-config": {"enable": True, **colocation}})


def config_of(sections: Mapping[str, Any]) -> SloConfig:
    return parse({key: json.dumps(value) for key, value in sections.items()})


def node(
    name: str = "n1",
    *,
    cpu: str = "64",
    memory: str = "256Gi",
    allocatable: Mapping[str, str] | None = None,
    published: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Node:
    has = {"cpu": cpu, "memory": memory}
    conditions = [{"type": LENDING, "status": "True", "reason": "Reported"}] if published else []
    capacity: dict[str, str] = {**has, **(published or {})}
    allocated: dict[str, str] = {**has, **(allocatable or {}), **(published or {})}
    return convert(
        Node,
        {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "resourceVersion": "1",
                "labels": dict(labels or {}),
                "annotations": dict(annotations or {}),
            },
            "status": {"conditions": conditions, "capacity": capacity, "allocatable": allocated},
        },
    )


def pod(
    name: str,
    *,
    node: str = "n1",
    cpu: str | None = None,
    memory: str | None = None,
    qos: str = "",
    band: str = "prod",
    phase: str = "Running",
    numa: tuple[int, ...] = (),
    namespace: str = "default",
    batch_cpu: str | None = None,
) -> Pod:
    asked = (("cpu", cpu), ("memory", memory), ("kubernetes.io/batch-cpu", batch_cpu))
    requests = {key: text for key, text in asked if text is not None}
    annotations = {}
    if numa:
        status = {"numaNodeResources": [{"node": each} for each in numa]}
        annotations["scheduling.koordinator.sh/resource-status"] = json.dumps(status)
    return convert(
        Pod,
        {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"uid-{name}",
                "resourceVersion": "1",
                "labels": {"koordinator.sh/qosClass": qos} if qos else {},
                "annotations": annotations,
            },
            "spec": {
                "nodeName": node,
                "priority": PRIORITIES.get(band),
                "containers": [{"name": "main", "resources": {"requests": requests}}],
            },
            "status": {"phase": phase},
        },
    )


def used(cpu: str, memory: str) -> dict[str, Any]:
    return {"resources": {"cpu": cpu, "memory": memory}}


def metric(
    pods: Mapping[str, tuple[str, str]] | None = None,
    *,
    name: str = "n1",
    age_s: float = 10.0,
    system: tuple[str, str] = ("2.5", "6Gi"),
    node_usage: tuple[str, str] | None = ("20.7", "56Gi"),
    bands: Mapping[str, str] | None = None,
    host: Mapping[str, tuple[str, str, str]] | None = None,
    reclaimable: tuple[str, str] | None = None,
) -> NodeMetric:
    """A report. `bands` are what it takes pods for, `host` applications as (band, cpu, memory)."""
    status: dict[str, Any] = {
        "updateTime": from_seconds(NOW_S - age_s),
        "nodeMetric": {"systemUsage": used(*system), **({"nodeUsage": used(*node_usage)} if node_usage else {})},
        "podsMetric": [
            {
                "name": key,
                "namespace": "default",
                "podUsage": used(*usage),
                "priority": f"koord-{(bands or {}).get(key, 'prod')}",
            }
            for key, usage in (pods or {}).items()
        ],
        "hostApplicationMetric": [
            {"name": key, "priority": f"koord-{band}", "usage": used(cpu, memory)}
            for key, (band, cpu, memory) in (host or {}).items()
        ],
    }
    if reclaimable is not None:
        status["prodReclaimableMetric"] = {"resource": used(*reclaimable)}
    return convert(NodeMetric, {"metadata": {"name": name}, "status": status})


def topology(zones: int = 2, *, cpu: str = "32", memory: str = "128Gi", info: Any = None) -> NodeResourceTopology:
    annotations = {"node.koordinator.sh/cpu-basic-info": json.dumps(info)} if info is not None else {}
    resources = [
        {"name": name, "capacity": amount, "allocatable": amount, "available": amount}
        for name, amount in (("cpu", cpu), ("memory", memory))
    ]
    return convert(
        NodeResourceTopology,
        {
            "metadata": {"name": "n1", "resourceVersion": "7", "annotations": annotations},
            "zones": [{"name": f"node-{index}", "type": "Node", "resources": resources} for index in range(zones)],
        },
    )


def device(devices: list[dict[str, Any]], labels: Mapping[str, str] | None = None) -> Device:
    data = {"metadata": {"name": "n1", "labels": dict(labels or {})}, "spec": {"devices": devices}}
    return convert(Device, data)


WEB = pod("web", cpu="16", memory="32Gi", qos="LS")
API = pod("api", cpu="8", memory="16Gi", qos="LSR")
JOB = pod("job", qos="BE", band="batch")
USAGE = {"web": ("6.2", "20Gi"), "api": ("3", "12Gi"), "job": ("9", "18Gi")}
BANDS = {"job": "batch"}


def base(**report: Any) -> NodeMetric:
    """The report of the worked examples."""
    return metric({**USAGE, **report.pop("pods", {})}, bands={**BANDS, **report.pop("bands", {})}, **report)


def state(
    node_: Node | None = None,
    pods: tuple[Pod, ...] = (WEB, API, JOB),
    report: NodeMetric | None = None,
    *,
    zones: NodeResourceTopology | None = None,
    devices: Device | None = None,
) -> NodeState:
    return NodeState(
        rows.node_facts(node_ if node_ is not None else node()),
        [rows.pod_row(pod) for pod in pods],
        rows.metric_row(report) if report is not None else None,
        rows.topology_facts(zones) if zones is not None else None,
        rows.device_facts(devices) if devices is not None else None,
    )


def settings(given: NodeState, slo: SloConfig) -> NodeSettings:
    return slo.for_node(given.node.labels, given.node.annotations)


def outcomes(
    given: NodeState, slo: SloConfig, now_s: float = NOW_S, plugins: Sequence[Plugin] | None = None
) -> tuple[PluginOutcome, ...]:
    return calculate(given, slo, settings(given, slo), choose() if plugins is None else plugins, now_s)


def prepared(given: NodeState, slo: SloConfig, now_s: float = NOW_S) -> Prepared:
    return prepare(given.node, outcomes(given, slo, now_s))


def batch(given: NodeState, slo: SloConfig | None = None, now_s: float = NOW_S) -> tuple[int | None, int | None]:
    shown = prepared(given, slo or config(), now_s).resources
    return shown["kubernetes.io/batch-cpu"], shown["kubernetes.io/batch-memory"]


def mid(given: NodeState, slo: SloConfig | None = None, now_s: float = NOW_S) -> tuple[int | None, int | None]:
    shown = prepared(given, slo or config(), now_s).resources
    return shown["kubernetes.io/mid-cpu"], shown["kubernetes.io/mid-memory"]
