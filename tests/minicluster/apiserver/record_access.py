"""Records a real server's decisions about access and CEL rules: `python -m tests.minicluster.apiserver.record_access`.

Writes `RECORDS`: the tests here and of `tests/api/cel` need no server with it.
"""

from __future__ import annotations

import datetime as dt
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.api.cel import cases
from tests.control_plane import ControlPlane
from tests.minicluster.apiserver.access import decisions
from tests.minicluster.apiserver.plain_client import PlainClient
from tests.waiting import until

RECORDS = {
    "access": Path(__file__).parent / "data" / "access.json",
    "cel": Path(cases.__file__).parent / "data" / "cel.json",
}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
SETTLE_S = 20.0
AT_ONCE = 12

Json = dict[str, Any]


def path_of(obj: Json) -> str:
    plural = obj["kind"].lower() + "s"
    namespace = obj["metadata"].get("namespace")
    return f"{RBAC}/namespaces/{namespace}/{plural}" if namespace else f"{RBAC}/{plural}"


def access(server: PlainClient) -> Json:
    for obj in decisions.OBJECTS:
        assert server.post(path_of(obj), obj)[0] == 201, obj
    held = decisions.role("t-held", *decisions.HELD, namespace="default")
    holds = decisions.binding("t-held", "Role/t-held", "User/nobody", namespace="default")
    for obj in (held, holds):
        assert server.post(path_of(obj), obj)[0] == 201
    _until(lambda: server.get(f"{RBAC}/namespaces/default/roles", user="nobody")[0] == 200)
    answers = []
    for user, groups, wanted in decisions.questions():
        code, body = server.post(REVIEWS, decisions.review(user, groups, wanted))
        assert code == 201, body
        answers.append(body["status"])
    grants = {}
    for i, (name, rules) in enumerate(decisions.GRANTS):
        obj = decisions.role(f"t-grant-{i}", *rules, namespace="default")
        code, body = server.post(path_of(obj), obj, user="nobody")
        grants[name] = body["message"] if code == 403 else ""
    return {"answers": answers, "grants": grants}


def rules(server: PlainClient) -> Json:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        asked = {case.name: threads.submit(defined_and_judged, server, i, case) for i, case in enumerate(cases.CASES)}
        found = {name: answer.result() for name, answer in asked.items()}
    faulty = {}
    for i, (name, schema) in enumerate(cases.FAULTY.items()):
        _, body = server.post(CRDS, definition(f"f{i}.example.com", schema, {}))
        faulty[name] = [[c["field"], c["message"]] for c in body.get("details", {}).get("causes", ())]
    return {"cases": found, "faulty": faulty}


def defined_and_judged(server: PlainClient, number: int, case: cases.Case) -> list[Json]:
    """Each case has a kind of its own, and is mostly waiting until the server knows it."""
    group = f"c{number}.example.com"
    code, body = server.post(CRDS, definition(group, case.schema, case.root))
    assert code == 201, (case.name, body)
    path = f"/apis/{group}/v1/namespaces/default/widgets"
    _until(lambda: server.get(path)[0] == 200)
    return judged(server, path, group, case)


def judged(server: PlainClient, path: str, group: str, case: cases.Case) -> list[Json]:
    answers = []
    for i, spec in enumerate(case.specs):
        first, *rest = spec if isinstance(spec, list) else [spec]
        obj = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": f"o{i}"}, "spec": first}
        answers.append(_causes(*_served(server, path, obj)))
        answers += [_causes(*server.patch(f"{path}/o{i}", {"spec": change})) for change in rest]
    return answers


def definition(group: str, spec: Json, root: Any) -> Json:
    schema = {"type": "object", "properties": {"spec": spec}, **root}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version],
        },
    }


def _served(server: PlainClient, path: str, obj: Json) -> tuple[int, Any]:
    """A kind that is listed may still be unknown to a create for a moment."""

    def answer() -> tuple[int, Any] | None:
        code, body = server.post(path, obj)
        return (code, body) if code != 404 else None

    answered = until(answer, SETTLE_S)
    assert answered is not None
    return answered


def _causes(code: int, body: Any) -> Json:
    causes = body.get("details", {}).get("causes", []) if code >= 400 else []
    return {"code": code, "causes": [[c.get("field", ""), c["reason"], c["message"]] for c in causes]}


def _until(reached: Any) -> None:
    until(reached, SETTLE_S)


def real_answers(plane: ControlPlane) -> dict[str, Json]:
    tokens = {"admin": "admin-token", "nobody": "nobody-token"}
    server = PlainClient(plane.url, plane.dir / "ca.crt", tokens)
    about = {"server": server.get("/version")[1]["gitVersion"], "recorded": dt.date.today().isoformat()}
    return {"access": {"about": about, **access(server)}, "cel": {"about": about, **rules(server)}}


def main() -> None:
    with ControlPlane() as plane:
        found = real_answers(plane)
    for name, answers in found.items():
        RECORDS[name].write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
