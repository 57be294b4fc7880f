"""What the descheduler reads: reports of all nodes, workloads with their pods, and where pods are.

Reports are made from what services and batch pods used. Agents report means over minutes, so the noise of single
minutes is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import numpy as np

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.workloads import Job, JobSpec, JobStatus, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus
from koord.api.protocol.crd.node_metric import (
    NodeMetric,
    NodeMetricInfo,
    NodeMetricStatus,
    PodMetricInfo,
    ResourceMap,
)
from koord.descheduler.places import Places
from koord.descheduler.sight import Sight
from koord.descheduler.workloads import Known, Workloads, workloads_of
from koord.sim import pods
from koord.sim.minutes import Floats
from koord.sim.stage import Stage
from koord.sim.tasks import Status

_MILLI_STEP: Final = 10
_BYTES_STEP: Final = 1 << 24
"""Reported use is rounded to these, so that equal amounts share an object."""


def sight_of(stage: Stage) -> Sight:
    placing, now_s = stage.scheduler.placing, pods.START_S + stage.now_s
    nodes = {node.metadata.name: node for node in placing.nodes}
    pods_on = {name: list(there.values()) for name, there in placing.pods_on.items()}
    places = Places(placing.core.cluster, placing.core.feed.engine_of)
    return Sight(now_s, nodes, pods_on, _reports(stage), _workloads(stage, pods_on), places, has_all_pods=True)


def _workloads(stage: Stage, pods_on: Mapping[str, list[Pod]]) -> Workloads:
    """The workloads that made the pods: of services as many replicas as exist, of batch pods their jobs."""
    services = np.flatnonzero(stage.world.service_exists)
    names = stage.making.workload_names
    counts = np.bincount(services % len(names), minlength=len(names))
    objects: list[Known] = [
        ReplicaSet(
            ObjectMeta(name=name, namespace=pods.SERVICES_NAMESPACE, uid=name),
            ReplicaSetSpec(replicas=count),
            ReplicaSetStatus(replicas=count),
        )
        for name, count in zip(names, counts.tolist(), strict=True)
        if count
    ]
    members: dict[str, int] = {}
    for number in stage.world.table.with_status(Status.PLACED).tolist():
        job, size = stage.making.job(number, int(stage.world.table.source[number]))
        members[job] = size
    objects += [
        Job(
            ObjectMeta(name=name, namespace=pods.BATCH_NAMESPACE, uid=name),
            JobSpec(parallelism=size, completions=size),
            JobStatus(active=size),
        )
        for name, size in members.items()
    ]
    running = (pod for there in pods_on.values() for pod in there)
    return workloads_of(objects, running)


def _reports(stage: Stage) -> dict[str, NodeMetric]:
    """What agents report: means of some minutes, in which the noise of single minutes is gone. The report of a node
    that is silent has the time of its last one."""
    used_milli, used_bytes = stage.sums.by_service(stage.now_s)
    service_milli, service_bytes = _rounded(used_milli, _MILLI_STEP), _rounded(used_bytes, _BYTES_STEP)
    table = stage.world.table
    task_milli = _rounded(table.column("used_milli"), _MILLI_STEP)
    task_bytes = stage.source.tasks.request_memory_bytes[table.column("source").astype(np.int64)].tolist()
    service_of, task_of = stage.scheduler.service_of, stage.scheduler.task_of

    def use_of(key: str, pod: Pod) -> PodMetricInfo:
        service = service_of.get(key)
        if service is not None:
            used = _usage(service_milli[service], service_bytes[service])
            return PodMetricInfo(pod.metadata.name, pods.SERVICES_NAMESPACE, used)
        number = task_of[key]
        return PodMetricInfo(pod.metadata.name, pods.BATCH_NAMESPACE, _usage(task_milli[number], task_bytes[number]))

    reports = {}
    reported_s = stage.world.published.reported_s.tolist()
    stamps = {at_s: pods.stamp(at_s) for at_s in set(reported_s) if not math.isnan(at_s)}
    rows = zip(stage.scheduler.placing.pods_on.items(), reported_s, stage.system.tolist(), strict=True)
    for (name, there), at_s, system in rows:
        if at_s in stamps:
            status = NodeMetricStatus(
                update_time=stamps[at_s],
                node_metric=NodeMetricInfo(system_usage=_usage(int(system), 0)),
                pods_metric=tuple([use_of(key, pod) for key, pod in there.items()]),
            )
            reports[name] = NodeMetric(ObjectMeta(name=name), status=status)
    return reports


def _rounded(values: Floats, step: int) -> list[int]:
    rounded: list[int] = (np.rint(values / step).astype(np.int64) * step).tolist()
    return rounded


@lru_cache(1 << 16)
def _usage(milli: int, memory_bytes: int) -> ResourceMap:
    return ResourceMap({"cpu": f"{milli}m", "memory": str(memory_bytes)})
