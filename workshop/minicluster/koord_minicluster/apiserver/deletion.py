"""Decides how to delete an object. Pure: the object and the options in, the decision out.

An object with finalizers stays, marked as deleted, until they are gone. A kind with graceful deletion (pods) is marked
first with its grace period, and removed when the grace period is zero. A second delete may shorten the grace period,
but never lengthen it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from koord.api.text.timestamp import from_seconds, parse_timestamp
from koord_minicluster.apiserver.list_options import query_flag, query_number
from koord_minicluster.apiserver.resource import Obj, Resource, Strategy
from koord_minicluster.apiserver.status import Cause, conflict, invalid, not_supported, unprocessable

_POLICIES = ("Foreground", "Background", "Orphan", "nil")
MOST_GRACE_S: Final = 100 * 365 * 24 * 3600
"""A hundred years: what is asked for beyond them would end at a time that cannot be written."""
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"

DeletionOptions: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeletionStep:
    """What a delete does: write this mark (None: nothing to write), and remove the object or leave it."""

    mark: Obj | None
    gone: bool


def options_of(query: Mapping[str, str], dry_run: list[str]) -> dict[str, Any]:
    """The options in a query, which count where a request has no body."""
    options: dict[str, Any] = {}
    if "gracePeriodSeconds" in query:
        options["gracePeriodSeconds"] = query_number(query, "gracePeriodSeconds")
    if "orphanDependents" in query:
        options["orphanDependents"] = query_flag(query, "orphanDependents")
    if "propagationPolicy" in query:
        options["propagationPolicy"] = query["propagationPolicy"]
    if dry_run:
        options["dryRun"] = dry_run
    return options


def check_options(options: DeletionOptions) -> None:
    """422 for options that contradict each other or are not known."""
    policy = options.get("propagationPolicy")
    faults: list[Cause] = []
    if policy is not None:
        if options.get("orphanDependents") is not None:
            text = "orphanDependents and deletionPropagation cannot be both set"
            faults.append(invalid("propagationPolicy", policy, text))
        if policy not in _POLICIES[:3]:
            faults.append(not_supported("propagationPolicy", policy, _POLICIES))
    dry_run = options.get("dryRun") or []
    if any(value != "All" for value in dry_run):
        faults.append(not_supported("dryRun", dry_run, ["All"]))
    if faults:
        raise unprocessable("DeleteOptions", "meta.k8s.io", "", faults)


def check_preconditions(resource: Resource, options: DeletionOptions, old: Obj) -> None:
    """409 where the object is not the one that was meant."""
    wanted, meta = options.get("preconditions") or {}, old["metadata"]
    for key, word, why in (
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ):
        value = wanted.get(key)
        if value is not None and value != meta.get(key):
            if resource.strategy.checks_preconditions_first:
                detail = f"Precondition failed: {word} in precondition: {value}, {word} in object meta: {meta.get(key)}"
                raise conflict(resource.plural, resource.group, meta["name"], detail)
            raise conflict(
                resource.kind,
                resource.kind_group,
                meta["name"],
                f"the {word} in the precondition ({value}) does not match the {word} in record ({meta.get(key)}). "
                f"The object might have been {why}",
            )


def outcome(strategy: Strategy, old: Obj, options: DeletionOptions, now_s: float) -> DeletionStep:
    """What a delete with these options makes of the object."""
    meta = dict(old["metadata"])
    mark: Obj = {**old, "metadata": meta}
    graceful, left_s = False, 0
    if strategy.graceful is not None:
        asked_s = options.get("gracePeriodSeconds")
        if not meta.get("deletionTimestamp"):
            graceful, left_s = True, min(strategy.graceful(old, asked_s), MOST_GRACE_S)
            _end_at(meta, now_s + left_s, left_s)
        elif current_s := int(meta.get("deletionGracePeriodSeconds") or 0):
            if asked_s is None or asked_s >= current_s:
                return DeletionStep(None, gone=False)
            graceful, left_s = True, max(asked_s, 0) if asked_s >= 0 else 1
            began_s = parse_timestamp(meta["deletionTimestamp"]) - current_s
            meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = from_seconds(began_s + left_s), left_s
    before = list(meta.get("finalizers") or ())
    finalizers = finalizers_for(before, options, strategy)
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    awaits = strategy.awaits(old)
    if not graceful and (finalizers or awaits):
        _mark(meta, now_s)
        strategy.on_deletion(mark)
    written = graceful or bool(before) or set(before) != set(finalizers) or awaits
    return DeletionStep(mark if written else None, gone=not finalizers and not left_s and not awaits)


def is_finished(strategy: Strategy, new: Obj, old: Obj) -> bool:
    """Whether an update takes away the last thing that a deleted object waited for."""
    was = old["metadata"]
    if not was.get("deletionTimestamp") or was.get("deletionGracePeriodSeconds") or new["metadata"].get("finalizers"):
        return False
    return not strategy.awaits(new)


def finalizers_for(finalizers: list[str], options: DeletionOptions, strategy: Strategy) -> list[str]:
    """The finalizers of a deleted object under the policy asked for: dependents orphaned, or deleted first."""
    policy = options.get("propagationPolicy")
    if (orphan := options.get("orphanDependents")) is not None:
        policy = "Orphan" if orphan else "Background"
    if policy is None and strategy.has_dependents:
        if _ORPHAN in finalizers or _FOREGROUND in finalizers:
            return finalizers
        policy = "Orphan" if strategy.orphans_by_default else "Background"
    kept = [name for name in finalizers if name not in (_ORPHAN, _FOREGROUND)]
    if not strategy.has_dependents:
        return kept
    if policy == "Orphan":
        return [*kept, _ORPHAN]
    return [*kept, _FOREGROUND] if policy == "Foreground" else kept


def _end_at(meta: dict[str, Any], end_s: float, left_s: int) -> None:
    meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = from_seconds(end_s), left_s
    if meta.get("generation"):
        meta["generation"] += 1


def _mark(meta: dict[str, Any], now_s: float) -> None:
    if not meta.get("deletionTimestamp"):
        _end_at(meta, now_s, 0)
    else:
        if parse_timestamp(meta["deletionTimestamp"]) > now_s:
            meta["deletionTimestamp"] = from_seconds(now_s)
        meta["deletionGracePeriodSeconds"] = 0
