"""The result of the same load without co-location: the same nodes, services, jobs and seed, in the simulator.

Policy `none`: batch pods request cpu and memory like all others, and run on what services do not request. All else
favours them: no quota limits a tenant, none is moved or evicted, and pods start at once. Services are spread over
their pools. A minute of the simulator is a step of the demo: four seconds, or longer in a run that took long.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from koord.api.kinds import DEPLOYMENTS
from koord.api.text.quantity import milli, value
from koord.sim.cluster import ArrivalView, Cluster
from koord.sim.columns import BatchTasks, ServiceCurves, no_tasks
from koord.sim.minutes import NodeColumns
from koord.sim.policies.registry import POLICIES
from koord.sim.run import run
from koord.sim.scenario import TICK_S, from_data
from koord_minicluster.demo.ledger import ClusterSample
from koord_minicluster.demo.scenario import ENCODE, LABEL_POOL, TENANTS, TRAIN, TUNE, Json, Scenario
from koord_minicluster.demo.story import ROUND_S, TIMES_S, Submission, due
from koord_minicluster.hollow.load_model import Band, Load, NodeShape, PodShape, Usage

STEP_S: Final = 4.0
MOST_STEPS: Final = 450
"""A longer run takes longer steps, so that the user does not wait long for the result."""


@dataclass(frozen=True, slots=True)
class Machines:
    """The size of each node."""

    cpu_milli: int
    memory_bytes: int


def simulate(
    scenario: Scenario, load: Load, began_s: float, seconds: float, machines: Machines
) -> tuple[list[ClusterSample], int]:
    """The cluster at each step, and how many batch pods came to their end."""
    # What runs on a real machine is not the load model's.
    scenario = replace(scenario, local=None)
    step_s = max(STEP_S, seconds / MOST_STEPS)
    ticks = int(seconds // step_s) + 1
    # The simulator interpolates: a step after the end, and the first one where it looks before the beginning.
    times_s = [*(began_s + step_s * step for step in range(ticks + 1)), began_s]
    story = Story(scenario, load, began_s, step_s)
    names = tuple(scenario.node_names())
    system = np.array([
        [load.of_system(NodeShape(name, Usage(machines.cpu_milli, machines.memory_bytes)), at_s).cpu_milli
         for at_s in times_s]
        for name in names
    ], np.float32)  # fmt: skip
    outcome = run(
        from_data(
            {
                "name": "demo",
                "duration": f"{ticks}m",
                "policy": "none",
                "noise": {"minute": 0, "tenSeconds": 0},
                "batch": {"start": "0s"},
            },
            "demo",
        ),
        _cluster(scenario.pools(), machines, system, list(_services(scenario, load, times_s))),
        {"": POLICIES["none"]},
        seed=scenario.seed,
        arrivals=story,
    )
    series = outcome.series
    capacity = machines.cpu_milli * len(names)
    used_by_system = np.minimum(system.sum(axis=0)[:ticks], series.services_milli)
    samples = [
        ClusterSample(
            time_s=at_s,
            capacity=capacity,
            used={"prod": round(services - of_system), "batch": round(batch), "system": round(of_system)},
        )
        for at_s, services, batch, of_system in zip(
            times_s[:ticks],
            series.services_milli.tolist(),
            series.batch_used_milli.tolist(),
            used_by_system.tolist(),
            strict=True,
        )
    ]
    return samples, outcome.totals.finished


@dataclass(slots=True)
class Story:
    """The tenants' batch jobs: what the story submits next depends on the jobs of research that are not done."""

    scenario: Scenario
    load: Load
    began_s: float
    step_s: float
    submitted: Counter[Any] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    "By job of research that is not done, its pods that still run or wait."
    job_of: list[str] = field(default_factory=list)
    "By batch pod, its job."

    def due(self, now_s: float, view: ArrivalView) -> BatchTasks:
        for number in view.done:
            self._finish(self.job_of[number])
        elapsed_s = now_s * self.step_s / TICK_S
        submissions = due(elapsed_s, self.submitted, len(self.left), {})
        self.submitted.update(submission.shape for submission in submissions)
        jobs = [submission for submission in submissions if submission.shape.tenant in TENANTS]
        return self._tasks(jobs, now_s, self.began_s + elapsed_s)

    def _finish(self, job: str) -> None:
        if job in self.left:
            self.left[job] -= 1
            if not self.left[job]:
                del self.left[job]

    def _tasks(self, jobs: Sequence[Submission], now_s: float, clock_s: float) -> BatchTasks:
        ids: list[str] = []
        use: list[list[int]] = []
        requests: list[Usage] = []
        for job in jobs:
            manifest = self.scenario.job(job.shape, job.number)
            pods, request = manifest["spec"]["completions"], _request(manifest)
            steps = math.ceil(self.scenario.run_s(job.shape, job.number) / self.step_s)
            if job.shape is ENCODE:
                self.left[job.name] = pods
            for number in range(pods):
                pod = _pod_shape(manifest, number, Band.BEST_EFFORT, clock_s)
                ids.append(pod.key)
                requests.append(request)
                use.append([self.load.of_pod(pod, clock_s + step * self.step_s).cpu_milli for step in range(steps)])
                self.job_of.append(job.name)
        if not ids:
            return no_tasks()
        return BatchTasks(
            tuple(ids),
            np.full(len(ids), now_s),
            np.array([request.cpu_milli for request in requests], np.int64),
            np.array([request.memory_bytes for request in requests], np.int64),
            TICK_S,
            np.concatenate(([0], np.cumsum([len(values) for values in use]))),
            np.array([milli for values in use for milli in values], np.float32),
        )


@dataclass(frozen=True, slots=True)
class _Service:
    pod: PodShape
    pool: str
    use: list[float]
    "By step; NaN where the pod does not exist."


def _services(scenario: Scenario, load: Load, times_s: Sequence[float]) -> Iterator[_Service]:
    """Pods of services, and of the jobs that train models: those come at fixed times."""
    began_s = times_s[0]
    for kind, manifest in scenario.foundation():
        if kind is DEPLOYMENTS and manifest["metadata"]["namespace"] not in TENANTS:
            for number in range(manifest["spec"]["replicas"]):
                pod = _pod_shape(manifest, number, Band.SERVICE, began_s)
                pool = manifest["spec"]["template"]["spec"]["nodeSelector"][LABEL_POOL]
                yield _Service(pod, pool, [load.of_pod(pod, at_s).cpu_milli for at_s in times_s])
    for shape in (TUNE, TRAIN):
        rounds = int((times_s[-2] - began_s) // ROUND_S) + 1
        for number in range(1, rounds + 1):
            starts_s = began_s + TIMES_S[shape] + (number - 1) * ROUND_S
            ends_s = starts_s + scenario.run_s(shape, number)
            manifest = scenario.job(shape, number)
            for replica in range(manifest["spec"]["completions"]):
                pod = _pod_shape(manifest, replica, Band.SERVICE, starts_s)
                use = [load.of_pod(pod, at_s).cpu_milli if starts_s <= at_s < ends_s else math.nan for at_s in times_s]
                yield _Service(pod, "training", use)


def _cluster(pools: Mapping[str, str], machines: Machines, system: Any, services: Sequence[_Service]) -> Cluster:
    """`pools`: by node. What runs outside of pods is a service of its own on each node, and requests nothing."""
    names, count = tuple(pools), len(pools)
    return Cluster(
        NodeColumns(
            names,
            np.full(count, machines.cpu_milli, np.int64),
            np.full(count, machines.memory_bytes, np.int64),
            ("",) * count,
        ),
        ServiceCurves(
            ids=(*(f"system/{name}" for name in names), *(service.pod.key for service in services)),
            step_s=TICK_S,
            cpu_milli=np.concatenate((system, np.array([service.use for service in services], np.float32))),
            request_cpu_milli=np.array([0] * count + [service.pod.request.cpu_milli for service in services], np.int64),
            request_memory_bytes=np.array(
                [0] * count + [service.pod.request.memory_bytes for service in services], np.int64
            ),
        ),
        np.array([*range(count), *_spread(services, pools)], np.int64),
        no_tasks(),
    )


def _spread(services: Sequence[_Service], pools: Mapping[str, str]) -> Iterator[int]:
    """The row of the node of each service: one after the other through its pool."""
    rows: dict[str, list[int]] = {}
    for row, pool in enumerate(pools.values()):
        rows.setdefault(pool, []).append(row)
    taken: Counter[str] = Counter()
    for service in services:
        nodes = rows[service.pool]
        yield nodes[taken[service.pool] % len(nodes)]
        taken[service.pool] += 1


def _pod_shape(manifest: Json, number: int, band: Band, started_s: float) -> PodShape:
    meta = manifest["metadata"]
    name = f"{meta['namespace']}/{meta['name']}-{number}"
    request = _request(manifest)
    return PodShape(name, name, f"{meta['namespace']}/{meta['name']}", band, request, request, started_s)


def _request(manifest: Json) -> Usage:
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    requests = container["resources"]["requests"]
    return Usage(milli(requests["cpu"]), value(requests["memory"]))
