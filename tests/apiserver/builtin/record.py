"""Asks a real API server all cases, and writes its answers down: python -m tests.apiserver.builtin.record

Admission plugins that add to objects are off: this is about what the kinds themselves do.
"""

from __future__ import annotations

import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.apiserver.builtin.case import CLUSTER_WIDE, PATHS, Case, Obj, merged
from tests.apiserver.builtin.tables_of_cases import TABLES
from tests.control_plane import ControlPlane

DATA = Path(__file__).parent.parent / "data"
PLUGINS_OFF = (
    "DefaultTolerationSeconds,Priority,TaintNodesByCondition,StorageObjectInUseProtection,DefaultStorageClass,"
    "RuntimeClass,LimitRanger,ResourceQuota,DefaultIngressClass,PodTopologyLabels,PersistentVolumeClaimResize"
)
DROPPED = ("uid", "creationTimestamp", "resourceVersion", "managedFields", "namespace")


class RealServer:
    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._context = ssl.create_default_context(cafile=str(plane.dir / "ca.crt"))

    def send(self, method: str, path: str, body: object = None) -> tuple[int, Obj, list[str]]:
        request = urllib.request.Request(
            self._plane.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": "Bearer admin-token", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=30) as answer:
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
                obj["status"]["lastPhaseTransitionTime"] = "<time>"


def record(tables: list[str]) -> None:
    with ControlPlane(f"--disable-admission-plugins={PLUGINS_OFF}") as plane:
        server = RealServer(plane)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cases"}}
        server.send("POST", "/api/v1/namespaces", namespace)
        version = server.send("GET", "/version")[1]["gitVersion"]
        for name in tables or TABLES:
            answers = {case.id: answer(server, case, i) for i, case in enumerate(TABLES[name])}
            whole = {"server": version, "recorded": time.strftime("%Y-%m-%d"), "answers": answers}
            (DATA / f"builtin_{name}.json").write_text(json.dumps(whole, indent=1, sort_keys=True) + "\n")
            print(f"{name}: {len(answers)} answers")


if __name__ == "__main__":
    record(sys.argv[1:])
