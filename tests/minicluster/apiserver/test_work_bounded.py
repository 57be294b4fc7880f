"""The work that a request makes grows no faster than n log n with its size, and never holds up the others.

Generated: every way to send an object and to change one, in shapes that make each grow.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from koord_minicluster.apiserver.bodies import decoding, patched
from koord_minicluster.apiserver.builtin.resources import builtin_resources
from koord_minicluster.apiserver.patch import json_patch, managed_fields, merge_patch, strategic
from koord_minicluster.apiserver.status import StatusError
from tests.minicluster.apiserver.test_serving import CONFIG_MAPS, Client, served

RESOURCES: Final = {resource.collection: resource for resource in builtin_resources()}
MAPS, PODS = RESOURCES["configmaps"], RESOURCES["pods"]
JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
NOW: Final = "2026-01-01T00:00:00Z"

Obj = dict[str, Any]


def config_map(**parts: Any) -> Obj:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, **parts}


def many(n: int, name: str = "k") -> dict[str, str]:
    return {f"{name}{i}": "v" for i in range(n)}


def containers(n: int, name: str = "c", **more: Any) -> list[Obj]:
    return [{"name": f"{name}{i}", "image": "i", **more} for i in range(n)]


def pod(listed: list[Obj], n: int = 0) -> Obj:
    meta = {"name": "a", "finalizers": finalizers(n)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {"containers": listed}}


def finalizers(n: int) -> list[str]:
    return [f"x/f{i}" for i in range(n)]


def mapped(n: int) -> Obj:
    return config_map(data=many(n))


def nested(depth: int) -> Obj:
    value: Obj = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def each(n: int, **operation: str) -> list[Obj]:
    """An operation n times, with the number in place of the braces."""
    return [{key: text.replace("{}", str(i)) for key, text in operation.items()} for i in range(n)]


def passed_on(n: int, kind: str) -> list[Obj]:
    return each(n, **{"op": kind, "from": "/data/k{}", "path": "/data/m{}"})


def field(number: int, payload: bytes) -> bytes:
    return bytes([number << 3 | 2]) + varint(len(payload)) + payload


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def protobuf(n: int) -> bytes:
    """A config map of n entries."""
    entries = b"".join(field(2, field(1, f"k{i}".encode()) + field(2, b"v")) for i in range(n))
    return b"k8s\0" + field(1, field(1, b"v1") + field(2, b"ConfigMap")) + field(2, field(1, field(1, b"a")) + entries)


def nested_protobuf(n: int) -> bytes:
    inner = b""
    for _ in range(min(n, 3000)):
        inner = field(1, inner)
    return b"k8s\0" + field(1, field(1, b"v1") + field(2, b"ConfigMap")) + field(2, inner)


BODIES: Final[dict[str, tuple[str, Callable[[int], bytes]]]] = {
    "JSON labels": (JSON, lambda n: dumped({"metadata": {"name": "a", "labels": many(n)}})),
    "JSON data with spaces": (JSON, lambda n: json.dumps(config_map(data=many(n)), indent=1).encode()),
    "JSON lists": (JSON, lambda n: b"[" * n),
    "JSON closed lists": (JSON, lambda n: b'{"a":' + b"[" * n + b"]" * n + b"}"),
    "JSON maps": (JSON, lambda n: b'{"a":' * n),
    "JSON one key": (JSON, lambda n: b"{" + b",".join([b'"a":1'] * n) + b"}"),
    "JSON each key twice": (JSON, lambda n: b"{" + b",".join([b'"%d":1' % (i // 2) for i in range(2 * n)]) + b"}"),
    "JSON unknown keys": (JSON, lambda n: b"{" + b",".join(b'"a%d":1' % i for i in range(n)) + b"}"),
    "JSON a text without end": (JSON, lambda n: b'{"a":"' + b"x" * n * 8),
    "JSON halves of pairs": (JSON, lambda n: dumped(config_map(data={"a": "\ud800" * n}))),
    "JSON digits": (JSON, lambda n: b'{"a":' + b"1" * min(n, 4000) + b"}"),
    "YAML lists": (YAML, lambda n: b"[" * n),
    "YAML closed lists": (YAML, lambda n: b"a: " + b"[" * n + b"]" * n),
    "YAML maps": (YAML, lambda n: b"a: " + b"{a: " * n),
    "YAML dashes": (YAML, lambda n: b"- " * n),
    "YAML question marks": (YAML, lambda n: b"? " * n),
    "YAML anchors": (YAML, lambda n: b"".join(b"a%d: &x%d 1\n" % (i, i) for i in range(n))),
    "YAML long anchors": (YAML, lambda n: b"".join(b"a%d: &%s%d 1\n" % (i, b"x" * 300, i) for i in range(n // 20))),
    "YAML a long anchor": (YAML, lambda n: b"a: &" + b"x" * n * 8 + b" 1\nb: *" + b"x" * n * 8),
    "YAML an anchor that is not there": (YAML, lambda n: b"a: *" + b"x" * n * 8),
    "YAML aliases": (YAML, lambda n: b"a: &x [1, 2]\n" + b"".join(b"b%d: *x\n" % i for i in range(n))),
    "YAML one key": (YAML, lambda n: b"a: 1\n" * n),
    "YAML documents": (YAML, lambda n: b"---\n" * n),
    "YAML quotes": (YAML, lambda n: b'"' * n),
    "YAML a long line": (YAML, lambda n: b"a: " + b"x " * n * 4),
    "YAML a long key": (YAML, lambda n: b"x" * n * 8 + b": 1"),
    "YAML lines of text": (YAML, lambda n: b"a: |\n" + b" x\n" * n),
    "YAML escapes": (YAML, lambda n: b'a: "' + b"\\n" * n + b'"'),
    "YAML tags": (YAML, lambda n: b"%TAG !a! x\n" * n),
    "YAML comments": (YAML, lambda n: b"# a\n" * n),
    "protobuf entries": (PROTOBUF, protobuf),
    "protobuf in protobuf": (PROTOBUF, nested_protobuf),
}  # fmt: skip


def dumped(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def read(patch: object, media_type: str) -> Any:
    return patched.read(dumped(patch), media_type).value


def patching(obj: Obj, operations: list[Obj]) -> Callable[[], object]:
    return lambda: json_patch.apply(obj, read(operations, patched.JSON_PATCH))


def strategically(obj: Obj, patch: Obj) -> Callable[[], object]:
    return lambda: strategic.apply(obj, read(patch, patched.STRATEGIC_PATCH), PODS.schema)


def applying(live: Obj | None, applied: Obj, manager: str = "m") -> Callable[[], Obj]:
    return lambda: managed_fields.apply(
        live, applied, manager=manager, force=False, schema=PODS.schema, api_version="v1", now=NOW, kind="Pod"
    )


def ordered(listed: list[Obj], *names: str) -> Obj:
    return {"spec": {"$setElementOrder/containers": [{"name": name} for name in names], "containers": listed}}


def names(n: int, name: str = "c") -> list[str]:
    return [f"{name}{i}" for i in range(n)]


def deletions(n: int) -> list[Obj]:
    return [{"name": name, "$patch": "delete"} for name in names(n)]


PATCHES: Final[dict[str, Callable[[int], Callable[[], object]]]] = {
    "JSON patch adds": lambda n: patching(config_map(data={}), each(n, op="add", path="/data/k{}", value="")),
    "JSON patch adds to much": lambda n: patching(mapped(4 * n), each(n, op="add", path="/data/n{}", value="")),
    "JSON patch removes": lambda n: patching(mapped(n), each(n, op="remove", path="/data/k{}")),
    "JSON patch tests": lambda n: patching(mapped(n), each(n, op="test", path="/data/k{}", value="v")),
    "JSON patch appends": lambda n: patching({"l": []}, each(n, op="add", path="/l/-", value="{}")),
    "JSON patch moves": lambda n: patching(mapped(n), passed_on(n, "move")),
    "JSON patch copies": lambda n: patching(mapped(n), passed_on(n, "copy")),
    "JSON patch deep": lambda n: patching(nested(200), each(n // 20, op="add", path="/a" * 199, value="")),
    "merge": lambda n: lambda: merge_patch.apply(mapped(n), read({"data": many(n)}, patched.MERGE_PATCH)),
    "strategic merge": lambda n: strategically(pod(containers(n)), {"spec": {"containers": containers(n, tty=True)}}),
    "strategic reversed": lambda n: strategically(pod(containers(n)), {"spec": {"containers": containers(n)[::-1]}}),
    "strategic new": lambda n: strategically(pod(containers(n)), {"spec": {"containers": containers(n, "d")}}),
    "strategic deletions": lambda n: strategically(pod(containers(n)), {"spec": {"containers": deletions(n)}}),
    "strategic order": lambda n: strategically(pod(containers(n)), ordered(containers(1, tty=True), *names(n)[::-1])),
    "strategic order of others": lambda n: strategically(pod(containers(n)), ordered([], *names(n, "d"))),
    "strategic order and deletions": lambda n: strategically(
        pod(containers(n)), ordered([*deletions(n // 2), *containers(9, "e")], *names(9, "e"), *names(n)[n // 2 :])
    ),
    "strategic values": lambda n: strategically(pod([], n), {"metadata": {"finalizers": names(n)}}),
    "strategic same values": lambda n: strategically(pod([], n), {"metadata": {"finalizers": finalizers(n)}}),
    "strategic values taken out": lambda n: strategically(
        pod([], n), {"metadata": {"$deleteFromPrimitiveList/finalizers": finalizers(n)}}
    ),
    "strategic order of values": lambda n: strategically(
        pod([], n), {"metadata": {"$setElementOrder/finalizers": finalizers(n)[::-1]}}
    ),
    "strategic kept keys": lambda n: lambda: strategic.apply(
        mapped(n), {"data": {"$retainKeys": [*many(n)]}}, MAPS.schema
    ),
    "apply new": lambda n: applying(None, pod(containers(n))),
    "apply again": lambda n: applying(applying(None, pod(containers(n)))(), pod(containers(n, tty=True))),
    "apply conflicts": lambda n: applying(applying(None, pod(containers(n)))(), pod(containers(n, image="j")), "other"),
    "apply reversed": lambda n: applying(pod(containers(n)), pod(containers(n)[::-1])),
    "apply one item often": lambda n: applying(None, pod(containers(1) * n)),
}  # fmt: skip


def cost_of(call: Callable[[], object]) -> int:
    """How many functions are called, of Python or C: a figure that does not depend on the machine."""
    calls = 0

    def count(_frame: object, _event: str, _argument: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        with suppress(StatusError):
            call()
    finally:
        sys.setprofile(None)
    return calls


def cpu_of(call: Callable[[], object]) -> float:
    began_s = time.thread_time()
    with suppress(StatusError):
        call()
    return time.thread_time() - began_s


def assert_in_proportion(made: Callable[[int], Callable[[], object]]) -> None:
    """Four times the size costs at most about four times as much. What loops without calls shows in the time."""
    n = 600
    cost_of(made(n))
    few, much = cost_of(made(n)), cost_of(made(4 * n))
    assert much <= 5 * few + 2000, f"{few} calls for {n}, {much} for {4 * n}"
    small_s = min(cpu_of(made(n)) for _ in range(3))
    large_s = min(cpu_of(made(4 * n)) for _ in range(2))
    assert large_s <= 10 * small_s + 0.02, f"{small_s * 1000:.1f} ms for {n}, {large_s * 1000:.1f} ms for {4 * n}"


@pytest.mark.parametrize(("content_type", "body"), BODIES.values(), ids=BODIES.keys())
def test_reading_a_body_costs_in_proportion_to_it(content_type: str, body: Callable[[int], bytes]) -> None:
    def reading(n: int) -> Callable[[], object]:
        text = body(n)
        return lambda: decoding.decode(MAPS, text, content_type, "Strict")

    assert_in_proportion(reading)


@pytest.mark.parametrize("made", PATCHES.values(), ids=PATCHES.keys())
def test_a_patch_costs_in_proportion_to_it_and_its_object(made: Callable[[int], Callable[[], object]]) -> None:
    assert_in_proportion(made)


def test_copies_of_copies_are_refused_before_they_take_memory() -> None:
    double = [{"op": "copy", "from": "/data", "path": f"/data/c{i}"} for i in range(40)]
    with pytest.raises(StatusError) as refused:
        json_patch.apply(config_map(data={"a": "x" * 50}), double)
    assert refused.value.code == 422


LONG: Final = "1" * 5000


async def test_numbers_of_any_length_are_refused_as_out_of_range(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        await client.ask("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
        pod_ = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}}
        assert (await client.ask("POST", "/api/v1/namespaces/default/pods", pod_))[0] == 201
        logs = "/api/v1/namespaces/default/pods/p/log"
        for path in (
            f"{CONFIG_MAPS}?limit={LONG}", f"{CONFIG_MAPS}?resourceVersion={LONG}", f"{logs}?tailLines={LONG}",
            f"{logs}?limitBytes={LONG}", f"{logs}?sinceSeconds={LONG}", f"{CONFIG_MAPS}?timeoutSeconds={LONG}&watch=1",
        ):  # fmt: skip
            code, _, body = await client.ask("GET", path)
            assert code == 400, (path[:60], body)
            assert b"value out of range" in body
        patch = [{"op": "test", "path": f"/metadata/finalizers/{LONG}", "value": 1}]
        code, _, _ = await client.ask("PATCH", f"{CONFIG_MAPS}/a", patch, **{"Content-Type": patched.JSON_PATCH})
        assert code == 422
        code, _, body = await client.ask(
            "PUT", f"{CONFIG_MAPS}/a", {"metadata": {"name": "a", "resourceVersion": LONG}}
        )
        assert code == 409, body


@pytest.mark.parametrize("asked", [2**63 - 1, None])
async def test_a_pod_with_the_longest_grace_period_can_still_be_deleted(tmp_path: Path, asked: int | None) -> None:
    path = "/api/v1/namespaces/default/pods"
    async with served(tmp_path) as client:
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "nodeName": "n",
            "terminationGracePeriodSeconds": 2**63 - 1,
        }
        await client.ask("POST", path, {"metadata": {"name": "p"}, "spec": spec})
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": asked}
        assert (await client.ask("DELETE", f"{path}/p", options))[0] == 200
        assert (await client.ask("DELETE", f"{path}/p?gracePeriodSeconds=0"))[0] == 200
        assert (await client.ask("GET", f"{path}/p"))[0] == 404


LARGE: Final[dict[str, tuple[str, str, bytes, str]]] = {
    "new labels": ("POST", CONFIG_MAPS, dumped({"metadata": {"name": "b", "labels": many(60_000)}}), JSON),
    "YAML lists": ("POST", CONFIG_MAPS, b"[" * (3 << 20), YAML),
    "YAML of one key": ("POST", CONFIG_MAPS, b"a: 1\n" * 60_000, YAML),
    "labels": (
        "PATCH", f"{CONFIG_MAPS}/a", dumped({"metadata": {"labels": many(40_000)}}), patched.MERGE_PATCH,
    ),
    "apply": (
        "PATCH", f"{CONFIG_MAPS}/a?fieldManager=m", json.dumps(config_map(data=many(30_000)), indent=1).encode(),
        "application/apply-patch+yaml",
    ),
    "delete options": ("DELETE", f"{CONFIG_MAPS}/a", b"{" * (1 << 20), JSON),
}  # fmt: skip


@pytest.mark.parametrize("case", LARGE.values(), ids=LARGE.keys())
async def test_a_large_request_holds_up_nobody(tmp_path: Path, case: tuple[str, str, bytes, str]) -> None:
    assert await _longest_pause_s(tmp_path, *case) < 0.1


async def _longest_pause_s(folder: Path, method: str, path: str, body: bytes, content_type: str) -> float:
    """Of the server's loop, while it answers. By the CPU time of this process: a busy machine pauses it, too."""
    async with served(folder) as client:
        await client.ask("POST", CONFIG_MAPS, {"metadata": {"name": "a"}})
        worst_s, done = 0.0, asyncio.Event()

        async def watch_the_loop() -> None:
            nonlocal worst_s
            while not done.is_set():
                began_s = time.process_time()
                await asyncio.sleep(0.005)
                worst_s = max(worst_s, time.process_time() - began_s)

        watching = asyncio.create_task(watch_the_loop())
        code = await sent(client, method, path, body, content_type)
        done.set()
        await watching
    assert code < 500
    return worst_s


async def sent(client: Client, method: str, path: str, body: bytes, content_type: str) -> int:
    headers = {"Authorization": "Bearer root", "Content-Type": content_type}
    async with client.session.request(method, client.server.url + path, data=body, headers=headers) as answer:
        await answer.read()
        return answer.status
