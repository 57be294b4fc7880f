"""The two servers, and many sequences at once on one of them."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterator
from collections.abc import Sequence as Many
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import aiohttp

from koord.api.kubernetes.access import UserInfo
from koord_minicluster.apiserver.server import ApiServer, ServeOptions
from tests.control_plane import ControlPlane
from tests.minicluster.apiserver.differential.client import Target, run, session
from tests.minicluster.apiserver.differential.normal import normal
from tests.minicluster.apiserver.differential.steps import Sequence
from tests.minicluster.apiserver.differential.webhook import WebhookServer

SEQUENCE_WITHIN_S = 180.0
TOKENS = {"admin": "admin-token", "nobody": "nobody-token"}


@dataclass(frozen=True)
class Failed:
    """A sequence that could not be run to its end."""

    why: str

    def __str__(self) -> str:
        return self.why


@contextmanager
def real() -> Iterator[Target]:
    """A kube-apiserver of its own, with a past that it has forgotten."""
    with ControlPlane() as plane:
        plane.compact_etcd()
        plane.stop_apiserver(kill=True)
        plane.start_apiserver()
        yield Target(plane.url, plane.dir / "ca.crt", TOKENS)


@contextmanager
def embedded() -> Iterator[Target]:
    """The embedded server in a thread of this process, with the same users and a forgotten past too."""
    with TemporaryDirectory(prefix="koord-differential-") as folder, asyncio.Runner() as loop:
        users = {
            "admin-token": UserInfo("token-admin", uid="1", groups=("system:masters",)),
            "nobody-token": UserInfo("nobody", uid="2", groups=("strangers",)),
        }
        without = frozenset({"ServiceAccount"})
        options = ServeOptions(Path(folder), durability="fast", tokens=users, disabled_admission=without)
        server = ApiServer(options)
        loop.run(server.__aenter__())
        stop = asyncio.Event()
        serving = Thread(target=loop.run, args=(_serve(server, stop),), name="embedded API server")
        serving.start()
        try:
            yield Target(server.url, Path(folder) / "pki" / "ca.crt", TOKENS)
        finally:
            loop.get_loop().call_soon_threadsafe(stop.set)
            serving.join()


async def _serve(server: ApiServer, stop: asyncio.Event) -> None:
    store = server.store
    store.oldest = store.revision
    store.log.compact(store.revision)
    await stop.wait()
    await server.__aexit__(None, None, None)


async def run_all(
    target: Target, sequences: Many[Sequence], concurrent: int
) -> dict[str, list[dict[str, Any]] | Failed]:
    """The comparable answers of every sequence, by its name."""
    gate = asyncio.Semaphore(concurrent)
    async with WebhookServer() as hooks, session(target) as http:
        equipped = replace(target, variables=hooks.variables)

        async def one(sequence: Sequence) -> list[dict[str, Any]] | Failed:
            async with gate:
                try:
                    answers, variables = await asyncio.wait_for(run(equipped, sequence, http), SEQUENCE_WITHIN_S)
                except (aiohttp.ClientError, TimeoutError, RuntimeError, ValueError, KeyError) as error:
                    return Failed("".join(traceback.format_exception(error)[-3:]))
                return normal(sequence, answers, variables)

        done = await asyncio.gather(*(one(sequence) for sequence in sequences))
    return {sequence.name: answers for sequence, answers in zip(sequences, done, strict=True)}


async def version_of(target: Target) -> str:
    async with session(target) as http:
        headers = {"Authorization": f"Bearer {target.tokens['admin']}"}
        async with http.get(f"{target.url}/version", headers=headers) as answer:
            version: str = (await answer.json())["gitVersion"]
            return version
