"""What does it cost to admit a pod, and how many reviews does one webhook server answer?

The rules are timed in CPU, pod by pod: a pod that becomes a batch pod by one of ten profiles, and one that no profile
concerns. Reviews go over TLS to a server in a process of its own, from sixteen callers at once.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from koord.admission.request import Request
from koord.admission.review import mutate, validate
from koord.api.configuration.features import ManagerGate, parse_gates
from koord.kube.program import own_program
from koord_bench import admission_child
from koord_bench.children import start_child
from koord_bench.result import Result, result

BENCH: Final = "admission"
CALLERS: Final = 16
P99_GOAL_US: Final = 1000.0
REVIEWS_GOAL_S: Final = 1000.0


@dataclass(frozen=True, slots=True)
class Size:
    pods: int
    seconds: float


FULL: Final = Size(pods=20_000, seconds=10)
QUICK: Final = Size(pods=2_000, seconds=2)


def run(quick: bool = False, progress: Callable[[str], None] = lambda line: None) -> list[Result]:
    size = QUICK if quick else FULL
    results: list[Result] = []
    for case, namespace in (("pod that becomes a batch pod", "jobs"), ("pod that stays as it is", "shop")):
        progress(f"admitting {size.pods} times a {case}")
        times_us = _times_us(namespace, size.pods)
        results.append(result(BENCH, case, "CPU of both questions, median", statistics.median(times_us), "us"))
        p99 = times_us[len(times_us) * 99 // 100]
        results.append(result(BENCH, case, "CPU of both questions, p99", p99, "us", goal=P99_GOAL_US))
    progress(f"sending reviews for {size.seconds:g} s")
    reviews_s, cpu_us = _reviews(size.seconds)
    case = f"over TLS, {CALLERS} callers"
    results.append(
        result(BENCH, case, "reviews", reviews_s, "1/s", more_is_better=True, goal=None if quick else REVIEWS_GOAL_S)
    )
    results.append(result(BENCH, case, "CPU of the server a review", cpu_us, "us"))
    return results


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
    known, gates = admission_child.known(), parse_gates(ManagerGate)
    request = Request("CREATE", "pods", object=pod(namespace), namespace=namespace, name="web-1")
    times = []
    for _ in range(number):
        began = time.process_time_ns()
        answer = mutate(request, known, gates)
        validate(Request("CREATE", "pods", object=answer.object, namespace=namespace), known, gates)
        times.append((time.process_time_ns() - began) / 1000)
    return sorted(times)


def _reviews(seconds: float) -> tuple[float, float]:
    """Reviews a second, and the server's CPU for one."""
    command = own_program("koord_bench.admission_child")
    with start_child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            said = json.loads(child.stdout.readline())
            answered, took_s = asyncio.run(_load(said["port"], said["bundle"], seconds))
            child.stdin.close()
            cpu_s = json.loads(child.stdout.readline())["cpu_s"]
        finally:
            child.kill()
    return answered / took_s, cpu_s / answered * 1e6


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
