"""Runs a sequence against a server and gives the raw answers.

A plain HTTP client: what it sends is what the step says, nothing is repaired or retried except where a step says
`until`. The answers are not comparable yet; `normal` makes them so.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from koord.api.text.yaml import load_all
from tests.minicluster.apiserver.differential.steps import JSON, Sequence, Step

HEADERS = ("Content-Type", "Retry-After", "Allow", "Location")
USER_AGENT = "differential/1.0"
WATCH_S = 8.0
QUIET_S = 0.15

_VARIABLE = re.compile(r"\{\{([\w-]+)\}\}")


@dataclass(frozen=True)
class Target:
    """A server: where it is, whom it trusts, and the tokens of the users that sequences know."""

    url: str
    ca: Path
    tokens: Mapping[str, str]
    patience_s: float = 30.0
    "How long a step may take to become what it waits for."
    variables: Mapping[str, str] = field(default_factory=dict)
    "What differs by where the test runs: the webhook server's address and CA."


@dataclass
class Answer:
    """What came back. `body` is decoded JSON, or text; of a watch, its events."""

    code: int
    headers: dict[str, Any]
    body: Any
    ended: str = ""
    "How a watch ended: `closed` by the server, or `open` when we had enough."

    def at(self, path: str) -> Any:
        """`code`, `headers.NAME`, or what lies at a path in the body."""
        if path == "code":
            return self.code
        header = path.removeprefix("headers.")
        return self.headers.get(header) if header != path else dig(self.body, path)


class Run:
    """One sequence on one server."""

    def __init__(self, target: Target, sequence: Sequence, session: aiohttp.ClientSession) -> None:
        self._target, self._sequence, self._session = target, sequence, session
        self.variables: dict[str, str] = {**target.variables, "seq": sequence.name, "ns": f"seq-{sequence.name}"}
        self._watches: dict[str, asyncio.Task[Answer]] = {}
        self._collected: dict[str, list[Any]] = {}

    async def answers(self) -> list[Answer]:
        await self._make_namespace()
        try:
            return [await self.step(step) for step in self._sequence.steps]
        finally:
            for task in self._watches.values():
                task.cancel()
            await asyncio.gather(*self._watches.values(), return_exceptions=True)

    async def _make_namespace(self) -> None:
        name = self.variables["ns"]
        made = await self._once(
            Step("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        )
        if made.code not in (201, 409):
            raise RuntimeError(f"namespace {name}: {made.code} {made.body}")

    async def step(self, step: Step) -> Answer:
        if step.method == "COLLECT":
            return await self._collect(step)
        if step.background:
            started = asyncio.Event()
            seen = self._collected[step.background] = []
            task = asyncio.create_task(self._watch(step, seen, started))
            self._watches[step.background] = task
            waiting = asyncio.create_task(started.wait())
            await asyncio.wait((task, waiting), timeout=WATCH_S, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            return Answer(200 if started.is_set() else 0, {}, None)
        answer = await self._repeat(step) if step.until else await self._once(step)
        for name, path in step.save.items():
            value = dig(answer.body, path)
            self.variables[name] = value if isinstance(value, str) else json.dumps(value)
        return answer

    async def _repeat(self, step: Step) -> Answer:
        deadline = time.monotonic() + self._target.patience_s
        while True:
            answer = await self._once(step)
            if all(answer.at(path) == self.filled(want) for path, want in step.until.items()):
                return answer
            if time.monotonic() > deadline:
                answer.ended = f"never became {dict(step.until)}"
                return answer
            await asyncio.sleep(0.05)

    async def _collect(self, step: Step) -> Answer:
        seen = self._collected[step.background]
        for _ in range(int(WATCH_S / 0.02)):
            if len(seen) >= (step.events or 0):
                break
            await asyncio.sleep(0.02)
        await asyncio.sleep(QUIET_S)
        task = self._watches[step.background]
        return Answer(200, {}, list(seen), "closed" if task.done() else "open")

    async def _once(self, step: Step) -> Answer:
        if step.events is not None:
            return await self._watch(step, [], asyncio.Event())
        async with self._request(step) as response:
            return Answer(response.status, _headers(response), _decoded(await response.read(), response))

    async def _watch(self, step: Step, seen: list[Any], started: asyncio.Event) -> Answer:
        async with self._request(step) as response:
            if response.status != 200:
                return Answer(response.status, _headers(response), _decoded(await response.read(), response))
            started.set()
            wanted = step.events if step.events is not None else 1 << 30
            deadline = time.monotonic() + (WATCH_S if step.events is not None else 60)
            ended = "open"
            while True:
                left = deadline - time.monotonic() if len(seen) < wanted else QUIET_S
                try:
                    line = await asyncio.wait_for(response.content.readline(), max(left, 0.01))
                except TimeoutError:
                    break
                if not line:
                    ended = "closed"
                    break
                event = json.loads(line)
                if not _periodic_bookmark(event):
                    seen.append(event)
            return Answer(response.status, _headers(response), seen, ended)

    def _request(self, step: Step) -> Any:
        headers = {"User-Agent": USER_AGENT, "Accept": step.accept or JSON}
        user = self.filled(step.user)
        if user != "anonymous":
            headers["Authorization"] = f"Bearer {self._target.tokens.get(user, user)}"
        data: bytes | None = None
        if step.body is not None:
            body = self.filled(step.body)
            data = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else _encoded(body)
            headers["Content-Type"] = step.content_type or JSON
        elif step.content_type:
            headers["Content-Type"] = step.content_type
        headers.update(self.filled(dict(step.headers)))
        return self._session.request(
            step.method,
            URL(self._target.url + self.filled(step.path), encoded=True),
            data=data,
            headers={key: value for key, value in headers.items() if value},
            skip_auto_headers=("Content-Type",),
            allow_redirects=False,
        )

    def filled(self, value: Any) -> Any:
        """The value with its variables replaced. A text that is a variable alone, with `#`, becomes a number."""
        if isinstance(value, str):
            return _VARIABLE.sub(lambda match: self.variables.get(match[1], match[0]), value)
        if isinstance(value, dict):
            return {self.filled(key): self.filled(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.filled(item) for item in value]
        return value


def session(target: Target) -> aiohttp.ClientSession:
    context = ssl.create_default_context(cafile=str(target.ca))
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, limit=64),
        timeout=aiohttp.ClientTimeout(total=120),
        auto_decompress=True,
        read_bufsize=1 << 22,
        max_line_size=1 << 16,
        max_field_size=1 << 16,
    )


async def run(target: Target, sequence: Sequence, http: aiohttp.ClientSession) -> tuple[list[Answer], dict[str, str]]:
    """The raw answers, and the variables at the end."""
    running = Run(target, sequence, http)
    return await running.answers(), running.variables


def dig(value: Any, path: str) -> Any:
    """What is at a dotted path, or None. A dot inside a key is written `\\.`."""
    for part in (piece.replace("\\.", ".") for piece in re.split(r"(?<!\\)\.", path)):
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.lstrip("-").isdigit() and -len(value) <= int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def _headers(response: aiohttp.ClientResponse) -> dict[str, Any]:
    kept: dict[str, Any] = {name: response.headers[name] for name in HEADERS if name in response.headers}
    warnings = response.headers.getall("Warning", [])
    if warnings:
        kept["Warning"] = list(warnings)
    return kept


def _decoded(data: bytes, response: aiohttp.ClientResponse) -> Any:
    if "json" in response.headers.get("Content-Type", ""):
        try:
            return json.loads(data)
        except ValueError:
            pass
    if "yaml" in response.headers.get("Content-Type", ""):
        # How a text is quoted is each server's own; what it says is not.
        (body,) = load_all(data.decode(), "the answer")
        return {"yaml": body}
    return data.decode(errors="replace")


def _encoded(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _periodic_bookmark(event: Any) -> bool:
    """A bookmark that the server sends now and then, not one that ends the initial events."""
    if event.get("type") != "BOOKMARK":
        return False
    annotations = dig(event, "object.metadata.annotations") or dig(event, "object.rows.0.object.metadata.annotations")
    return "k8s.io/initial-events-end" not in (annotations or {})
