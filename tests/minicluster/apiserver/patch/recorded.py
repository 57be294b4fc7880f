"""Reads the recorded answers of a real server, and compares ours with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from koord.api import builtin_schemas as schemas
from koord.api.machinery.object_schema import Schema

Obj = dict[str, Any]
DATA = Path(__file__).parents[1] / "data"

DEFAULTED = frozenset(
    [
        "apiVersion",
        "fieldRef",
        "imagePullPolicy",
        "protocol",
        "resources",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "replicas",
        "targetPort",
        "operator",
        "namespace",
        "strategy",
        "progressDeadlineSeconds",
        "revisionHistoryLimit",
        "restartPolicy",
        "dnsPolicy",
        "schedulerName",
        "securityContext",
        "terminationGracePeriodSeconds",
        "rollingUpdate",
        "maxSurge",
        "maxUnavailable",
        "type",
        "sessionAffinity",
        "internalTrafficPolicy",
        "ipFamilies",
        "ipFamilyPolicy",
        "clusterIP",
        "clusterIPs",
        "status",
        "generation",
        "uid",
        "creationTimestamp",
        "resourceVersion",
        "metadata",
        "defaultMode",
        "template",
        "spec",
    ]
)
"Names of fields that the server fills in after a patch."


def load(name: str) -> Obj:
    content: Obj = json.loads((DATA / name).read_text())
    return content


def schema_of(obj: Obj) -> Schema:
    group, _, version = obj["apiVersion"].rpartition("/")
    return schemas.schema_for(group, version, obj["kind"])


def difference(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Where ours is not theirs, apart from defaults, nulls and empty maps and lists, which the server drops or adds."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = []
        for key in {*ours, *theirs}:
            here = f"{path}.{key}"
            mine, his = ours.get(key), theirs.get(key)
            if key.startswith("$"):
                # A directive in what had nothing to merge with is an unknown field, which decoding drops.
                continue
            if not mine and not his and not isinstance(mine, int) and not isinstance(his, int):
                continue
            if key not in ours or mine is None:
                if key not in DEFAULTED:
                    found.append(f"{here}: only the server has {his!r}")
            elif key not in theirs:
                found.append(f"{here}: only we have {mine!r}")
            else:
                found += difference(mine, his, here)
        return found
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [
            fault
            for at, pair in enumerate(zip(ours, theirs, strict=True))
            for fault in difference(*pair, f"{path}[{at}]")
        ]
    if ours == "1000m" and theirs == "1":
        return []
    return [] if ours == theirs else [f"{path}: {ours!r} is not {theirs!r}"]


def with_sorted_causes(status: Obj | None) -> Obj | None:
    """A refusal with its causes in a fixed order: that of several owners is up to the real server's luck."""
    if status is None or "details" not in status:
        return status
    causes = sorted(status["details"].get("causes", []), key=str)
    return {**status, "details": {**status["details"], "causes": causes}}
