"""Asks a real server what patches and applies do, and writes its answers to tests/minicluster/apiserver/data.

    python -m tests.minicluster.apiserver.patch.record

Times, uids and versions are replaced, so that the record changes only when the server's behaviour does.
"""

from __future__ import annotations

import datetime
import http.client
import json
import ssl
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.control_plane import ControlPlane
from tests.minicluster.apiserver.patch.apply_sequences import CUSTOM_KIND, SEQUENCES, Step
from tests.minicluster.apiserver.patch.bases import BASES
from tests.minicluster.apiserver.patch.json_cases import JSON_CASES, MERGE_CASES
from tests.minicluster.apiserver.patch.strategic_cases import CASES
from tests.waiting import until

DATA = Path(__file__).parents[1] / "data"
TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
Obj = dict[str, Any]


class Server:
    def __init__(self, plane: ControlPlane) -> None:
        context = ssl.create_default_context(cafile=str(plane.dir / "ca.crt"))
        self._connection = http.client.HTTPSConnection("127.0.0.1", plane.port, context=context, timeout=30)

    def ask(self, method: str, path: str, body: Any = None, kind: str = "", **query: str) -> tuple[int, Obj]:
        headers = {"Authorization": "Bearer admin-token", "User-Agent": "recorder/1"}
        data = None
        if method in ("POST", "PUT", "PATCH"):
            data = json.dumps(body)
            headers["Content-Type"] = TYPES.get(kind, "application/json")
        self._connection.request(method, f"{path}?{urlencode(query)}" if query else path, data, headers)
        try:
            answer = self._connection.getresponse()
        except http.client.RemoteDisconnected:
            self._connection.close()
            raise AssertionError(f"the server ended the connection on {method} {path} {data}") from None
        text = answer.read()
        return answer.status, json.loads(text) if text.startswith(b"{") else {}


def bare(obj: Obj) -> Obj:
    """An answer without what differs from run to run."""
    if obj.get("kind") == "Status":
        obj.pop("metadata", None)
        return obj
    meta = obj["metadata"]
    for name in ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"):
        meta.pop(name, None)
    return obj


def record_patches(server: Server) -> tuple[Obj, list[Obj], list[Obj]]:
    bases: Obj = {}
    for name, (path, obj) in BASES.items():
        code, answer = server.ask("POST", path, obj)
        assert code == 201, answer
        if "status" in obj:
            code, answer = server.ask("PATCH", f"{path}/base/status", {"status": obj["status"]}, "merge")
            assert code == 200, answer
        bases[name] = bare(answer)
    strategic = []
    for name, base, patch in CASES:
        kind, _, subresource = base.partition("/")
        path = f"{BASES[kind][0]}/base" + (f"/{subresource}" if subresource else "")
        code, answer = server.ask("PATCH", path, patch, "strategic", dryRun="All")
        strategic.append({"name": name, "base": kind, "patch": patch, "code": code, "answer": bare(answer)})
    others = []
    for type_, cases in (("json", JSON_CASES), ("merge", MERGE_CASES)):
        for name, base, patch in cases:
            code, answer = server.ask("PATCH", f"{BASES[base][0]}/base", patch, type_, dryRun="All")
            others.append(
                {"name": name, "type": type_, "base": base, "patch": patch, "code": code, "answer": bare(answer)}
            )
    return bases, strategic, others


def record_sequence(server: Server, name: str, collection: str, steps: list[Step]) -> Obj:
    taken = []
    before: Obj | None = None
    path = f"{collection}/{name}"
    for step in steps:
        if step.pause:
            time.sleep(1.1)
        query = {"fieldManager": step.manager} if step.manager else {}
        if step.force:
            query["force"] = "true"
        target = path + (f"/{step.subresource}" if step.subresource else "")
        body = step.body
        if step.verb == "create":
            code, answer = server.ask("POST", collection, body, **query)
        elif step.verb == "update":
            assert before is not None
            body = json.loads(json.dumps(before))
            step.change(body)
            code, answer = server.ask("PUT", target, body, **query)
        else:
            code, answer = server.ask("PATCH", target, body, step.verb, **query)
        found, after = server.ask("GET", path)
        record = {
            "verb": step.verb,
            "manager": step.manager or "recorder",
            "subresource": step.subresource,
            "force": step.force,
            "body": body,
            "code": code,
        }
        if found == 200 and after != before:
            record["after"] = after
        if code >= 400:
            answer.pop("metadata", None)
            record["answer"] = answer
        taken.append(record)
        before = after if found == 200 else None
    return {"name": name, "collection": collection, "steps": normalised(taken)}


def normalised(steps: list[Obj]) -> list[Obj]:
    """Times counted in seconds from a fixed day in their order, uids and versions numbered."""
    text = json.dumps(steps)
    times: set[str] = set()
    uids: dict[str, None] = {}
    versions: dict[str, None] = {}

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            for key, child in value.items():
                if key in ("time", "creationTimestamp") and isinstance(child, str):
                    times.add(child)
                elif key == "uid" and isinstance(child, str) and len(child) == 36:
                    uids[child] = None
                elif key == "resourceVersion" and isinstance(child, str) and child.isdigit():
                    versions[child] = None
                else:
                    visit(child)
        elif isinstance(value, list):
            for child in value:
                visit(child)

    visit(json.loads(text))
    for index, moment in enumerate(sorted(times)):
        text = text.replace(moment, f"2026-01-01T00:00:{index:02}Z")
    for index, uid in enumerate(uids):
        text = text.replace(uid, f"00000000-0000-0000-0000-{index:012}")
    for index, version in enumerate(versions):
        text = text.replace(f'"resourceVersion": "{version}"', f'"resourceVersion": "{index + 1001}"')
    result: list[Obj] = json.loads(text)
    return result


def write(name: str, version: str, content: Obj) -> None:
    """JSON with one case a line, so that a changed answer is a changed line."""
    head = {"server": version, "recorded": datetime.datetime.now(datetime.UTC).date().isoformat()}
    parts = [f"{json.dumps(key)}:{json.dumps(value)}" for key, value in head.items()]
    for key, value in content.items():
        if isinstance(value, list):
            lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in value)
            parts.append(f"{json.dumps(key)}:[\n{lines}\n]")
        else:
            parts.append(f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}")
    (DATA / name).write_text("{\n" + ",\n".join(parts) + "\n}\n")


def main() -> None:
    with ControlPlane() as plane:
        server = Server(plane)
        version = server.ask("GET", "/version")[1]["gitVersion"]
        bases, strategic, others = record_patches(server)
        write("strategic.json", version, {"bases": bases, "cases": strategic})
        write("json_patch.json", version, {"bases": bases, "cases": others})
        code, answer = server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CUSTOM_KIND)
        assert code == 201, answer
        until(lambda: server.ask("GET", "/apis/example.com/v1/namespaces/default/things")[0] == 200)
        sequences = [
            record_sequence(server, name, collection, steps) for name, (collection, steps) in SEQUENCES.items()
        ]
        write("apply.json", version, {"custom_kind": CUSTOM_KIND, "sequences": sequences})


if __name__ == "__main__":
    main()
