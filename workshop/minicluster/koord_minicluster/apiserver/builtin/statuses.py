"""Statuses that authors may not set: a new object begins with an empty one; and what writers of statuses may not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from koord.api import builtin_schemas as schemas
from koord_minicluster.apiserver.bodies import typed
from koord_minicluster.apiserver.builtin.checks import Faults, Part, not_negative
from koord_minicluster.apiserver.resource import Obj
from koord_minicluster.apiserver.status import invalid


@cache
def _blank(group: str, version: str, kind: str) -> dict[str, Any]:
    blank: dict[str, Any] = typed.empty(schemas.schema_for(group, version, kind).properties["status"])
    return blank


def blank_status(group: str, version: str, kind: str) -> Callable[[Obj], None]:
    """Sets the status that a new object of this kind has, with the fields that always appear."""

    def prepare(obj: Obj) -> None:
        obj["status"] = dict(_blank(group, version, kind))

    return prepare


def keep_metadata(new: Obj, old: Obj, keys: Iterable[str]) -> None:
    """What writers of a status may not touch, though it is not in the spec."""
    for key in keys:
        if key in old["metadata"]:
            new["metadata"][key] = old["metadata"][key]
        else:
            new["metadata"].pop(key, None)


def counters(faults: Faults, status: Part, keys: Iterable[str]) -> None:
    not_negative(faults, status, keys, "status")


def at_most(faults: Faults, status: Part, key: str, limit: str, text: str) -> None:
    count = status.get(key, 0)
    if count > status.get(limit, 0):
        faults.append(invalid(f"status.{key}", count, text))


def replica_counts(faults: Faults, status: Part, *within_replicas: str) -> None:
    """Counts of replicas that are part of all replicas."""
    for key in within_replicas:
        at_most(faults, status, key, "replicas", "cannot be greater than status.replicas")
    at_most(faults, status, "availableReplicas", "readyReplicas", "cannot be greater than readyReplicas")


def not_decremented(faults: Faults, status: Part, was: Part, key: str) -> None:
    if was.get(key) is not None and (status.get(key) is None or status[key] < was[key]):
        faults.append(invalid(f"status.{key}", status.get(key) or 0, "cannot be decremented"))
