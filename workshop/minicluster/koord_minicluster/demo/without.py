"""The result of the same load without co-location: the same nodes, services, jobs and seed, run by the same engine.

No resources are lent, so batch pods request cpu and memory like all others, and run on what services do not request.
All else favours them: no quota limits a tenant, no pod is moved or evicted, and pods start at once. Placements come
from the scheduler's own `Core`, usage comes from the load model, and time advances in steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import DEPLOYMENTS, NODES, PODS
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_requests
from koord.api.protocol.names import RESOURCE_GPU
from koord.api.text.quantity import render
from koord.api.text.timestamp import from_seconds as timestamp
from koord.offline.driver import Driver
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind
from koord.scheduler.core.moment import Moment
from koord.scheduler.profiles import profiles_of
from koord_minicluster.demo.ledger import ClusterSample
from koord_minicluster.demo.scenario import ENCODE, FLEET, LABEL_POOL, TENANTS, JobShape, Json, Scenario
from koord_minicluster.demo.story import due
from koord_minicluster.hollow.load_model import Band, Load, NodeShape, PodShape, Usage, usage_at
from koord_minicluster.hollow.machine import LABEL_FLEET

STEP_S: Final = 4.0
MOST_STEPS: Final = 450
"""A longer run takes longer steps, so that the user does not wait long for the result."""


@dataclass(slots=True)
class _Running:
    pod: Pod
    shape: PodShape
    node: str
    run_s: float | None
    "None: for ever."
    job: str = ""


@dataclass(slots=True)
class _World:
    scenario: Scenario
    driver: Driver
    started: dict[str, _Running] = field(default_factory=dict)
    waiting: dict[str, tuple[Pod, float | None, str]] = field(default_factory=dict)
    jobs: Counter[str] = field(default_factory=Counter)
    "Jobs of research that are not done, with how many pods each of them still has to finish."
    done: int = 0


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
    core = Core(profiles_of(SHIPPED), seed=scenario.seed, alone=True, now=Moment(began_s, 0.0), hints=False)
    world = _World(scenario, Driver(core))
    for name, pool in scenario.pools().items():
        core.put(NODES, _node(name, pool, machines))
    for pod in _service_pods(scenario, began_s):
        _wait(world, pod, None, "")
    submitted: Counter[JobShape] = Counter()
    looks = []
    for step in range(int(seconds // step_s) + 1):
        elapsed_s = step * step_s
        now_s = began_s + elapsed_s
        core.at(Moment(now_s, elapsed_s))
        _finish(world, now_s)
        for submission in due(elapsed_s, submitted, len(world.jobs), {}):
            submitted[submission.shape] += 1
            _submit(world, submission.shape, submission.number, now_s)
        _place(world, now_s)
        looks.append(_look(world, load, machines, now_s))
    return looks, world.done


def _submit(world: _World, shape: JobShape, number: int, now_s: float) -> None:
    manifest = world.scenario.job(shape, number)
    name = f"{shape.tenant}/{manifest['metadata']['name']}"
    count = manifest["spec"]["completions"]
    if shape is ENCODE:
        world.jobs[name] = count
    for i in range(count):
        pod = _pod(manifest, i, now_s, priority=0)
        _wait(world, pod, world.scenario.run_s(shape, number), name)


def _wait(world: _World, pod: Pod, run_s: float | None, job: str) -> None:
    world.waiting[pod.metadata.key] = pod, run_s, job
    world.driver.core.put(PODS, pod)


def _place(world: _World, now_s: float) -> None:
    while (decision := world.driver.step()) is not None:
        if not isinstance(decision, Bind):
            continue
        for placed in decision.members:
            key = placed.ask.pod.metadata.key
            pod, run_s, job = world.waiting.pop(key)
            bound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=placed.node))
            world.started[key] = _Running(bound, _shape(pod, now_s), placed.node, run_s, job)


def _finish(world: _World, now_s: float) -> None:
    for key, running_pod in list(world.started.items()):
        if running_pod.run_s is None or now_s < running_pod.shape.started_s + running_pod.run_s:
            continue
        del world.started[key]
        world.driver.end(running_pod.pod)
        world.done += running_pod.pod.metadata.namespace in TENANTS
        if running_pod.job in world.jobs:
            world.jobs[running_pod.job] -= 1
            if not world.jobs[running_pod.job]:
                del world.jobs[running_pod.job]


def _look(world: _World, load: Load, machines: Machines, now_s: float) -> ClusterSample:
    used = {"prod": 0, "batch": 0, "system": 0}
    on: dict[str, list[_Running]] = {name: [] for name in world.scenario.node_names()}
    for running_pod in world.started.values():
        on[running_pod.node].append(running_pod)
    short = 0
    for name, running in on.items():
        node = NodeShape(name, Usage(machines.cpu_milli, machines.memory_bytes))
        usage = usage_at(load, node, [running_pod.shape for running_pod in running], now_s)
        used["system"] += usage.system.cpu_milli
        short += usage.asked.services_milli - usage.asked.services_got_milli
        for running_pod, one in zip(running, usage.pods, strict=True):
            used["batch" if running_pod.pod.metadata.namespace in TENANTS else "prod"] += one.cpu_milli
    services = sum(running_pod.run_s is None for running_pod in world.started.values())
    waiting = sum(run_s is None for _, run_s, _ in world.waiting.values())
    return ClusterSample(
        time_s=now_s,
        capacity=machines.cpu_milli * world.scenario.nodes,
        used=used,
        services_short=short,
        services_ready=services,
        services=services + waiting,
    )


def _service_pods(scenario: Scenario, now_s: float) -> Iterator[Pod]:
    for kind, manifest in scenario.foundation():
        if kind is DEPLOYMENTS:
            for i in range(manifest["spec"]["replicas"]):
                yield _pod(manifest, i, now_s, priority=9000)


def _pod(manifest: Json, number: int, now_s: float, priority: int) -> Pod:
    """A pod of a workload. GPUs are not what is compared: it asks for none."""
    owner, template = manifest["metadata"], manifest["spec"]["template"]
    spec: Json = {**template["spec"], "priority": priority, "schedulerName": "koord-scheduler"}
    spec.pop("priorityClassName", None)
    (container,) = spec["containers"]
    amounts = {
        what: {name: text for name, text in given.items() if name != RESOURCE_GPU}
        for what, given in container["resources"].items()
    }
    name = f"{owner['name']}-{number}"
    meta = {
        "name": name,
        "namespace": owner["namespace"],
        "uid": f"{owner['namespace']}/{name}",
        "labels": {"app": owner["name"], **template["metadata"].get("labels", {})},
        "creationTimestamp": timestamp(now_s),
    }
    whole = {"metadata": meta, "spec": {**spec, "containers": [{**container, "resources": amounts}]}}
    return msgspec.convert(whole, Pod)


def _shape(pod: Pod, now_s: float) -> PodShape:
    """The pod's shape for the load model: batch work is as busy as with co-location."""
    requests = pod_requests(pod, capped=True)
    amounts = Usage(requests["cpu"], requests["memory"])
    meta = pod.metadata
    band = Band.BEST_EFFORT if meta.namespace in TENANTS else Band.SERVICE
    return PodShape(meta.uid, meta.key, f"{meta.namespace}/{meta.labels['app']}", band, amounts, amounts, now_s)


def _node(name: str, pool: str, machines: Machines) -> Node:
    room: dict[str, Any] = {
        "cpu": render("cpu", machines.cpu_milli),
        "memory": render("memory", machines.memory_bytes),
        "pods": "110",
    }
    meta = {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name, LABEL_FLEET: FLEET, LABEL_POOL: pool}}
    ready = {"type": "Ready", "status": "True"}
    status = {"capacity": room, "allocatable": room, "conditions": [ready]}
    return msgspec.convert({"metadata": meta, "status": status}, Node)
