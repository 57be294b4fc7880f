"""Looking into a running scheduler, over HTTP beside its health.

    PUT /debug/flags/{s,f,d,db}              what to log about decisions: see koord.scheduler.diagnosis
    GET /apis/v1/__services__                the available paths
    GET /apis/v1/nodes/:nodeName             a node, with what the scheduler counts on it
    GET /apis/v1/pending                     why pods are pending: see koord.scheduler.live.pending
    GET /apis/v1/plugins/<Plugin>/...        what plugins report

Only the leader decides, so only the leader answers. Who may ask is the health server's to say. Diagnoses are written
by `run`, beside decisions: where more come than can be written, they are dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from koord.scheduler import diagnosis
from koord.scheduler.core.core import Core
from koord.scheduler.diagnosis import Diagnosis, FailedNodes, Flags
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Placement
from koord.scheduler.framework.remedy import Remedy
from koord.scheduler.live.pending import PendingPod
from koord.scheduler.suggestion import Suggestion

if TYPE_CHECKING:
    # Imported on the first request: most schedulers never get one, and it is large.
    from aiohttp import web

log = logging.getLogger(__name__)

BASE: Final = "/apis/v1"
FLAGS: Final = "/debug/flags/"
MOST_UNWRITTEN: Final = 1000
LONGEST_BODY: Final = 1024

Service = Callable[[str], object]
"""Answers for one thing, named as in its path: `n1`, or `namespace/name` where the path has two words for it."""


class Inspection:
    """One per process. The code that runs the scheduler sets what there is to look at."""

    def __init__(self) -> None:
        self.flags = Flags()
        self._core: Callable[[], Core | None] = lambda: None
        self._leads: Callable[[], bool] = lambda: False
        self.pending: Callable[[], list[PendingPod]] = list
        "Why pods are pending, while this instance leads."
        self._failed = FailedNodes()
        self._unwritten: deque[tuple[Ask, Diagnosis]] = deque()
        self._work = asyncio.Event()

    def look_at(self, core: Callable[[], Core | None], leads: Callable[[], bool]) -> None:
        """Where the state is, and whether this instance leads."""
        self._core, self._leads = core, leads

    def before(self, engine: Engine, ask: Ask) -> None:
        """A pod is about to be placed. If its nominated node accepts it, no other node is tried."""
        with engine.cluster.nominations.without(ask.key) as promise:
            name = ask.pod.status.nominated_node_name
            row = engine.cluster.table.row_of.get(name) if promise is None else promise.row
            if row is not None and engine.fits(ask, row):
                return
            if self.flags.filter_failures:
                for line in diagnosis.filter_lines(engine, ask):
                    log.info(line)
            if self.flags.top_scores > 0:
                table = diagnosis.score_table(engine, ask, self.flags.top_scores)
                if table is not None:
                    log.info(table)

    def nowhere(
        self, engine: Engine, ask: Ask, placement: Placement, remedy: Remedy, suggestion: Suggestion | None
    ) -> None:
        """A pod fits nowhere. What there is to say is found out now, as things are; it is written later."""
        with engine.cluster.nominations.without(ask.key):
            now_s = engine.cluster.now_s
            report = diagnosis.diagnosis(engine, ask, placement, remedy, now_s, suggestion, self._failed)
        if self.flags.at_once:
            _write(ask, report)
        elif len(self._unwritten) >= MOST_UNWRITTEN:
            log.warning("too many diagnoses wait to be written: that of %s is dropped", ask.key)
        else:
            self._unwritten.append((ask, report))
            self._work.set()

    async def run(self) -> None:
        """Writes diagnoses until cancelled."""
        while True:
            while self._unwritten:
                ask, report = self._unwritten.popleft()
                # A log that is slow to take them must not keep decisions waiting.
                await asyncio.to_thread(_write, ask, report)
            self._work.clear()
            await self._work.wait()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers a request for any of the paths."""
        path = request.path
        if path.startswith(FLAGS):
            return await self._set(request, path.removeprefix(FLAGS))
        if path != BASE and not path.startswith(f"{BASE}/"):
            return _json({"message": f"there is nothing at {path}"}, 404)
        if not self._leads():
            return _json({"message": "the instance is not leader"}, 503)
        if request.method != "GET":
            return _json({"message": f"{request.method} is not for {path}"}, 405)
        return self._answer(path, request.query_string)

    async def _set(self, request: web.Request, flag: str) -> web.Response:
        if request.method != "PUT":
            return _text("unrecognized http method", 406)
        text = (await request.content.read(LONGEST_BODY)).decode(errors="replace").strip()
        try:
            return _text(self.flags.set(flag, text))
        except ValueError as error:
            return _text(str(error), 404 if flag not in ("s", "f", "d", "db") else 400)

    def _answer(self, path: str, query: str) -> web.Response:
        services = self._services()
        if path == f"{BASE}/__services__":
            plain = {pattern.partition("?")[0] for pattern in services}
            return _json({"GET": sorted([*plain, f"{BASE}/__services__"])})
        for pattern in (f"{path}?{query}", path):
            if pattern in services:
                return _json(services[pattern](""))
        for pattern, service in services.items():
            # What asks for more in its query stands before what it is more than.
            asked, _, wanted = pattern.partition("?")
            values = _values(asked, path)
            if values and wanted in ("", query):
                answer = service("/".join(values.values()))
                return _json({"message": _not_found(asked, values)}, 404) if answer is None else _json(answer)
        return _json({"message": f"there is nothing at {path}; {BASE}/__services__ says what there is"}, 404)

    def _services(self) -> Mapping[str, Service]:
        core = self._core()
        if core is None:
            return {}
        cluster = core.cluster
        services: dict[str, Service] = {
            f"{BASE}/nodes/:nodeName": lambda name: diagnosis.node_told(cluster, name),
            f"{BASE}/pending": lambda _: {"pods": self.pending()},
        }
        for engine in core.engines.values():
            for plugin in engine.profile.plugins:
                for path, service in (plugin.controller.services if plugin.controller else {}).items():
                    # Of several profiles, the first one's plugin answers.
                    services.setdefault(f"{BASE}/plugins/{plugin.name}/{path}", service)
        return services


def _values(pattern: str, path: str) -> dict[str, str]:
    """What a path says for the words of a pattern that begin with a colon; nothing where it is another path."""
    words, parts = pattern.split("/"), path.split("/")
    if len(words) != len(parts):
        return {}
    values = {}
    for word, part in zip(words, parts, strict=True):
        if word.startswith(":") and part:
            values[word[1:]] = part
        elif word != part:
            return {}
    return values


def _not_found(pattern: str, values: Mapping[str, str]) -> str:
    """`cannot find node n1`: what it is says its word, or else the part of the path before."""
    kind = list(values)[-1].removesuffix("Name")
    if kind == "name":
        kind = pattern.partition("/:")[0].rpartition("/")[2]
    return f"cannot find {kind} {'/'.join(values.values())}"


def _write(ask: Ask, report: Diagnosis) -> None:
    log.info(diagnosis.diagnosis_line(ask, report))


def _text(text: str, status: int = 200) -> web.Response:
    from aiohttp import web

    return web.Response(text=text, status=status)


def _json(body: object, status: int = 200) -> web.Response:
    from aiohttp import web

    encoded = msgspec.json.encode(body, enc_hook=str)
    return web.Response(body=encoded, status=status, headers={"Content-Type": "application/json"})
