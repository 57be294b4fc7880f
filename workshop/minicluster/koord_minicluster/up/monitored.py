"""Runs Prometheus, and Grafana where it is installed, on the components of a running `koord up`."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final

import aiohttp

from koord.api.protocol.names import NAMESPACE_KOORDINATOR
from koord.kube.account_token import AccountToken
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.operate.endpoints import Endpoints, read_endpoints
from koord_minicluster.up.bootstrap import MONITOR
from koord_minicluster.up.installed import MonitoringFailed, grafana_command, installed_prometheus
from koord_minicluster.up.monitoring import TARGETS, TOKEN, board_files, grafana_files, prometheus_files, targets

log = logging.getLogger(__name__)

LOOK_S: Final = 2.0
STARTED_WITHIN_S: Final = 60.0
STOPPED_WITHIN_S: Final = 10.0
ASK_AGAIN_S: Final = 0.1
_SET_DEATH_SIGNAL: Final = 1


async def run_monitoring(
    client: Client, data: Path, ports: tuple[int, int], on_ready: Callable[[Mapping[str, str]], None]
) -> None:
    """Runs until cancelled. `ports`: of Prometheus and of Grafana."""
    folder = data / "monitoring"
    token = AccountToken(client, NAMESPACE_KOORDINATOR, MONITOR)
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    _write(folder, {**prometheus_files(), **grafana_files(folder, ports[1], urls[0])})
    await _refresh(folder, data, token)
    storage = ["--config.file=prometheus.yaml", "--storage.tsdb.path=prometheus", "--storage.tsdb.retention.time=30d"]
    prometheus = [installed_prometheus(), *storage, f"--web.listen-address=127.0.0.1:{ports[0]}", "--log.level=warn"]
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        served = {"prometheus": urls[0]}
        first = await _started(stack, prometheus, folder, f"{urls[0]}/-/ready")
        tasks.create_task(_ends(first, "prometheus"), name="monitoring/prometheus")
        if (command := grafana_command(folder / "grafana.ini")) is not None:
            second = await _started(stack, command, folder, f"{urls[1]}/api/health")
            tasks.create_task(_ends(second, "grafana"), name="monitoring/grafana")
            served["grafana"] = urls[1]
        on_ready(served)
        while True:
            await asyncio.sleep(LOOK_S)
            await _refresh(folder, data, token)


async def _refresh(folder: Path, data: Path, token: AccountToken) -> None:
    """A component that restarts has another address; a token that expires is replaced."""
    endpoints = await asyncio.to_thread(read_endpoints, data)
    if endpoints is None:
        return
    try:
        files = {TARGETS: targets(endpoints), TOKEN: await token.valid(), **board_files(_console(endpoints))}
    except ApiError as error:
        log.warning("the token for metrics cannot be renewed: %s", error)
        return
    await asyncio.to_thread(_write, folder, files)


def _console(endpoints: Endpoints) -> str:
    console = endpoints.components.get("console")
    return "" if console is None else console.endpoints.get("console", "")


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Only what differs, each file as a whole: Prometheus and Grafana read them again when they change."""
    for name, text in files.items():
        path = folder / name
        with suppress(FileNotFoundError):
            if path.read_text() == text:
                continue
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_name(f".{path.name}")
        fresh.touch(mode=0o600)
        fresh.write_text(text)
        fresh.replace(path)


async def _started(
    stack: AsyncExitStack, command: Sequence[str], folder: Path, ready_url: str
) -> asyncio.subprocess.Process:
    """A process that answers. It ends with `stack`."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdin=asyncio.subprocess.DEVNULL, stdout=2, preexec_fn=_end_with_parent
    )
    stack.push_async_callback(_end, process)
    try:
        async with asyncio.timeout(STARTED_WITHIN_S), aiohttp.ClientSession() as session:
            while not await _answers(session, ready_url):
                if process.returncode is not None:
                    raise MonitoringFailed(f"{command[0]} ended with code {process.returncode}: its log says why")
                await asyncio.sleep(ASK_AGAIN_S)
    except TimeoutError:
        raise MonitoringFailed(f"{command[0]} does not answer at {ready_url}: its log may say why") from None
    return process


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


async def _ends(process: asyncio.subprocess.Process, name: str) -> None:
    code = await process.wait()
    raise MonitoringFailed(f"{name} ended with code {code}: its log says why")


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOPPED_WITHIN_S)
        except TimeoutError:
            process.kill()
            await process.wait()


def _end_with_parent() -> None:
    """Linux tells the child when its parent is gone, also by SIGKILL."""
    ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
