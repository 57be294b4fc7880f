"""Another system's webhooks while they change hands: nothing waits for a manager that is being replaced.

Koordinator's entries fail closed. Between the end of its manager and the first registration of koord's, pods would be
refused. So its entries are ignored while no manager answers, and get their policies back with the webhooks.
Koordinator's manager registers what the annotation `template` of a configuration says, so policies change there too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from koord.api.protocol import names

Entry: TypeAlias = Mapping[str, Any]

TEMPLATE: Final = "template"
_POLICIES: Final = names.OWN_ANNOTATION_POLICIES_BEFORE
_FAIL, _IGNORE = "Fail", "Ignore"


def opened(configuration: Mapping[str, Any], namespace: str) -> dict[str, Any] | None:
    """The patch after which nothing waits for these webhooks; None if nothing does, or if they are koord's, in
    `namespace`."""
    entries: list[Entry] = list(configuration.get("webhooks") or ())
    if any(_service_namespace(entry) == namespace for entry in entries):
        return None
    failing = {str(entry.get("name")): _FAIL for entry in entries if entry.get("failurePolicy", _FAIL) == _FAIL}
    if not failing:
        return None
    annotations: dict[str, str] = {_POLICIES: msgspec.json.encode(failing).decode()}
    template = _annotations(configuration).get(TEMPLATE)
    if template and (listed := _entries(template)) is not None:
        annotations[TEMPLATE] = _text(_with(listed, dict.fromkeys(failing, _IGNORE)))
    version = (configuration.get("metadata") or {}).get("resourceVersion")
    meta = {"resourceVersion": version, "annotations": annotations}
    return {"metadata": meta, "webhooks": _with(entries, dict.fromkeys(failing, _IGNORE))}


def as_before(configuration: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The webhooks of a configuration with the policies that they had before they were opened."""
    return _with(configuration.get("webhooks") or (), _policies(configuration))


def closed(configuration: Mapping[str, Any]) -> dict[str, Any] | None:
    """The patch that gives webhooks their policies back; None where they were not opened."""
    if _POLICIES not in _annotations(configuration):
        return None
    annotations: dict[str, str | None] = {_POLICIES: None}
    template = _annotations(configuration).get(TEMPLATE)
    if template and (listed := _entries(template)) is not None:
        annotations[TEMPLATE] = _text(_with(listed, _policies(configuration)))
    return {"metadata": {"annotations": annotations}, "webhooks": as_before(configuration)}


def _annotations(configuration: Mapping[str, Any]) -> Mapping[str, str]:
    return (configuration.get("metadata") or {}).get("annotations") or {}


def _service_namespace(entry: Entry) -> object:
    return ((entry.get("clientConfig") or {}).get("service") or {}).get("namespace")


def _policies(configuration: Mapping[str, Any]) -> dict[str, str]:
    try:
        return msgspec.json.decode(_annotations(configuration).get(_POLICIES) or "{}", type=dict[str, str])
    except msgspec.MsgspecError:
        return {}


def _entries(text: str) -> list[dict[str, Any]] | None:
    try:
        return msgspec.json.decode(text, type=list[dict[str, Any]])
    except msgspec.MsgspecError:
        return None


def _with(entries: Iterable[Entry], policies: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {**entry, "failurePolicy": policies[entry["name"]]} if entry.get("name") in policies else dict(entry)
        for entry in entries
    ]


def _text(entries: list[dict[str, Any]]) -> str:
    return msgspec.json.encode(entries).decode()
