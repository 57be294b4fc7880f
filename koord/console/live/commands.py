"""koord's own commands, run for a viewer: the page shows what the command prints.

Explanations and reports take seconds on a large cluster and would keep other viewers waiting, so each runs in a process
of its own, one at a time, with the viewer's own credentials. Answers are kept for a few seconds.
"""

from __future__ import annotations

import asyncio
import base64
import os
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from koord.api.machinery.faults import BadInput
from koord.console.live.guard import Refused
from koord.console.live.viewers import Viewer
from koord.kube.cluster_config import ClusterConfig
from koord.kube.program import own_program

KEPT_S: Final = 5.0
WITHIN_S: Final = 60.0
MOST_KEPT: Final = 64
MOST_WAITING: Final = 16
LONGEST_ERROR: Final = 600


class CommandFailed(BadInput):
    """A command of the console's own failed. The message is the command's."""


class Own:
    """The console itself, by its own credentials: for what no viewer asked."""


OWN: Final = Own()


@dataclass(slots=True)
class Commands:
    """`kubeconfig` and `context` are those of the console; viewers with tokens get a file of their own."""

    kubeconfig: str | None
    context: str | None
    recording: Path | None = None
    "Of koord sim record: settings are also tried on it."
    _kept: dict[tuple[str, ...], tuple[float, Any]] = field(default_factory=dict)
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    _waiting: int = 0

    async def json(self, viewer: Viewer, *args: str, codes: Sequence[int] = (0,)) -> Any:
        """What `koord ARGS -o json` prints, as this viewer. Raises `Refused` with what the command says."""
        return await self._kept_json(viewer.key, viewer, args, codes)

    async def status(self) -> Any:
        """What `koord status` prints to the console itself. Raises `CommandFailed`."""
        try:
            return await self._kept_json("console", OWN, ("status",), (0, 1))
        except Refused as error:
            raise CommandFailed(error.error.cause) from None

    async def offline(self, *args: str) -> Any:
        """What a command prints that needs no cluster."""
        return await self._kept_json("", None, args, (0,))

    async def _kept_json(self, who: str, viewer: Viewer | Own | None, args: Sequence[str], codes: Sequence[int]) -> Any:
        key = (who, *args)
        kept = self._kept.get(key)
        if kept is not None and time.monotonic() - kept[0] < KEPT_S:
            return kept[1]
        if self._waiting >= MOST_WAITING:
            raise Refused(503, "koord " + " ".join(args), "too many explanations are wanted at once", "try again")
        self._waiting += 1
        try:
            async with self._turn:
                kept = self._kept.get(key)
                if kept is not None and time.monotonic() - kept[0] < KEPT_S:
                    return kept[1]
                result = await self._run(viewer, args, codes)
        finally:
            self._waiting -= 1
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[key] = time.monotonic(), result
        return result

    async def _run(self, viewer: Viewer | Own | None, args: Sequence[str], codes: Sequence[int]) -> Any:
        async with self._access(viewer) as access:
            process = await asyncio.create_subprocess_exec(
                *own_program(),
                *args,
                "-o",
                "json",
                *access,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={key: value for key, value in os.environ.items() if key != "KOORD_SUPERVISED"},
            )
            try:
                async with asyncio.timeout(WITHIN_S):
                    out, said = await process.communicate()
            except TimeoutError:
                raise Refused(504, "koord " + " ".join(args), f"gave no answer within {WITHIN_S:g} s") from None
            finally:
                if process.returncode is None:
                    with suppress(ProcessLookupError):
                        process.kill()
                    await process.wait()
        if process.returncode not in codes:
            text = said.decode("utf-8", "replace").strip().removeprefix("Error: ")
            raise Refused(422, "koord " + " ".join(args), text[:LONGEST_ERROR] or "failed", "")
        return msgspec.json.decode(out)

    @asynccontextmanager
    async def _access(self, viewer: Viewer | Own | None) -> AsyncIterator[tuple[str, ...]]:
        if viewer is None:
            yield ()
            return
        if isinstance(viewer, Own) or viewer.signed_in_by == "kubeconfig":
            config = ("--kubeconfig", self.kubeconfig) if self.kubeconfig else ()
            yield (*config, *(("--context", self.context) if self.context else ()))
            return
        descriptor, name = tempfile.mkstemp(prefix="koord-viewer-", suffix=".kubeconfig")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(kubeconfig_of(viewer.client.config))
            yield ("--kubeconfig", name)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(name)


def kubeconfig_of(config: ClusterConfig) -> bytes:
    """A kubeconfig with a token as its only credentials. JSON is YAML, too."""
    cluster: dict[str, object] = {"server": config.server}
    if config.ca_data:
        cluster["certificate-authority-data"] = base64.b64encode(config.ca_data).decode()
    elif config.ca_file:
        cluster["certificate-authority"] = config.ca_file
    if config.tls_server_name:
        cluster["tls-server-name"] = config.tls_server_name
    if config.insecure_skip_tls_verify:
        cluster["insecure-skip-tls-verify"] = True
    if config.proxy_url:
        cluster["proxy-url"] = config.proxy_url
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "viewer",
            "clusters": [{"name": "cluster", "cluster": cluster}],
            "users": [{"name": "viewer", "user": {"token": config.token}}],
            "contexts": [{"name": "viewer", "context": {"cluster": "cluster", "user": "viewer"}}],
        }
    )
