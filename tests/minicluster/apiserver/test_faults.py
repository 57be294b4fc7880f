"""The server through kills, cut and full disks: what it acknowledged is there, and everybody agrees on what is."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from koord.api.kinds import CONFIG_MAPS
from koord.api.kubernetes.core import ConfigMap
from koord.kube.client import Client as KubeClient
from koord.kube.informer import Informer
from koord_bench.api_load import Unexpected
from koord_chaos.faults.live.small_disk import small_disk
from tests.conftest import required_groups
from tests.minicluster.apiserver.server_process import MAPS, Client, ServerProcess
from tests.waiting import eventually

WRITES = 2_000
WRITERS = 16
KILLS_AFTER = (250, 900, 1_600)
MB = 1 << 20


class Acknowledged:
    """What writers know: for each of its names, what the server last said is so."""

    def __init__(self) -> None:
        self.values: dict[str, str | None] = {}
        self.writes = 0
        self.unsure = 0

    def reached(self, writes: int) -> bool:
        return self.writes >= writes


async def write_on(server: ServerProcess, writer: int, known: Acknowledged, up: asyncio.Event) -> None:
    """Create, change and delete the writer's own names until enough is written, through every death of the server."""
    random_ = random.Random(writer)
    client: Client | None = None
    while known.writes < WRITES:
        name = f"map-{writer}-{random_.randrange(12)}"
        before = known.values.get(name)
        wanted = None if before is not None and random_.random() < 0.25 else f"{writer}-{random_.random()}"
        try:
            if client is None:
                await up.wait()
                client = await Client.connect(server)
            if wanted is None:
                code, answer = await client.ask("DELETE", f"{MAPS}/{name}")
            else:
                code, answer = await client.put(name, wanted)
            assert code in (200, 201), answer
            known.values[name] = wanted
            known.writes += 1
        except (Unexpected, OSError):
            # The server died with the request: either of both may be so, and nothing else.
            client = None
            found = await read_back(server, name, up)
            assert found in (before, wanted), f"{name}: {before!r}, perhaps {wanted!r}, but found {found!r}"
            known.values[name] = found
            known.unsure += 1
    if client is not None:
        client.close()


async def read_back(server: ServerProcess, name: str, up: asyncio.Event) -> str | None:
    while True:
        await up.wait()
        with suppress(Unexpected, OSError):
            client = await Client.connect(server)
            code, answer = await client.get(f"{MAPS}/{name}")
            client.close()
            assert code in (200, 404), answer
            return str(answer["data"]["value"]) if code == 200 else None
        await asyncio.sleep(0.05)


async def test_nothing_acknowledged_is_lost_by_kills_amid_2000_writes_and_informers_agree(tmp_path: Path) -> None:
    acknowledged, up = Acknowledged(), asyncio.Event()
    with ServerProcess(tmp_path / "data") as server:
        up.set()

        async def reaper() -> None:
            for writes in KILLS_AFTER:
                await eventually(partial(acknowledged.reached, writes))
                up.clear()
                server.kill()
                await asyncio.to_thread(server.start)
                up.set()

        async with KubeClient(server.config) as kube:
            informers = [
                Informer[ConfigMap](kube, CONFIG_MAPS, namespace="default", watch_list=each) for each in (True, False)
            ]
            following = [asyncio.create_task(informer.run()) for informer in informers]
            await asyncio.gather(reaper(), *(write_on(server, writer, acknowledged, up) for writer in range(WRITERS)))
            client = await Client.connect(server)
            assert await client.values() == {
                name: value for name, value in acknowledged.values.items() if value is not None
            }
            _, listed = await client.get(MAPS)
            exact = {f"default/{i['metadata']['name']}": i["metadata"]["resourceVersion"] for i in listed["items"]}
            for informer in informers:
                await agrees(informer, exact)
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
        assert acknowledged.unsure <= len(KILLS_AFTER) * WRITERS


async def agrees(informer: Informer[ConfigMap], exact: dict[str, str]) -> None:
    def are_same() -> bool:
        held = {key: config_map.metadata.resource_version for key in exact if (config_map := informer.get(key))}
        return held == exact and len(informer) == len(exact)

    await eventually(are_same)


class Call(NamedTuple):
    """A system call: when it began and ended, by line of the trace."""

    name: str
    file: str
    result: int
    began: int
    ended: int


@pytest.mark.root
async def test_no_answer_leaves_before_the_sync_of_its_group(tmp_path: Path) -> None:
    assert_answers_follow_syncs(await traced_writes(tmp_path, "full"))


@pytest.mark.root
async def test_with_fast_durability_answers_do_not_wait_for_the_disk(tmp_path: Path) -> None:
    """And so the check for `full` does find what it looks for."""
    calls = await traced_writes(tmp_path, "fast")
    with pytest.raises(AssertionError, match="before a sync"):
        assert_answers_follow_syncs(calls)


async def traced_writes(tmp_path: Path, durability: str) -> list[Call]:
    """The system calls of a server while 8 clients make 25 writes each, and one more."""
    if shutil.which("strace") is None:
        assert "root" not in required_groups(), "apt-get install strace"
        pytest.skip("apt-get install strace")
    trace = tmp_path / "trace"
    calls = "trace=read,recvfrom,recvmsg,write,writev,sendto,sendmsg,fsync,fdatasync"
    with ServerProcess(tmp_path / "data", "--durability", durability) as server:
        clients = [await Client.connect(server) for _ in range(8)]
        await asyncio.gather(*(client.get("/version") for client in clients))
        tracer = await asyncio.create_subprocess_exec(
            *("strace", "-f", "-y", "-s", "0", "-e", calls, "-o", str(trace), "-p", str(server.pid)),
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            assert tracer.stderr is not None
            assert b"attached" in await tracer.stderr.readline()

            async def work(client: Client, number: int) -> None:
                # One more than is looked for: the client has its last answer before the tracer has seen it off.
                for i in range(26):
                    assert (await client.put(f"map-{number}-{i}", "x"))[0] == 201

            await asyncio.gather(*(work(client, number) for number, client in enumerate(clients)))
        finally:
            tracer.terminate()
            await tracer.communicate()
    return read_trace(trace.read_text().splitlines())


def read_trace(lines: list[str]) -> list[Call]:
    """The calls in the order in which they ended. A call that others interrupt has two lines in the trace."""
    begun: dict[tuple[str, str], tuple[int, str]] = {}
    calls = []
    for number, line in enumerate(lines):
        if found := re.match(r"(\d+) +(\w+)\(\d+<(.*?)>.*?(<unfinished|= (-?\d+))", line):
            thread, name, file, _, result = found.groups()
            if result is None:
                begun[thread, name] = (number, file)
            else:
                calls.append(Call(name, file, int(result), number, number))
        elif found := re.match(r"(\d+) +<\.\.\. (\w+) resumed>.*= (-?\d+)", line):
            thread, name, result = found.groups()
            began, file = begun.pop((thread, name))
            calls.append(Call(name, file, int(result), began, number))
    return calls


def assert_answers_follow_syncs(calls: list[Call], answers: int = 200) -> None:
    """On each connection: a request read, then a sync of the log started and ended, then the answer."""
    read_at: dict[str, int] = {}
    syncs: list[Call] = []
    answered = 0
    for call in sorted(calls, key=lambda call: call.ended):
        if call.name in ("fsync", "fdatasync") and call.file.endswith("store.sqlite-wal"):
            assert call.result == 0
            syncs.append(call)
        elif not re.match(r"socket|TCP", call.file) or call.result <= 0:
            continue
        elif call.name in ("read", "recvfrom", "recvmsg"):
            read_at[call.file] = call.ended
        elif call.file in read_at:
            request = read_at.pop(call.file)
            waited = any(sync.began > request and sync.ended < call.began for sync in syncs)
            assert waited, f"an answer left before a sync: {call}"
            answered += 1
    assert answered >= answers, "the trace is not whole"


async def test_a_killed_server_with_the_end_of_its_log_cut_off_serves_a_prefix(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        client = await Client.connect(server)
        for i in range(40):
            assert (await client.put(f"map-{i:02}", str(i)))[0] == 201
        server.kill()
    log = tmp_path / "data" / "store.sqlite-wal"
    whole, end = log.read_bytes(), log.stat().st_size
    seen = []
    for cut in (0, 1, 5_000, 20_011):
        log.write_bytes(whole[: end - cut])
        copy = tmp_path / f"cut-{cut}"
        # Without its kubeconfig, which names the port of before until the server has written its own.
        shutil.copytree(tmp_path / "data", copy, ignore=shutil.ignore_patterns("kubeconfig"))
        with ServerProcess(copy) as server:
            values = await (await Client.connect(server)).values()
        assert values == {f"map-{i:02}": str(i) for i in range(len(values))}
        seen.append(len(values))
    assert seen[0] == 40
    assert seen == sorted(seen, reverse=True)
    assert seen[-1] < 40


@pytest.mark.root
async def test_a_full_disk_refuses_writes_serves_reads_and_recovers(tmp_path: Path) -> None:
    acknowledged: dict[str, str] = {}
    with small_disk(tmp_path / "disk", "6m") as disk, ServerProcess(disk.path / "data") as server:
        ballast = disk.path / "ballast"
        ballast.write_bytes(bytes(2 * MB))
        client = await Client.connect(server)
        refusals = 0
        for i in range(200):
            value = f"{i}:" + "x" * 60_000
            code, answer = await client.put(f"map-{i}", value)
            if code == 201:
                acknowledged[f"map-{i}"] = value
                continue
            assert code == 500
            assert "full" in answer["message"]
            refusals += 1
            if refusals == 5:
                break
        assert refusals == 5
        assert len(acknowledged) > 10
        assert await client.values() == acknowledged
        ballast.unlink()
        code, _ = await client.put("after", "room")
        assert code == 201
        acknowledged["after"] = "room"
        server.kill()
        server.start()
        assert await (await Client.connect(server)).values() == acknowledged
