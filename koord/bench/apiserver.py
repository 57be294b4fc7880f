"""How fast is the embedded API server? Against the real kube-apiserver with etcd, in the same run.

Both serve with TLS, client certificates, RBAC, validation and durable writes. The work of a case is done in parts, by
the two in turn, so that what else the machine does weighs on both; whoever is not asked is idle meanwhile.
Growth is the server's CPU time per request with ten times the objects, over that with the objects of the other cases.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, TypeVar

from koord.bench import api_servers
from koord.bench.api_load import APPLY, MERGE_PATCH, Connection, Target, Unexpected, WatchConnection, encode, timed
from koord.bench.api_servers import RunningServer
from koord.bench.pods import pod
from koord.bench.result import Result, result

BENCH = "apiserver"
NAMESPACE = "bench"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CREATE_PODS = f"{PODS}?fieldManager=bench"
PRIORITIES = {"koord-batch": 5500, "koord-prod": 9500}
SPEEDS = ("creates", "gets", "patches", "applies", "lists", "events")
PARTS = 4
WATCH_WITHIN_S = 120.0
COST_ROUNDS = 4
_FROM_SERVER = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")

T = TypeVar("T")
Progress = Callable[[str], None]
Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Size:
    """How much each case does."""

    pods: int
    gets: int
    patches: int
    applies: int
    lists: int
    watchers: int
    watched_patches: int
    grown_pods: int
    clients: int = 32


FULL = Size(
    pods=2_000, gets=4_000, patches=400, applies=300, lists=12, watchers=100, watched_patches=400, grown_pods=20_000
)
QUICK = Size(pods=200, gets=400, patches=40, applies=40, lists=4, watchers=20, watched_patches=40, grown_pods=400)


def run(quick: bool = False, progress: Progress = lambda line: None) -> list[Result]:
    """All cases. `quick` shrinks them: the same code in seconds, with goals that are for the full size left out."""
    return measure(QUICK if quick else FULL, progress)


def measure(size: Size, progress: Progress = lambda line: None) -> list[Result]:
    with ExitStack() as servers:
        cases = [
            _Cases(server, size, name, progress)
            for name, launch in (("embedded", api_servers.embedded), ("kube-apiserver and etcd", api_servers.real))
            if (server := _started(servers, launch(), name, progress)) is not None
        ]
        ours, *others = _run_loop(_in_turn(cases))
    return _results(ours, others[0] if others else None, size)


def _started(
    servers: ExitStack, launched: AbstractContextManager[RunningServer | None], name: str, progress: Progress
) -> RunningServer | None:
    progress(f"starting {name}")
    server = servers.enter_context(launched)
    if server is None:
        progress(f"{name} is not installed")
    return server


async def _in_turn(servers: Sequence[_Cases]) -> list[Figures]:
    for server in servers:
        await server.prepare()
    for case in SPEEDS:
        for part in range(PARTS):
            for server in servers:
                await server.speed(case, part)
    return [await server.figures() for server in servers]


def _results(ours: Figures, theirs: Figures | None, size: Size) -> list[Result]:
    full = size.grown_pods >= FULL.grown_pods

    def compared(case: str, metric: str, key: str, unit: str, goal: float, *, more: bool = True) -> Result:
        baseline = theirs[key] if theirs else None
        wanted = goal if full else None
        return result(BENCH, case, metric, ours[key], unit, baseline=baseline, more_is_better=more, ratio_goal=wanted)

    return [
        compared("start to ready", "time", "start_s", "s", 2, more=False),
        compared(f"create pods, {size.clients} clients", "speed", "creates", "per s", 3),
        compared(f"get pods, {size.clients} clients", "speed", "gets", "per s", 2),
        compared("merge patches, one client", "speed", "patches", "per s", 5),
        compared("applies, one client", "speed", "applies", "per s", 5),
        compared(f"list {size.pods} pods", "time", "list_s", "s", 1, more=False),
        compared(f"watch, {size.watchers} watchers", "speed", "events", "events per s", 5),
        compared(f"{size.grown_pods} pods", "memory", "rss_mb", "MB", 2, more=False),
        *(
            result(
                BENCH,
                f"{size.grown_pods // size.pods}x the pods",
                f"cost of a {verb}",
                ours[f"growth_{verb}"],
                "times",
                baseline=theirs[f"growth_{verb}"] if theirs else None,
                goal=1.2 if full else None,
            )
            for verb in ("create", "get", "patch", "page")
        ),
    ]


def _run_loop(work: Coroutine[Any, Any, T]) -> T:
    """On uvloop where it is installed, so that the client costs as little as it can."""
    if find_spec("uvloop") is None:
        return asyncio.run(work)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


class _Cases:
    """All cases on one server."""

    def __init__(self, server: RunningServer, size: Size, name: str, progress: Progress) -> None:
        self._server, self._size, self._name, self._say = server, size, name, progress
        self._target = Target(server.config)
        self._names = [str(pod(i)["metadata"]["name"]) for i in range(size.grown_pods + size.pods)]
        self._done = dict.fromkeys(SPEEDS, 0.0)
        self._took_s = dict.fromkeys(SPEEDS, 0.0)

    async def speed(self, case: str, part: int) -> None:
        """One of the parts of a case."""
        self._progress(f"{case}, part {part + 1} of {PARTS}")
        size = self._size
        match case:
            case "creates":
                share = _share(size.pods, part)
                took_s = await self._create(share.start, share.stop)
            case "gets":
                share = _share(size.gets, part)
                took_s = await self._target.spread(size.clients, self._gets(share), 200)
            case "patches":
                share = _share(size.patches, part)
                took_s = await self._target.spread(1, self._patches(share, "single"), 200)
            case "applies":
                share = _share(size.applies, part)
                took_s = await self._target.spread(1, self._applies(share), 200)
            case "lists":
                share = _share(size.lists, part)
                took_s = await self._list(len(share))
            case _:
                share = _share(size.watched_patches, part)
                took_s = await self._watch(share)
        self._done[case] += len(share)
        self._took_s[case] += took_s

    async def figures(self) -> Figures:
        """What the parts make together, and how the costs grow."""
        size = self._size
        speeds = {case: self._done[case] / self._took_s[case] for case in SPEEDS}
        figures: Figures = {"start_s": self._server.start_s, **speeds, "list_s": 1 / speeds["lists"]}
        figures["events"] *= size.watchers
        self._progress("cost per request")
        before = await self._costs(size.grown_pods)
        self._progress(f"creating pods up to {size.grown_pods}")
        await self._create(size.pods, size.grown_pods)
        figures["rss_mb"] = self._server.rss_mb()
        self._progress("cost per request")
        after = await self._costs(size.grown_pods + size.pods // 2)
        return figures | {f"growth_{verb}": after[verb] / before[verb] for verb in before}

    def _progress(self, what: str) -> None:
        self._say(f"{self._name}: {what}")

    async def prepare(self) -> None:
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
        await self._target.spread(1, [encode("POST", path, _json(each)) for each in classes], 201)

    async def _create(self, first: int, last: int) -> float:
        requests = [encode("POST", CREATE_PODS, _json(_new_pod(i))) for i in range(first, last)]
        return await self._target.spread(self._size.clients, requests, 201)

    def _gets(self, numbers: range) -> list[bytes]:
        return [encode("GET", f"{PODS}/{self._names[i * 7 % self._size.pods]}") for i in numbers]

    def _patches(self, numbers: range, mark: str) -> list[bytes]:
        """Each changes one annotation of another pod, as controllers do."""
        return [
            encode(
                "PATCH",
                f"{PODS}/{self._names[i * 7 % self._size.pods]}?fieldManager=patcher",
                _json({"metadata": {"annotations": {"bench.koord.dev/patched": f"{mark}-{i}"}}}),
                MERGE_PATCH,
            )
            for i in numbers
        ]

    def _applies(self, numbers: range) -> list[bytes]:
        requests = []
        for i in numbers:
            name = self._names[i * 7 % self._size.pods]
            metadata = {"name": name, "annotations": {"bench.koord.dev/applied": str(i)}, "labels": {"tier": "web"}}
            body = _json({"kind": "Pod", "apiVersion": "v1", "metadata": metadata})
            requests.append(encode("PATCH", f"{PODS}/{name}?fieldManager=applier", body, APPLY))
        return requests

    async def _list(self, times: int) -> float:
        connection = await self._target.connect(Connection)
        request = encode("GET", PODS)
        answers: list[tuple[int, bytes]] = []

        async def ask() -> None:
            answers.append(await connection.ask(request))

        took_s = 0.0
        for _ in range(times):
            took_s += await timed(ask)
            code, body = answers.pop()
            if code != 200 or (listed := body.count(b'"generateName":')) != self._size.pods:
                raise Unexpected(f"list: {code}, {listed if code == 200 else body[:300]!r} pods")
        connection.close()
        return took_s

    async def _watch(self, numbers: range) -> float:
        size = self._size
        watchers = await asyncio.gather(*(self._target.connect(WatchConnection) for _ in range(size.watchers)))
        path = f"{PODS}?watch=true&resourceVersion={await self._version()}"
        await asyncio.gather(*(watcher.begin(encode("GET", path)) for watcher in watchers))
        writer = self._target.spread(1, self._patches(numbers, "watched"), 200)

        async def followed() -> None:
            await asyncio.gather(writer, *(watcher.seen(len(numbers)) for watcher in watchers))

        took_s = await timed(lambda: asyncio.wait_for(followed(), WATCH_WITHIN_S))
        for watcher in watchers:
            watcher.close()
        return took_s

    async def _version(self) -> str:
        connection = await self._target.connect(Connection)
        _, body = await connection.ask(encode("GET", f"{PODS}?limit=1"))
        connection.close()
        return body.partition(b'"resourceVersion":"')[2].partition(b'"')[0].decode()

    async def _costs(self, free_names_from: int) -> Figures:
        """CPU seconds of the server per request, for each kind of request; the least of a few rounds."""
        size = self._size
        each = size.pods // (2 * COST_ROUNDS)
        costs: Figures = {}
        for round_ in range(COST_ROUNDS):
            new = range(free_names_from + round_ * each, free_names_from + (round_ + 1) * each)
            kinds = {
                "create": ([encode("POST", CREATE_PODS, _json(_new_pod(i))) for i in new], 201),
                "get": (self._gets(range(4 * each)), 200),
                "patch": (self._patches(range(each), f"cost-{new.start}"), 200),
                "page": ([encode("GET", f"{PODS}?limit=100") for _ in range(max(5, each // 10))], 200),
            }
            for verb, (requests, expect) in kinds.items():
                before = self._server.cpu_s()
                await self._target.spread(4, requests, expect)
                cost_s = (self._server.cpu_s() - before) / len(requests)
                costs[verb] = min(cost_s, costs.get(verb, cost_s))
        return costs


def _share(whole: int, part: int) -> range:
    """The numbers of one of the parts."""
    return range(whole * part // PARTS, whole * (part + 1) // PARTS)


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
