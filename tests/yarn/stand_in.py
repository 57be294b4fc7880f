"""A stand-in for a ResourceManager: speaks its RPC and its REST, and fails on demand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from koord.api.machinery.protobuf import (
    as_bytes,
    as_int,
    as_text,
    delimited,
    fields,
    integer,
    message,
    read_delimited,
    text,
)
from koord.yarn.amount import NOTHING, Amount, of_yarn
from koord.yarn.hadoop.configuration import ResourceManagerAddress, YarnCluster
from koord.yarn.hadoop.messages import resource

REST_STATUS = {"403": 403, "standby": 307}


@dataclass
class StandIn:
    caps: dict[str, Amount]
    "By node id."
    registered: dict[str, Amount] = field(init=False)
    used: dict[str, Amount] = field(default_factory=dict)
    pending: Amount = NOTHING
    is_active: bool = True
    mode: str = ""
    "hang, html, 403, standby, lose-answers, refuse-updates"
    updates: list[tuple[str, Amount, int]] = field(default_factory=list)
    ends_containers: bool = True
    "Whether containers above a cap with a time limit end, which they do at once."
    calls: int = 0
    looks: int = 0
    before_update: Callable[[str, Amount], Awaitable[None]] | None = None
    port: int = 0
    release: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.registered = dict(self.caps)

    @property
    def address(self) -> ResourceManagerAddress:
        at = f"127.0.0.1:{self.port}"
        return ResourceManagerAddress("", at, at, at)

    @property
    def cluster(self) -> YarnCluster:
        return YarnCluster("", (self.address,))

    async def set(self, node_id: str, cap: Amount, timeout_ms: int) -> str:
        if node_id not in self.caps:
            return f"unrecognized node: {node_id}"
        if self.before_update is not None:
            await self.before_update(node_id, cap)
        self.updates.append((node_id, cap, timeout_ms))
        self.caps[node_id] = cap
        if timeout_ms >= 0 and self.ends_containers:
            self.used[node_id] = self.used.get(node_id, NOTHING).least(cap)
        return ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            start = await reader.readexactly(4)
            if self.mode == "hang":
                await self.release.wait()
            elif start == b"hrpc":
                await self._rpc(reader, writer)
            else:
                await self._rest(start, reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    async def _rpc(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readexactly(3)) == bytes((9, 0, 0))
        await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        _, at = read_delimited(frame, 0)
        called, at = read_delimited(frame, at)
        argument, _ = read_delimited(frame, at)
        method = as_text(next(value for number, value in fields(called) if number == 1))
        result, error = await self._answer(method, argument)
        if self.mode == "lose-answers" and method == "updateNodeResource":
            return
        if self.mode == "html":
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n<html>")
            return
        refusal = "org.apache.hadoop.security.AccessControlException"
        if self.mode == "403":
            error = "User root doesn't have permission"
        if self.mode == "refuse-updates" and method == "updateNodeResource":
            # As a real one has it.
            error, refusal = f"{refusal}: User root doesn't have permission", "org.apache.hadoop.yarn.YarnException"
        if self.mode == "standby":
            error, refusal = "ResourceManager rm1 is not Active!", "org.apache.hadoop.ipc.StandbyException"
        if error:
            header = integer(1, 0) + integer(2, 1) + text(4, refusal)
            body = delimited(header + text(5, error))
        else:
            body = delimited(integer(1, 0) + integer(2, 0)) + delimited(result)
        writer.write(len(body).to_bytes(4, "big") + body)
        await writer.drain()

    async def _answer(self, method: str, argument: bytes) -> tuple[bytes, str]:
        if method == "getServiceStatus":
            return integer(1, 1 if self.is_active else 2), ""
        if method == "getClusterNodes":
            self.looks += 1
            return b"".join(message(1, self._report(cap)) for cap in self.caps), ""
        if method == "getQueueInfo":
            waits = integer(10, self.pending.mib) + integer(14, self.pending.vcores)
            return message(1, text(1, "root") + message(10, waits)), ""
        assert method == "updateNodeResource"
        self.calls += 1
        if self.mode == "refuse-updates":
            return b"", ""
        error = ""
        for _, each in fields(argument):
            id_, option = (as_bytes(value) for _, value in fields(as_bytes(each)))
            host, port = (value for _, value in fields(id_))
            told, timeout = (value for _, value in fields(option))
            error = error or await self.set(f"{as_text(host)}:{port!r}", resource(as_bytes(told)), as_int(timeout))
        return b"", error

    def _report(self, node_id: str) -> bytes:
        host, _, port = node_id.rpartition(":")

        def amount(value: Amount) -> bytes:
            return integer(1, value.mib) + integer(2, value.vcores)

        used = self.used.get(node_id, NOTHING)
        return (
            message(1, text(1, host) + integer(2, int(port)))
            + message(4, amount(used))
            + message(5, amount(self.caps[node_id]))
            + integer(7, 2)
        )

    async def _rest(self, start: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = start + await reader.readuntil(b"\r\n\r\n")
        method, path, _ = head.split(b"\r\n")[0].decode().split(" ")
        length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if b"ontent-Length" in line), 0)
        body = await reader.readexactly(length)
        path = path.partition("?")[0]
        status, answer = 200, b"{}"
        if self.mode == "html":
            answer = b"<html>Sign in</html>"
        elif self.mode in REST_STATUS:
            status = REST_STATUS[self.mode]
        elif method == "POST":
            self.calls += 1
            said = json.loads(body)
            cap = of_yarn(said["resource"]["vCores"], said["resource"]["memory"])
            status = 404 if await self.set(path.split("/")[5], cap, said["overCommitTimeout"]) else 200
        elif path.endswith("/nodes"):
            answer = json.dumps({"nodes": {"node": [self._rest_node(cap) for cap in self.caps]}}).encode()
        elif path.endswith("/metrics"):
            waits = {"pendingMB": self.pending.mib, "pendingVirtualCores": self.pending.vcores}
            answer = json.dumps({"clusterMetrics": waits}).encode()
        writer.write(
            b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(answer)) + answer
        )
        await writer.drain()

    def _rest_node(self, node_id: str) -> dict[str, object]:
        def amount(value: Amount) -> dict[str, int]:
            return {"memory": value.mib, "vCores": value.vcores}

        used = self.used.get(node_id, NOTHING)
        return {
            "id": node_id,
            "state": "RUNNING",
            "usedResource": amount(used),
            "totalResource": amount(self.caps[node_id]),
        }


@asynccontextmanager
async def resource_manager(**caps: Amount) -> AsyncIterator[StandIn]:
    """With NodeManagers named `n1:8041` after the keywords."""
    stand_in = StandIn({f"{name}:8041": cap for name, cap in caps.items()})
    server = await asyncio.start_server(stand_in.serve, "127.0.0.1", 0)
    stand_in.port = server.sockets[0].getsockname()[1]
    try:
        yield stand_in
    finally:
        stand_in.release.set()
        server.close()
