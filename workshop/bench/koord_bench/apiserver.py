"""How fast is the embedded API server? Against the real kube-apiserver with etcd, in the same run.

Both serve with TLS, client certificates, RBAC, validation and durable writes, one after the other on an idle machine.
Growth is the server's CPU time per request with ten times the objects, over that with the objects of the other cases.
"""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import Coroutine
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any, TypeVar

from koord_bench import api_servers
from koord_bench.api_load import APPLY, MERGE_PATCH, Connection, Target, Unexpected, WatchConnection, encode, timed
from koord_bench.api_servers import RunningServer
from koord_bench.harness import Figures, Progress, Report, Result, Size, silent
from koord_bench.pods import pod

BENCH = "apiserver"
NAMESPACE = "bench"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CREATE_PODS = f"{PODS}?fieldManager=bench"
PRIORITIES = {"koord-batch": 5500, "koord-prod": 9500}
WATCH_WITHIN_S = 120.0
COST_ROUNDS = 4
_FROM_SERVER = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")

T = TypeVar("T")
FULL = Size(
    clients=32, pods=2_000, gets=4_000, patches=400, applies=300, lists=10,
    watchers=100, watched_patches=400, grown_pods=20_000,
)  # fmt: skip
QUICK = Size(
    clients=32, pods=200, gets=400, patches=40, applies=40, lists=3, watchers=20, watched_patches=40, grown_pods=400
)


def run(quick: bool = False, progress: Progress = silent) -> list[Result]:
    return measure(Report(BENCH, quick, progress), QUICK if quick else FULL)


def measure(report: Report, size: Size) -> list[Result]:
    ours = _measured(api_servers.embedded(), size, "embedded", report.progress)
    assert ours is not None
    theirs = _measured(api_servers.real(), size, "kube-apiserver and etcd", report.progress)
    return add_rows(report, ours, theirs, size, api_servers.versions("kube-apiserver", "etcd"))


def add_rows(report: Report, ours: Figures, theirs: Figures | None, size: Size, peer: str = "") -> list[Result]:
    baselines = theirs or {}
    for name, metric, key, unit, ratio_goal in (
        ("start to ready", "time", "start_s", "s", 2),
        (f"create pods, {size.clients} clients", "speed", "creates", "per s", 3),
        (f"get pods, {size.clients} clients", "speed", "gets", "per s", 2),
        ("merge patches, one client", "speed", "patches", "per s", 5),
        ("applies, one client", "speed", "applies", "per s", 5),
        (f"list {size.pods} pods", "time", "list_s", "s", 1),
        (f"watch, {size.watchers} watchers", "speed", "events", "events per s", 5),
        (f"{size.grown_pods} pods", "memory", "rss_mb", "MB", 2),
    ):
        report.case(name, peer).add(
            metric, ours[key], unit,
            baseline=baselines.get(key), more_is_better=metric == "speed", ratio_goal=ratio_goal,
        )  # fmt: skip
    grown = report.case(f"{size.grown_pods // size.pods}x the pods", peer)
    for verb in ("create", "get", "patch", "page"):
        key = f"growth_{verb}"
        grown.add(f"cost of a {verb}", ours[key], "times", baseline=baselines.get(key), goal=1.2)
    return report.rows


def _measured(
    launched: AbstractContextManager[RunningServer | None], size: Size, name: str, progress: Progress
) -> Figures | None:
    progress(f"starting {name}")
    with launched as server:
        if server is None:
            progress(f"{name} is not installed")
            return None
        return _run_loop(_Cases(server, size, lambda what: progress(f"{name}: {what}")).run())


def _run_loop(work: Coroutine[Any, Any, T]) -> T:
    """On uvloop where it is installed, so that the client costs as little as it can."""
    if find_spec("uvloop") is None:
        return asyncio.run(work)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


class _Cases:
    """All cases on one server."""

    def __init__(self, server: RunningServer, size: Size, progress: Progress) -> None:
        self._server, self._size, self._progress = server, size, progress
        self._target = Target(server.config)
        self._names = [str(pod(i)["metadata"]["name"]) for i in range(size.grown_pods + size.pods)]

    async def run(self) -> Figures:
        size = self._size
        figures: Figures = {"start_s": self._server.start_s}
        await self._prepare()
        self._progress(f"creating {size.pods} pods")
        figures["creates"] = size.pods / await self._create(0, size.pods)
        self._progress("gets")
        figures["gets"] = size.gets / await self._target.spread(size.clients, self._gets(size.gets), 200)
        self._progress("patches and applies")
        figures["patches"] = size.patches / await self._target.spread(1, self._patches(size.patches, "single"), 200)
        figures["applies"] = await self._applies()
        self._progress("lists")
        figures["list_s"] = await self._list_s()
        self._progress(f"watching with {size.watchers}")
        figures["events"] = await self._watch()
        self._progress("cost per request")
        before = await self._costs(size.grown_pods)
        self._progress(f"creating pods up to {size.grown_pods}")
        await self._create(size.pods, size.grown_pods)
        figures["rss_mb"] = self._server.rss_mb()
        self._progress("cost per request")
        after = await self._costs(size.grown_pods + size.pods // 2)
        return figures | {f"growth_{verb}": after[verb] / before[verb] for verb in before}

    async def _prepare(self) -> None:
        namespace = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": NAMESPACE}}
        classes = [
            {
                "kind": "PriorityClass",
                "apiVersion": "scheduling.k8s.io/v1",
                "metadata": {"name": name},
                "value": value,
            }
            for name, value in PRIORITIES.items()
        ]
        await self._target.spread(1, [encode("POST", "/api/v1/namespaces", _json(namespace))], 201)
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        await self._target.spread(1, [encode("POST", path, _json(priority)) for priority in classes], 201)

    async def _create(self, first: int, last: int) -> float:
        requests = [encode("POST", CREATE_PODS, _json(_new_pod(i))) for i in range(first, last)]
        return await self._target.spread(self._size.clients, requests, 201)

    def _gets(self, number: int) -> list[bytes]:
        return [encode("GET", f"{PODS}/{self._names[i * 7 % self._size.pods]}") for i in range(number)]

    def _patches(self, number: int, mark: str) -> list[bytes]:
        """Each changes one annotation of another pod, as controllers do."""
        return [
            encode(
                "PATCH",
                f"{PODS}/{self._names[i * 7 % self._size.pods]}?fieldManager=patcher",
                _json({"metadata": {"annotations": {"bench.koord.dev/patched": f"{mark}-{i}"}}}),
                MERGE_PATCH,
            )
            for i in range(number)
        ]

    async def _applies(self) -> float:
        number: int = self._size.applies
        requests = []
        for i in range(number):
            name = self._names[i * 7 % self._size.pods]
            metadata = {"name": name, "annotations": {"bench.koord.dev/applied": str(i)}, "labels": {"tier": "web"}}
            body = _json({"kind": "Pod", "apiVersion": "v1", "metadata": metadata})
            requests.append(encode("PATCH", f"{PODS}/{name}?fieldManager=applier", body, APPLY))
        return number / await self._target.spread(1, requests, 200)

    async def _list_s(self) -> float:
        connection = await self._target.connect(Connection)
        request = encode("GET", PODS)
        times = []
        for _ in range(self._size.lists):
            answers: list[tuple[int, bytes]] = []

            async def ask(answers: list[tuple[int, bytes]] = answers) -> None:
                answers.append(await connection.ask(request))

            times.append(await timed(ask))
            code, body = answers[0]
            if code != 200 or (listed := body.count(b'"generateName":')) != self._size.pods:
                raise Unexpected(f"list: {code}, {listed if code == 200 else body[:300]!r} pods")
        connection.close()
        return statistics.median(times)

    async def _watch(self) -> float:
        size = self._size
        watchers = await asyncio.gather(*(self._target.connect(WatchConnection) for _ in range(size.watchers)))
        path = f"{PODS}?watch=true&resourceVersion={await self._version()}"
        await asyncio.gather(*(watcher.begin(encode("GET", path)) for watcher in watchers))
        writer = self._target.spread(1, self._patches(size.watched_patches, "watched"), 200)

        async def followed() -> None:
            await asyncio.gather(writer, *(watcher.seen(size.watched_patches) for watcher in watchers))

        took_s = await timed(lambda: asyncio.wait_for(followed(), WATCH_WITHIN_S))
        for watcher in watchers:
            watcher.close()
        events: int = size.watched_patches * size.watchers
        return events / took_s

    async def _version(self) -> str:
        connection = await self._target.connect(Connection)
        _, body = await connection.ask(encode("GET", f"{PODS}?limit=1"))
        connection.close()
        return body.partition(b'"resourceVersion":"')[2].partition(b'"')[0].decode()

    async def _costs(self, free_names_from: int) -> Figures:
        """CPU seconds of the server per request, for each kind of request; the least of a few rounds."""
        size = self._size
        number = size.pods // (2 * COST_ROUNDS)
        costs: Figures = {}
        for round_ in range(COST_ROUNDS):
            new = range(free_names_from + round_ * number, free_names_from + (round_ + 1) * number)
            kinds = {
                "create": ([encode("POST", CREATE_PODS, _json(_new_pod(i))) for i in new], 201),
                "get": (self._gets(4 * number), 200),
                "patch": (self._patches(number, f"cost-{new.start}"), 200),
                "page": ([encode("GET", f"{PODS}?limit=100") for _ in range(max(5, number // 10))], 200),
            }
            for verb, (requests, expect) in kinds.items():
                before = self._server.cpu_s()
                await self._target.spread(4, requests, expect)
                cost_s = (self._server.cpu_s() - before) / len(requests)
                costs[verb] = min(cost_s, costs.get(verb, cost_s))
        return costs


def _new_pod(i: int) -> dict[str, Any]:
    """A pod as a controller posts it."""
    wanted = pod(i)
    metadata = {key: value for key, value in wanted["metadata"].items() if key not in _FROM_SERVER}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {**metadata, "namespace": NAMESPACE},
        "spec": wanted["spec"],
    }


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
