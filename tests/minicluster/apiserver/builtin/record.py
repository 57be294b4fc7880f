"""Asks a real API server all cases, and writes its answers down: python -m tests.minicluster.apiserver.builtin.record

Admission plugins that add to objects are off: this is about what the kinds themselves do.
"""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.control_plane import ControlPlane
from tests.minicluster.apiserver.builtin.case import CLUSTER_WIDE, PATHS, Case, Obj, merged
from tests.minicluster.apiserver.builtin.cases_tables import CANDIDATE_FIELDS, SAMPLES
from tests.minicluster.apiserver.builtin.tables_of_cases import TABLES

DATA = Path(__file__).parent.parent / "data"
PLUGINS_OFF = (
    "DefaultTolerationSeconds,Priority,TaintNodesByCondition,StorageObjectInUseProtection,DefaultStorageClass,"
    "RuntimeClass,LimitRanger,ResourceQuota,DefaultIngressClass,PodTopologyLabels,PersistentVolumeClaimResize"
)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
DROPPED = ("uid", "creationTimestamp", "resourceVersion", "managedFields", "namespace")


class RealServer:
    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._context = ssl.create_default_context(cafile=str(plane.dir / "ca.crt"))

    def send(self, method: str, path: str, body: object = None, accept: str = "") -> tuple[int, Obj, list[str]]:
        request = urllib.request.Request(
            self._plane.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": "Bearer admin-token",
                "Content-Type": "application/json",
                "Accept": accept or "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=60) as answer:
                return answer.status, json.load(answer), _warnings(answer.headers)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error), _warnings(error.headers)


def _warnings(headers: Any) -> list[str]:
    values = headers.get_all("Warning") or []
    return [json.loads(value.split(" ", 2)[2]) for value in values]


def path_of(obj: Obj) -> str:
    version, kind = obj["apiVersion"], obj["kind"]
    root = "/apis/" + version if "/" in version else "/api/" + version
    within = "" if kind in CLUSTER_WIDE else "/namespaces/cases"
    return f"{root}{within}/{PATHS[version, kind]}"


def named(obj: Obj, number: int) -> Obj:
    meta = dict(obj.get("metadata") or {})
    if "name" not in meta:
        meta["name"] = f"case-{number}"
    elif not meta["name"]:
        del meta["name"]
    return {**obj, "metadata": meta}


def answer(server: RealServer, case: Case, number: int) -> Obj:
    path = path_of(case.obj)
    code, body, warnings = server.send("POST", path, named(case.obj, number))
    created = body
    if case.change is not None:
        assert code == 201, (case.id, body)
        where = f"{path}/{body['metadata']['name']}"
        if case.before is not None:
            code, created, _ = server.send("PUT", f"{where}/status", merged(created, case.before))
            assert code == 200, (case.id, created)
        if case.subresource:
            where += f"/{case.subresource}"
        code, body, warnings = server.send("PUT", where, merged(created, case.change))
    kept: Obj = {"code": code, **cleaned(body)}
    if warnings and code < 300:
        kept["warnings"] = warnings
    if code < 300:
        server.send("DELETE", f"{path}/{body['metadata']['name']}?gracePeriodSeconds=0")
    return kept


def table_answer(server: RealServer, title: str, obj: Obj, status: Obj | None, number: int) -> Obj:
    """A table's row of an object in some state, and what a delete of it answers."""
    path = path_of(obj)
    code, created, _ = server.send("POST", path, named(obj, number))
    assert code == 201, (title, created)
    where = f"{path}/{created['metadata']['name']}"
    if status is not None:
        code, created, _ = server.send("PUT", f"{where}/status", merged(created, {"status": status}))
        assert code == 200, (title, created)
    began_s = time.time()
    code, table, _ = server.send("GET", where, accept=TABLE)
    ended_s = time.time()
    assert code == 200, (title, table)
    row = table["rows"][0]
    columns = [
        [definition["name"], definition["type"], definition["format"], definition["priority"]]
        for definition in table["columnDefinitions"]
    ]
    _, deleted, _ = server.send("DELETE", f"{where}?gracePeriodSeconds=0")
    created["metadata"].pop("managedFields", None)
    return {
        "object": created,
        "between_s": [began_s, ended_s],
        "columns": columns,
        "cells": row["cells"],
        "conditions": row.get("conditions"),
        "row_kind": row["object"]["kind"],
        "deleted": deleted["kind"],
    }


def selectable(server: RealServer, obj: Obj) -> list[str]:
    """The fields that can select objects of a kind."""
    path = path_of(obj)
    return [field for field in CANDIDATE_FIELDS if server.send("GET", f"{path}?fieldSelector={field}%3Dx")[0] == 200]


def tables(server: RealServer) -> Obj:
    rows = {
        f"{obj['kind']}: {title}": table_answer(server, title, obj, status, 1000 + i)
        for i, (title, obj, status) in enumerate(SAMPLES)
    }
    kinds = {f"{obj['apiVersion']} {obj['kind']}": obj for _, obj, _ in SAMPLES}
    return {"rows": rows, "fields": {kind: selectable(server, obj) for kind, obj in kinds.items()}}


def cleaned(body: Obj) -> Obj:
    if body.get("kind") == "Status":
        causes = (body.get("details") or {}).get("causes")
        kept = {"reason": body.get("reason", "")}
        return {**kept, "causes": causes} if causes else {**kept, "message": body.get("message", "")}
    return {"object": without_times(body)}


def without_times(obj: Obj) -> Obj:
    meta = {key: value for key, value in obj["metadata"].items() if key not in DROPPED}
    if "generateName" in meta:
        meta["name"] = ""
    kept = {**obj, "metadata": meta}
    if obj["kind"] == "Namespace" and "generateName" in meta:
        meta["labels"] = {}
    _mask(kept, obj["metadata"].get("uid", ""))
    if obj["kind"] == "Pod":
        for condition in (kept.get("status") or {}).get("conditions") or ():
            condition["lastTransitionTime"] = None
    return kept


def _mask(obj: Obj, uid: str) -> None:
    """What is another each time: addresses, uids in labels, times of the server's clock."""
    spec = obj.get("spec") or {}
    match obj["kind"]:
        case "Service":
            if spec.get("clusterIP", "None") != "None":
                spec["clusterIP"], spec["clusterIPs"] = "<ip>", ["<ip>"]
            for port in spec.get("ports") or ():
                if port.get("nodePort"):
                    port["nodePort"] = 1
        case "Job":
            for labels in (
                obj["metadata"].get("labels") or {},
                ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {},
                (spec.get("selector") or {}).get("matchLabels") or {},
            ):
                for key, value in labels.items():
                    if value == uid:
                        labels[key] = "<uid>"
        case "PersistentVolume":
            if (obj.get("status") or {}).get("lastPhaseTransitionTime"):
                obj["status"]["lastPhaseTransitionTime"] = "2026-01-01T00:00:00Z"


@contextmanager
def real_server() -> Iterator[RealServer]:
    with ControlPlane(f"--disable-admission-plugins={PLUGINS_OFF}") as plane:
        server = RealServer(plane)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cases"}}
        server.send("POST", "/api/v1/namespaces", namespace)
        yield server


def record() -> None:
    with real_server() as server:
        version = server.send("GET", "/version")[1]["gitVersion"]
        kept: dict[str, Obj] = {}
        for name, table in TABLES.items():
            kept[name] = {"answers": {case.id: answer(server, case, i) for i, case in enumerate(table)}}
        kept["tables"] = tables(server)
        for name, part in kept.items():
            whole = {"server": version, "recorded": time.strftime("%Y-%m-%d"), **part}
            (DATA / f"builtin_{name}.json").write_text(json.dumps(whole, indent=1, sort_keys=True) + "\n")
            print(f"builtin_{name}.json: {len(part.get('answers') or part['rows'])} answers")


if __name__ == "__main__":
    record()
