"""What does it cost to admit a pod, and how many reviews does one webhook server answer?

The rules are timed in CPU, pod by pod: a pod that becomes a batch pod by one of ten profiles, and one that no profile
concerns. Reviews go over TLS to a server in a process of its own, from sixteen callers at once.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from typing import Any, Final

from koord.admission.request import Request
from koord.admission.review import mutate, validate
from koord.api.configuration.features import ManagerGate, parse_gates
from koord_bench import admission_child
from koord_bench.children import cpu_s, running_module
from koord_bench.harness import Progress, Report, Result, Size, percentile, silent

BENCH: Final = "admission"
CALLERS: Final = 16
P99_GOAL_US: Final = 1000.0
REVIEWS_GOAL_S: Final = 1000.0
FULL: Final = Size(pods=20_000, seconds=10)
QUICK: Final = Size(pods=2_000, seconds=2)


def run(quick: bool = False, progress: Progress = silent) -> list[Result]:
    report, size = Report(BENCH, quick, progress), QUICK if quick else FULL
    for name, namespace in (("pod that becomes a batch pod", "jobs"), ("pod that stays as it is", "shop")):
        progress(f"admitting {size.pods} times a {name}")
        case, times_us = report.case(name), _times_us(namespace, size.pods)
        case.add("CPU of both questions, median", percentile(times_us, 0.5), "us")
        case.add("CPU of both questions, p99", percentile(times_us, 0.99), "us", goal=P99_GOAL_US, at_any_size=True)
    progress(f"sending reviews for {size.seconds:g} s")
    reviews_s, cpu_us = _reviews(size.seconds)
    case = report.case(f"over TLS, {CALLERS} callers")
    case.add("reviews", reviews_s, "1/s", more_is_better=True, goal=REVIEWS_GOAL_S)
    case.add("CPU of the server a review", cpu_us, "us")
    return report.rows


def pod(namespace: str) -> dict[str, Any]:
    """One of three containers, with what pods usually carry."""
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}}
    containers = [
        {
            "name": f"c{i}",
            "image": "example.com/app:1",
            "env": [{"name": f"VARIABLE_{j}", "value": "value"} for j in range(10)],
            "ports": [{"containerPort": 8080 + i}],
            "resources": resources,
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
        for i in range(3)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-1", "namespace": namespace, "labels": {"app": "web", "tier": "front"}},
        "spec": {
            "containers": containers,
            "volumes": [{"name": "data", "emptyDir": {}}],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}],
            "priority": 0,
        },
    }


def _times_us(namespace: str, number: int) -> list[float]:
    cluster, gates = admission_child.cluster_facts(), parse_gates(ManagerGate)
    request = Request("CREATE", "pods", object=pod(namespace), namespace=namespace, name="web-1")
    times = []
    for _ in range(number):
        began = time.process_time_ns()
        answer = mutate(request, cluster, gates)
        validate(Request("CREATE", "pods", object=answer.object, namespace=namespace), cluster, gates)
        times.append((time.process_time_ns() - began) / 1000)
    return times


def _reviews(seconds: float) -> tuple[float, float]:
    """Reviews a second, and the server's CPU for one."""
    with running_module("koord_bench.admission_child") as (child, address):
        before_s = cpu_s(child.pid)
        answered, took_s = asyncio.run(_load(address["port"], address["bundle"], seconds))
        spent_s = cpu_s(child.pid) - before_s
    return answered / took_s, spent_s / answered * 1e6


async def _load(port: int, bundle: str, seconds: float) -> tuple[int, float]:
    import aiohttp

    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5",
            "operation": "CREATE",
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "jobs",
            "name": "web-1",
            "object": pod("jobs"),
        },
    }
    body, answered = json.dumps(review).encode(), 0
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=bundle), limit=CALLERS)
    async with aiohttp.ClientSession(f"https://127.0.0.1:{port}", connector=connector) as session:
        began_s = time.perf_counter()

        async def call() -> None:
            nonlocal answered
            while time.perf_counter() - began_s < seconds:
                async with session.post("/mutate-pod", data=body) as answer:
                    assert (await answer.json())["response"]["allowed"]
                answered += 1

        async with asyncio.TaskGroup() as tasks:
            for _ in range(CALLERS):
                tasks.create_task(call())
        return answered, time.perf_counter() - began_s
