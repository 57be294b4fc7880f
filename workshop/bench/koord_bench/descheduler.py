"""What does a round of the descheduler cost on thousands of nodes, and a step of one of many moves?

Every tenth node is hot, a third has room. A round looks at all of them with LowNodeLoad, and lets go what limits allow.
All reports are new in every round, as in a cluster.
"""

from __future__ import annotations

import gc
import random
import time
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.configuration.descheduler_config import SHIPPED
from koord.api.configuration.scheduler_config import SHIPPED as SCHEDULER
from koord.api.kinds import NODE_METRICS, NODES, PODS
from koord.api.kubernetes.meta import ObjectMeta, OwnerReference
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.workloads import ReplicaSet
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.text.timestamp import from_seconds
from koord.descheduler.arbitration import MoveRequest, arbitrate
from koord.descheduler.compiled import Compiled, compiled
from koord.descheduler.migration import step
from koord.descheduler.migration_step import MigrationState
from koord.descheduler.moves import Moves
from koord.descheduler.places import Places
from koord.descheduler.round import run as run_round
from koord.descheduler.rules import Rules
from koord.descheduler.sight import Sight
from koord.descheduler.workloads import Workloads, workloads_of
from koord.scheduler.core.core import Core
from koord.scheduler.core.moment import Moment
from koord.scheduler.profiles import profiles_of
from koord_bench.children import status_kb
from koord_bench.harness import Progress, Report, Result, Size, percentile, silent

BENCH: Final = "descheduler"
NOW_S: Final = 1_800_000_000.0
PODS_PER_NODE: Final = 30
REPLICAS: Final = 50
ROUND_S: Final = 1.0
ROUND_MB: Final = 300.0
STEP_MS: Final = 2.0
LINEAR: Final = 2.6
"""How much longer twice the nodes may take: twice, and what a shared machine adds."""
FULL: Final = Size(nodes=2_500, moves=1_000)
QUICK: Final = Size(nodes=100, moves=50)


class Fleet:
    """A cluster with a number of nodes, and of pods on each."""

    def __init__(self, nodes: int, pods_per_node: int = PODS_PER_NODE) -> None:
        self._random = random.Random(0)
        self.core = Core(profiles_of(SCHEDULER), seed=0, alone=True, now=Moment(NOW_S, NOW_S))
        self.nodes = {f"n{i}": _node(f"n{i}") for i in range(nodes)}
        for node in self.nodes.values():
            self.core.put(NODES, node)
        template = _pod_template()
        self.pods_on = {name: [_pod(template, name, i, j, pods_per_node) for j in range(pods_per_node)]
                        for i, name in enumerate(self.nodes)}  # fmt: skip
        for pods in self.pods_on.values():
            for pod in pods:
                self.core.put(PODS, pod)
        owners = {owner.uid: owner for pods in self.pods_on.values() for pod in pods
                  if (owner := pod.metadata.controller) is not None}  # fmt: skip
        self.sets = [_replica_set(owner) for owner in owners.values()]

    def reports(self) -> dict[str, NodeMetric]:
        """New reports of all nodes, which the scheduler has received too."""
        reports = {name: self._report(name, i) for i, name in enumerate(self.nodes)}
        for report in reports.values():
            self.core.put(NODE_METRICS, report)
        return reports

    def _report(self, name: str, i: int) -> NodeMetric:
        busy = 1.6 if i % 10 == 0 else 0.5 if i % 3 == 0 else 1.2
        pods = [
            {
                "namespace": pod.metadata.namespace,
                "name": pod.metadata.name,
                "podUsage": {"resources": {"cpu": f"{round(self._random.gauss(500, 60) * busy)}m",
                                           "memory": str(round(self._random.gauss(1.5, 0.2) * busy * 2**30))}},
            }
            for pod in self.pods_on[name]
        ]  # fmt: skip
        system = {"resources": {"cpu": "1", "memory": "4Gi"}}
        return convert(
            NodeMetric,
            {
                "metadata": {"name": name},
                "status": {
                    "updateTime": from_seconds(NOW_S),
                    "nodeMetric": {"nodeUsage": system, "systemUsage": system},
                    "podsMetric": pods,
                },
            },
        )

    def workloads(self) -> Workloads:
        return workloads_of(self.sets, (pod for pods in self.pods_on.values() for pod in pods))

    def sight(self, reports: dict[str, NodeMetric], workloads: Workloads) -> Sight:
        places = Places(self.core.cluster, self.core.feed.engine_of)
        return Sight(NOW_S, self.nodes, self.pods_on, reports, workloads, places, has_all_pods=True)


def _node(name: str) -> Node:
    allocatable = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    return convert(Node, {"metadata": {"name": name}, "status": {"allocatable": allocatable}})


def _pod_template() -> Pod:
    return convert(
        Pod,
        {
            "metadata": {"labels": {"koordinator.sh/qosClass": "LS"}, "creationTimestamp": from_seconds(NOW_S - 3600)},
            "spec": {
                "schedulerName": "koord-scheduler",
                "priority": 9500,
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "500m", "memory": "2Gi"}}}],
            },
            "status": {
                "phase": "Running",
                "qosClass": "Burstable",
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
    )


def _pod(template: Pod, node: str, i: int, j: int, pods_per_node: int) -> Pod:
    number = (i * pods_per_node + j) // REPLICAS
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=f"app-{number}", uid=f"rs-{number}",
                           controller=True)  # fmt: skip
    metadata: ObjectMeta = replace(
        template.metadata, name=f"p-{i}-{j}", namespace="default", uid=f"uid-{i}-{j}", owner_references=(owner,)
    )
    return replace(template, metadata=metadata, spec=replace(template.spec, node_name=node))


def _replica_set(owner: OwnerReference) -> ReplicaSet:
    metadata = {"name": owner.name, "namespace": "default", "uid": owner.uid}
    return convert(ReplicaSet, {"metadata": metadata, "spec": {"replicas": REPLICAS}, "status": {"replicas": REPLICAS}})


def run(quick: bool = False, progress: Progress = silent) -> list[Result]:
    report, size = Report(BENCH, quick, progress), QUICK if quick else FULL
    times: list[float] = []
    given = compiled(SHIPPED)
    for nodes in (size.nodes, 2 * size.nodes):
        progress(f"{BENCH}: {nodes} nodes")
        fleet = Fleet(nodes)
        best_s, grown_mb, moves = rounds(fleet, given)
        case, is_last = report.case(f"{nodes} nodes, {nodes * PODS_PER_NODE} pods"), bool(times)
        times.append(best_s)
        case.add("a round", best_s, "s of CPU", goal=ROUND_S if is_last else None)
        case.add("memory above the state", grown_mb, "MB", goal=ROUND_MB if is_last else None)
        case.add("pods moved", float(moves), "pods")
    case = report.case(f"{size.nodes} and {2 * size.nodes} nodes")
    case.add("twice the nodes take", times[1] / times[0], "times", goal=LINEAR)
    progress(f"{BENCH}: {size.moves} moves")
    slowest_ms, pass_ms = _steps(size.moves, fleet)
    case = report.case(f"{size.moves} moves under way")
    case.add("a step, p99", slowest_ms, "ms", goal=STEP_MS)
    case.add("arbitration, each", pass_ms, "ms", goal=STEP_MS)
    return report.rows


def rounds(fleet: Fleet, given: Compiled, number: int = 3) -> tuple[float, float, int]:
    """The best of some rounds in CPU seconds, what one of them added to the process at most, and what moved."""
    # As the descheduler does once its caches have synced: the collector need not look at long-lived objects.
    gc.collect()
    gc.freeze()
    took_s, grown_mb, moves = [], 0.0, 0
    for _ in range(number):
        reports = fleet.reports()
        # Resets the peak to the present.
        Path("/proc/self/clear_refs").write_text("5")
        before_kb = status_kb("VmHWM")
        start_s = time.process_time()
        outcome = run_round(given, fleet.sight(reports, fleet.workloads()), at_once=True)
        took_s.append(time.process_time() - start_s)
        grown_mb = max(grown_mb, (status_kb("VmHWM") - before_kb) / 1024)
        moves = len(outcome.moves)
    return min(took_s), grown_mb, moves


def _steps(number: int, fleet: Fleet) -> tuple[float, float]:
    """The p99 of one step of a job, and what arbitration costs for each of all jobs, in milliseconds."""
    args = MigrationControllerArgs().completed()
    pods = [pod for pods in fleet.pods_on.values() for pod in pods][:number]
    job = convert(
        PodMigrationJob,
        {
            "metadata": {"name": "job", "uid": "job", "creationTimestamp": from_seconds(NOW_S)},
            "spec": {"podRef": {"namespace": "default"}, "mode": "ReservationFirst"},
        },
    )
    took_s = []
    for pod in pods:
        ref = msgspec.structs.replace(job.spec.pod_ref, name=pod.metadata.name, uid=pod.metadata.uid)
        at = replace(job, spec=replace(job.spec, pod_ref=ref))
        for _ in range(3):
            start_s = time.perf_counter()
            at = step(at, MigrationState(pod), args, NOW_S).job
            took_s.append(time.perf_counter() - start_s)
    workloads = fleet.workloads()
    asked = [MoveRequest(pod.metadata.name, NOW_S, pod, Rules.of(args)) for pod in pods]
    start_s = time.process_time()
    arbitrate(asked, workloads, Moves())
    each_ms = (time.process_time() - start_s) * 1000 / number
    return percentile(took_s, 0.99) * 1000, each_ms
