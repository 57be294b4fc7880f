"""Writes down a real API server's answers to all bodies: python -m tests.minicluster.apiserver.bodies.record"""

from __future__ import annotations

import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.control_plane import ControlPlane
from tests.minicluster.apiserver.bodies import builtin, custom, definitions
from tests.waiting import until

DATA = Path(__file__).parent.parent / "data"
Json = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
VALIDATIONS = ("Ignore", "Warn", "Strict")
AT_ONCE = 12
DROPPED = ("uid", "creationTimestamp", "resourceVersion", "managedFields", "generation", "namespace")


class RealServer:
    """Requests to a real server, as an administrator."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._context = ssl.create_default_context(cafile=str(plane.dir / "ca.crt"))

    def send(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> tuple[int, Any, list[str]]:
        data = (
            body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        )
        request = urllib.request.Request(
            self._plane.url + path,
            method=method,
            data=None if body is None else data,
            headers={"Authorization": "Bearer admin-token", "Content-Type": content_type},
        )
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=60) as answer:
                return answer.status, json.load(answer), _warnings(answer.headers)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error), _warnings(error.headers)

    def define(self, definition: Json, ready: str) -> None:
        code, body, _ = self.send("POST", CRDS, definition)
        assert code == 201, body
        until(lambda: self._is_served(ready), what=definition["metadata"]["name"])

    def _is_served(self, path: str) -> bool:
        try:
            return self.send("GET", path)[0] == 200
        except ValueError:
            # Not served yet: a plain 404, which is not JSON.
            return False


def _warnings(headers: Any) -> list[str]:
    return [json.loads(value.split(" ", 2)[2]) for value in headers.get_all("Warning") or []]


def decoded(server: RealServer, body: builtin.Body, validation: str) -> Json:
    """The part of an answer that decoding decides: a refusal, or warnings."""
    path = f"{body.path}?dryRun=All&fieldValidation={validation}"
    code, answer, warnings = server.send("POST", path, body.text, body.content_type)
    if code in (201, 422):
        return {"warnings": warnings}
    return {"code": code, "reason": answer.get("reason"), "message": answer["message"]}


def kept(server: RealServer, body: builtin.Body) -> Json:
    code, answer, _ = server.send("POST", f"{body.path}?dryRun=All", body.text)
    assert code == 201, answer
    return without_times(answer)


def without_times(obj: Json) -> Json:
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key not in DROPPED}}


def outcome(code: int, answer: Json, warnings: list[str]) -> Json:
    """The whole of an answer to a write of a custom object or a definition."""
    if code < 300:
        return {"object": without_times(answer), "warnings": warnings}
    if code == 422:
        causes = [[cause.get("field", ""), cause["reason"], cause["message"]] for cause in answer["details"]["causes"]]
        return {"causes": sorted(causes), "warnings": warnings}
    return {"code": code, "reason": answer.get("reason"), "message": answer["message"]}


def changed(server: RealServer, number: int, schema: Json, before: Json, after: Json) -> Json:
    """An update under a schema that became stricter than what is stored."""
    plural = f"changes{number}"
    path = f"/apis/bodies.io/v1/namespaces/default/{plural}"
    definition = json.loads(json.dumps(custom.DEFINITION))
    definition["metadata"]["name"] = f"{plural}.bodies.io"
    definition["spec"]["names"] = {"plural": plural, "kind": f"Change{number}"}
    version = definition["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"] = {"type": "object", "properties": {"spec": custom.LOOSE}}
    server.define(definition, path)
    head = {"apiVersion": "bodies.io/v1", "kind": f"Change{number}", "metadata": {"name": "a"}}
    code, stored, _ = server.send("POST", path, {**head, "spec": before})
    assert code == 201, stored
    strict = {"type": "object", "properties": {"spec": schema}}
    patch = {"spec": {"versions": [{**version, "schema": {"openAPIV3Schema": strict}}]}}
    code, answer, _ = server.send("PATCH", f"{CRDS}/{plural}.bodies.io", patch, "application/merge-patch+json")
    assert code == 200, answer
    # The new schema is served a moment after it is stored. Some schemas still accept the probe.
    probe = {**head, "metadata": {"name": "probe"}, "spec": before}
    with suppress(TimeoutError):
        until(lambda: server.send("POST", f"{path}?dryRun=All", probe)[0] == 422, within_s=10)
    time.sleep(0.5)
    return outcome(*server.send("PUT", f"{path}/a?dryRun=All", {**stored, "spec": after}))


def changes(server: RealServer) -> Json:
    """Each has a kind of its own, and is mostly waiting until the server knows it."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        asked = {
            name: threads.submit(changed, server, number, *case)
            for number, (name, case) in enumerate(custom.CHANGES.items())
        }
        return {name: answer.result() for name, answer in asked.items()}


def answers(server: RealServer) -> Json:
    server.define(custom.DEFINITION, custom.PATH)
    tables = {**builtin.MALFORMED, **builtin.MISTYPED, **builtin.STRICT}
    return {
        "builtin": {
            name: {validation: decoded(server, body, validation) for validation in VALIDATIONS}
            for name, body in tables.items()
        },
        "kept": {name: kept(server, body) for name, body in builtin.KEPT.items()},
        "custom": {
            name: {
                validation: outcome(
                    *server.send("POST", f"{custom.PATH}?dryRun=All&fieldValidation={validation}", text)
                )
                for validation in VALIDATIONS
            }
            for name, text in custom.BODIES.items()
        },
        "changes": changes(server),
        "definitions": {
            name: outcome(*server.send("POST", f"{CRDS}?dryRun=All", definition))
            for name, definition in definitions.DEFINITIONS.items()
        },
    }


def main() -> None:
    with ControlPlane() as plane:
        server = RealServer(plane)
        version = server.send("GET", "/version")[1]["gitVersion"]
        recorded = {"server": version, "date": time.strftime("%Y-%m-%d", time.gmtime()), **answers(server)}
    (DATA / "bodies.json").write_text(json.dumps(recorded, indent=1, ensure_ascii=True) + "\n")
    sys.stderr.write(f"recorded the answers of {version}\n")


if __name__ == "__main__":
    main()
