"""Namespaces: active until deleted, then terminating until nothing is left in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from koord.api.text import formats
from koord_minicluster.apiserver.builtin.checks import Faults, add_all
from koord_minicluster.apiserver.printing import AGE, NAME, at, text
from koord_minicluster.apiserver.resource import Obj, Strategy
from koord_minicluster.apiserver.status import Cause, invalid

_FINALIZER: Final = "kubernetes"
_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_STANDARD_FINALIZERS: Final = (_FINALIZER, "orphan", "foregroundDeletion")


def default(namespace: Obj) -> None:
    meta = namespace.setdefault("metadata", {})
    if meta.get("name"):
        labels = meta.get("labels")
        if labels is None:
            labels = meta["labels"] = {}
        labels[_NAME_LABEL] = meta["name"]
    namespace.setdefault("spec", {})
    if not namespace.setdefault("status", {}).get("phase"):
        namespace["status"]["phase"] = "Active"


def prepare_create(namespace: Obj) -> None:
    namespace["status"] = {"phase": "Active"}
    finalizers = namespace["spec"].get("finalizers") or []
    if _FINALIZER not in finalizers:
        namespace["spec"]["finalizers"] = [*finalizers, _FINALIZER]


def when_read(namespace: Obj) -> bool:
    """By now a generated name is known."""
    meta = namespace["metadata"]
    if _NAME_LABEL in (meta.get("labels") or {}):
        return False
    meta["labels"] = {**(meta.get("labels") or {}), _NAME_LABEL: meta.get("name", "")}
    return True


def prepare_update(new: Obj, old: Obj) -> None:
    new.setdefault("spec", {})
    if (finalizers := (old.get("spec") or {}).get("finalizers")) is not None:
        new["spec"]["finalizers"] = finalizers
    else:
        new["spec"].pop("finalizers", None)


def validate(namespace: Obj) -> Sequence[Cause]:
    faults: Faults = []
    for finalizer in (namespace.get("spec") or {}).get("finalizers") or ():
        add_all(faults, "spec.finalizers", finalizer, formats.label_key(finalizer))
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            text_ = "name is neither a standard finalizer name nor is it fully qualified"
            faults.append(invalid("spec.finalizers", finalizer, text_))
    return faults


def validate_status(new: Obj, _old: Obj) -> Sequence[Cause]:
    phase = (new.get("status") or {}).get("phase", "")
    if new["metadata"].get("deletionTimestamp"):
        if phase != "Terminating":
            return [invalid("status.Phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")]
    elif phase != "Active":
        return [invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")]
    return ()


def fields(namespace: Obj) -> Mapping[str, str]:
    return {"status.phase": (namespace.get("status") or {}).get("phase", "")}


def awaits(namespace: Obj) -> bool:
    """The first delete only begins the end, whatever the finalizers."""
    return not namespace["metadata"].get("deletionTimestamp") or bool((namespace.get("spec") or {}).get("finalizers"))


def on_deletion(namespace: Obj) -> None:
    namespace["metadata"].pop("deletionGracePeriodSeconds", None)
    namespace["status"] = {**(namespace.get("status") or {}), "phase": "Terminating"}


def name_fault(name: str) -> str | None:
    return next(iter(formats.dns_label(name)), None)


STRATEGY: Final = Strategy(
    default=default,
    prepare_create=prepare_create,
    prepare_update=prepare_update,
    when_read=when_read,
    checks_preconditions_first=True,
    validate=validate,
    validate_status=validate_status,
    fields=fields,
    columns=(NAME, text("Status", at("status", "phase")), AGE),
    name_fault=name_fault,
    has_generation=False,
    awaits=awaits,
    on_deletion=on_deletion,
    returns_deleted=True,
)
