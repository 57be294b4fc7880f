"""What a request is authorised for is what it does: one reading of path and query feeds both.

A user who may touch one secret by its name asks for secrets in every way that a path and a query can be written.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.kubernetes.access import MASTERS, UserInfo
from koord.api.text.field_selector import escape
from koord_minicluster.apiserver.builtin.resources import builtin_resources
from koord_minicluster.apiserver.events import Entry, Index
from koord_minicluster.apiserver.listing import parse_filter
from koord_minicluster.apiserver.request_info import request_info
from koord_minicluster.apiserver.routing import check_route
from koord_minicluster.apiserver.server import ApiServer, ServeOptions
from koord_minicluster.apiserver.status import StatusError
from tests.minicluster.apiserver.test_serving import tls

TOKENS: Final = {"root": UserInfo("root", groups=(MASTERS,)), "one": UserInfo("one")}
PLACES: Final = ("x/a", "x/b", "y/a", "y/b")
SECRETS: Final = next(resource for resource in builtin_resources() if resource.plural == "secrets")

ROOTS: Final = (
    "/api/v1/", "/api/v1/watch/", "//api/v1/", "/api//v1/", "/api/v1//", "/./api/v1/", "/livez/../api/v1/",
    "/api/v1/watch/watch/", "/api/v1/proxy/", "/api/v1/watch%2f", "/api/v1/x/../watch/",
)  # fmt: skip
WHERES: Final = (
    "namespaces/x/secrets", "namespaces/y/secrets", "secrets", "namespaces/x%2fsecrets", "namespaces//secrets",
    "namespaces/x/../y/secrets", "namespaces/x%2f..%2fy/secrets", "namespaces/x//secrets",
    "namespaces/x/status/secrets",
)  # fmt: skip
TAILS: Final = ("", "/", "/a", "/b", "/a/", "/a%2fb", "/a/../b", "/a%00", "/a/status", "//a", "/a,b", "/%61", "/a%3F")
QUERIES: Final = (
    "",
    "watch=1",
    "fieldSelector=metadata.name%3Da",
    "fieldSelector=metadata.name%3Da&watch=true",
    "fieldSelector=metadata.name%3D%3Da,type%3DOpaque",
    "fieldSelector=metadata.name!%3Da&watch=1",
    "fieldSelector=metadata.name%3Da&fieldSelector=metadata.name%3Db&watch=1",
    "fieldSelector=metadata.name%3Db&fieldSelector=metadata.name%3Da&watch=1",
    "fieldSelector=&fieldSelector=metadata.name%3Da",
    "fieldSelector=type!%3Dfoo%5C,metadata.name%3Da",
    "fieldSelector=type!%3Dfoo%5C%5C,metadata.name%3Da",
    "fieldSelector=metadata.namespace%3Dy,metadata.name%3Da",
    "watch=0&watch=1",
    "limit=1&resourceVersion=0",
)


def secret(place: str) -> dict[str, Any]:
    namespace, name = place.split("/")
    meta = {"name": name, "namespace": namespace, "annotations": {"mark": f"[{place}]"}}
    return {"kind": "Secret", "apiVersion": "v1", "metadata": meta, "type": "Opaque"}


def role() -> list[tuple[str, dict[str, Any]]]:
    """Everything on the secret x/a and no other."""
    where, group = "/apis/rbac.authorization.k8s.io/v1/namespaces/x", "rbac.authorization.k8s.io"
    rule = {"apiGroups": [""], "resources": ["secrets", "secrets/status"], "resourceNames": ["a"], "verbs": ["*"]}
    meta = {"metadata": {"name": "one"}}
    bound = {
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "one"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "one"}],
    }
    return [(f"{where}/roles", {**meta, "rules": [rule]}), (f"{where}/rolebindings", {**meta, **bound})]


class Raw:
    """Sends requests literally; clients with a URL type would tidy up first."""

    def __init__(self, server: ApiServer, data_dir: Path) -> None:
        self._host, _, port = server.url.removeprefix("https://").rpartition(":")
        self._port, self._tls = int(port), tls(data_dir)

    async def ask(self, method: str, target: str, body: bytes = b"", token: str = "one", kind: str = "json") -> str:
        reader, writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        head = f"{method} {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n"
        head += f"Content-Type: application/{kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        return answer.decode(errors="replace")


def drawn(seed: int, most: int) -> Iterator[tuple[str, str]]:
    """Requests of all kinds: those that are near an ordinary one first, then some of the rest."""
    targets = {
        f"{root}{where}{tail}?{query}{'&' if query else ''}timeoutSeconds=1"
        for root, where, tail, query in itertools.chain(
            itertools.product(ROOTS[:2], WHERES[:3], TAILS[:4], QUERIES[:4]),
            random.Random(seed).sample([*itertools.product(ROOTS, WHERES, TAILS, QUERIES)], most),
        )
    }
    for at, target in enumerate(sorted(targets)):
        yield ("GET", "GET", "GET", "PATCH", "DELETE", "PUT", "POST")[at % 7], target


async def test_a_user_of_one_secret_sees_and_changes_no_other_however_it_asks(tmp_path: Path) -> None:
    async with ApiServer(ServeOptions(tmp_path, durability="fast", tokens=TOKENS)) as server:
        raw = Raw(server, tmp_path)
        for name in "xy":
            meta = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}
            await raw.ask("POST", "/api/v1/namespaces", encoded(meta), "root")
        for path, obj in [(f"/api/v1/namespaces/{p[0]}/secrets", secret(p)) for p in PLACES] + role():
            assert " 201 " in await raw.ask("POST", path, encoded(obj), "root")
        before = {place: entry.rev for place in PLACES if (entry := server.collection("secrets").get(place))}
        at_once = asyncio.Semaphore(80)

        async def ask(method: str, target: str) -> tuple[str, str, str]:
            patch = {"metadata": {"annotations": {"changed": "yes"}}}
            body = {"PATCH": encoded(patch), "PUT": encoded(secret("x/b")), "POST": encoded(secret("x/b"))}
            kind = "merge-patch+json" if method == "PATCH" else "json"
            async with at_once:
                return method, target, await raw.ask(method, target, body.get(method, b""), kind=kind)

        answers = await asyncio.gather(*(ask(*each) for each in drawn(seed=4, most=150)))
        after = {place: entry.rev for place in PLACES if (entry := server.collection("secrets").get(place))}
    shown = [(method, target) for method, target, answer in answers for p in PLACES[1:] if f"[{p}]" in answer]
    assert not shown
    assert {p: after.get(p) for p in PLACES[1:]} == {p: before[p] for p in PLACES[1:]}
    assert sum("[x/a]" in answer for *_, answer in answers) > 10, "what is allowed is served"
    assert not [answer for answer in answers if " 500 " in answer[2].partition("\r\n")[0]]


def encoded(value: object) -> bytes:
    return msgspec.json.encode(value)


@pytest.mark.parametrize("watch", ["?watch=1", ""])
async def test_a_watch_by_the_old_path_with_a_name_tells_of_that_object_only(tmp_path: Path, watch: str) -> None:
    path = f"/api/v1/{'' if watch else 'watch/'}namespaces/default/secrets"
    path += f"{watch}&fieldSelector=metadata.name%3Da&" if watch else "/a?"
    async with ApiServer(ServeOptions(tmp_path, durability="fast", tokens=TOKENS)) as server:
        raw = Raw(server, tmp_path)
        for name in ("a", "b"):
            obj = secret(f"default/{name}")
            await raw.ask("POST", "/api/v1/namespaces/default/secrets", encoded(obj), "root")
        answer = await raw.ask("GET", f"{path}timeoutSeconds=1", token="root")
        old = "/api/v1/watch/namespaces/default/secrets/a?timeoutSeconds=1"
        mixed = await raw.ask("GET", f"{old}&fieldSelector=type%3DOpaque", token="root")
        posted = await raw.ask("POST", old, token="root")
    assert "[default/a]" in answer
    assert "[default/b]" not in answer
    assert " 400 " in mixed
    assert "fieldSelector metadata.name doesn't match requested name" in mixed
    assert " 405 " in posted


names = st.sampled_from(["a", "b", "a,b", "a=b", "a\\", "", "a/b", ".."])
terms = st.one_of(
    names.map(lambda name: f"metadata.name={escape(name)}"),
    names.map(lambda name: f"metadata.name=={escape(name)}"),
    names.map(lambda name: f"metadata.name!={escape(name)}"),
    names.map(lambda name: f"type=x\\,metadata.name={name}"),
    st.text("metadata.name=!\\, ab", max_size=24),
)
parts = st.sampled_from(["watch", "namespaces", "x", "secrets", "a", "b", "", "..", "status"])


@given(st.lists(parts, min_size=1, max_size=6), st.lists(terms, max_size=3), st.sampled_from(["", "1", "0"]), names)
def test_whatever_is_about_a_name_selects_nothing_else(
    way: list[str], selector: list[str], watch: str, other: str
) -> None:
    query = {"fieldSelector": ",".join(selector), "watch": watch}
    info = request_info("GET", "/api/v1/" + "/".join(way), query)
    if info.verb not in ("list", "watch") or not info.name:
        return
    try:
        check_route(SECRETS, replace(info, resource="secrets"), "GET")
        wanted = parse_filter(SECRETS, info, query)
    except StatusError:
        return
    fields = {"metadata.name": other, "metadata.namespace": "x", "type": "Opaque"}
    entry = Entry(f"x/{other}", 1, b"", Index({}, fields, ""))
    assert other == info.name or not wanted.matches(entry)
