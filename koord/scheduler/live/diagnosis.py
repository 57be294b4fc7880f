"""Looking into a running scheduler, over HTTP beside its health, and attempts that take too long.

    PUT /debug/flags/{s,f,d,db,v}            what is to be said of decisions: see koord.scheduler.diagnosis
    GET /apis/v1/__services__                what can be asked
    GET /apis/v1/nodes/:nodeName             a node, as it is counted
    GET /apis/v1/plugins/<Plugin>/...        what plugins tell

Only the leader decides, so only the leader answers. Who may ask is the health server's to say.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from koord.scheduler import diagnosis
from koord.scheduler.diagnosis import Flags
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Placement
from koord.scheduler.framework.plugin import Remedy
from koord.scheduler.live.feed import Feed

if TYPE_CHECKING:
    # Imported when somebody asks: most schedulers are never looked into, and it is large.
    from aiohttp import web

log = logging.getLogger(__name__)

BASE: Final = "/apis/v1"
FLAGS: Final = "/debug/flags/"
LOOK_EVERY_S: Final = 10.0
LONGEST_ATTEMPT_S: Final = 30.0
LONGEST_BODY: Final = 1024
DETAILED: Final = 4
"""From this verbosity on, everything is logged."""

Service = Callable[[str], object]


class _Attempt(NamedTuple):
    ask: Ask
    profile: str
    began_s: float


class Inspection:
    """One for a process. Whoever runs the scheduler says what there is to look at."""

    def __init__(self) -> None:
        self.flags = Flags()
        self._feed: Callable[[], Feed | None] = lambda: None
        self._leads: Callable[[], bool] = lambda: False
        self._timed_out: Callable[[str], None] = lambda profile: None
        self._under_way: dict[str, _Attempt] = {}
        self._looked_s = float("-inf")

    def look_at(
        self, feed: Callable[[], Feed | None], leads: Callable[[], bool], timed_out: Callable[[str], None]
    ) -> None:
        """Where the state is, whether this instance leads, and who counts attempts that take too long, by profile."""
        self._feed, self._leads, self._timed_out = feed, leads, timed_out

    def before(self, engine: Engine, ask: Ask) -> None:
        """A pod is about to be placed."""
        if self.flags.filter_failures:
            for line in diagnosis.filter_lines(engine, ask):
                log.info(line)
        if self.flags.top_scores > 0:
            table = diagnosis.score_table(engine, ask, self.flags.top_scores)
            if table is not None:
                log.info(table)

    def nowhere(self, engine: Engine, ask: Ask, placement: Placement, remedy: Remedy, now_s: float) -> str:
        """A pod fits nowhere. What is to be added to what users are told."""
        if not self.flags.diagnoses:
            return ""
        found = diagnosis.diagnosis(engine, ask, placement, remedy, now_s)
        log.info(diagnosis.diagnosis_line(ask, found))
        if found.suggestion is None:
            return ""
        return f"Suggestion: {{type: {found.suggestion.type}, message: {found.suggestion.message}}}"

    def began(self, ask: Ask, profile: str, now_s: float) -> None:
        """An attempt is under way: its pod is being bound."""
        self._under_way[ask.meta.uid] = _Attempt(ask, profile, now_s)

    def ended(self, uid: str, now_s: float) -> None:
        attempt = self._under_way.pop(uid, None)
        if attempt is not None:
            self._warn(attempt, now_s)

    def look(self, now_s: float) -> None:
        """Whether an attempt takes too long; not more often than it is worth."""
        if now_s - self._looked_s < LOOK_EVERY_S:
            return
        self._looked_s = now_s
        for attempt in list(self._under_way.values()):
            self._warn(attempt, now_s)

    def took(self, ask: Ask, profile: str, seconds: float) -> None:
        """A decision was made, in so much time."""
        if seconds > LONGEST_ATTEMPT_S:
            self._warn(_Attempt(ask, profile, 0.0), seconds)

    def _warn(self, attempt: _Attempt, now_s: float) -> None:
        took_s = now_s - attempt.began_s
        if took_s > LONGEST_ATTEMPT_S:
            meta = attempt.ask.meta
            log.warning(
                "!!!CRITICAL TIMEOUT!!! scheduling pod %s/%s(%s) took longer (%.1fs) than the timeout %.0fs",
                meta.namespace,
                meta.name,
                meta.uid,
                took_s,
                LONGEST_ATTEMPT_S,
            )
            self._timed_out(attempt.profile)

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
        return self._answer(path)

    async def _set(self, request: web.Request, flag: str) -> web.Response:
        if request.method != "PUT":
            return _text("unrecognized http method", 406)
        text = (await request.content.read(LONGEST_BODY)).decode(errors="replace").strip()
        if flag == "v":
            return _set_verbosity(text)
        try:
            return _text(self.flags.set(flag, text))
        except ValueError as error:
            return _text(str(error), 404 if flag not in ("s", "f", "d", "db") else 400)

    def _answer(self, path: str) -> web.Response:
        services = self._services()
        if path == f"{BASE}/__services__":
            return _json({"GET": sorted([*services, f"{BASE}/__services__"])})
        # A service is called by one name, the last part of its path, or by none.
        whole = services.get(path)
        if whole is not None:
            return _json(whole(""))
        folder, _, name = path.rpartition("/")
        for pattern, service in services.items():
            base, _, word = pattern.rpartition("/")
            if word.startswith(":") and base == folder and name:
                found = service(name)
                return _json({"message": f"cannot find node {name}"}, 404) if found is None else _json(found)
        return _json({"message": f"there is nothing at {path}; {BASE}/__services__ says what there is"}, 404)

    def _services(self) -> Mapping[str, Service]:
        feed = self._feed()
        if feed is None:
            return {}
        cluster = feed.cluster
        found: dict[str, Service] = {f"{BASE}/nodes/:nodeName": lambda name: diagnosis.node_told(cluster, name)}
        for engine in feed.engines.values():
            for plugin in engine.profile.plugins:
                for path, service in plugin.services().items():
                    # Of several profiles, the first one's plugin answers.
                    found.setdefault(f"{BASE}/plugins/{plugin.name}/{path}", service)
        return found


def _set_verbosity(text: str) -> web.Response:
    if not (text.isascii() and text.isdigit()):
        return _text(f"failed set klog.logging.verbosity {text}: it must be a whole number", 400)
    logging.getLogger("koord").setLevel(logging.DEBUG if int(text) >= DETAILED else logging.INFO)
    return _text(f"successfully set klog.logging.verbosity to {text}")


def _text(text: str, status: int = 200) -> web.Response:
    from aiohttp import web

    return web.Response(text=text, status=status)


def _json(body: object, status: int = 200) -> web.Response:
    from aiohttp import web

    encoded = msgspec.json.encode(body, enc_hook=str)
    return web.Response(body=encoded, status=status, headers={"Content-Type": "application/json"})
