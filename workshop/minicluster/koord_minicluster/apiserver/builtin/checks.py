"""Checks that many kinds share. Each appends what it finds to `faults`, so that all faults are told at once.

Paths and texts are the real server's. Values of a checked object have the types of its schema already.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from koord.api.text import formats
from koord.api.text.quantity import Number, QuantityError, parse
from koord_minicluster.apiserver.status import Cause, forbidden, invalid, not_supported, required, too_long

Part = Mapping[str, Any]
"""A piece of an object."""
Faults = list[Cause]

IMMUTABLE = "field is immutable"
_ANNOTATIONS_LIMIT_BYTES = 256 << 10


def add_all(faults: Faults, path: str, value: object, texts: Iterable[str]) -> None:
    """One fault for each text about the value."""
    for text in texts:
        faults.append(invalid(path, value, text))


def one_of(faults: Faults, path: str, value: str, allowed: Sequence[str]) -> None:
    """A choice that must be made."""
    if not value:
        faults.append(required(path))
    elif value not in allowed:
        faults.append(not_supported(path, value, allowed))


def choice(faults: Faults, part: Part, key: str, path: str, allowed: Container[str], listed: Sequence[str]) -> None:
    """A choice that may be left open."""
    value = part.get(key)
    if value is not None and value not in allowed:
        faults.append(not_supported(f"{path}.{key}" if path else key, value, listed))


def not_negative(faults: Faults, part: Part, keys: Iterable[str], path: str) -> None:
    for key in keys:
        value = part.get(key)
        if value is not None and value < 0:
            faults.append(invalid(f"{path}.{key}" if path else key, value, "must be greater than or equal to 0"))


def immutable(faults: Faults, new: Part, old: Part, keys: Iterable[str], path: str) -> None:
    for key in keys:
        if new.get(key) != old.get(key):
            faults.append(invalid(f"{path}.{key}" if path else key, new.get(key), IMMUTABLE))


def label_map(faults: Faults, values: Mapping[str, str] | None, path: str) -> None:
    for key, value in (values or {}).items():
        for text in formats.label_key(key):
            faults.append(invalid(path, key, text))
        for text in formats.label_value(value):
            faults.append(invalid(path, value, text))


def annotation_map(faults: Faults, values: Mapping[str, str] | None, path: str) -> None:
    if not values:
        return
    for key in values:
        for text in formats.label_key(key.lower()):
            faults.append(invalid(path, key, text))
    if sum(len(key.encode()) + len(value.encode()) for key, value in values.items()) > _ANNOTATIONS_LIMIT_BYTES:
        faults.append(too_long(path, _ANNOTATIONS_LIMIT_BYTES))


def label_selector(faults: Faults, selector: Part | None, path: str) -> None:
    if not selector:
        return
    label_map(faults, selector.get("matchLabels"), f"{path}.matchLabels")
    for i, condition in enumerate(selector.get("matchExpressions") or ()):
        selector_condition(faults, condition, f"{path}.matchExpressions[{i}]")


def selector_condition(faults: Faults, condition: Part, path: str) -> None:
    operator, values = condition.get("operator", ""), condition.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            faults.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            faults.append(forbidden(f"{path}.values", text))
    else:
        faults.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    add_all(faults, f"{path}.key", condition.get("key", ""), formats.label_key(condition.get("key", "")))
    for i, value in enumerate(values):
        add_all(faults, f"{path}.values[{i}]", value, formats.label_value(value))


def labels_value(labels: Mapping[str, str] | None) -> dict[str, str] | None:
    """Labels as messages show them."""
    return dict(sorted(labels.items())) if labels else None


def selector_value(selector: Part | None) -> dict[str, Any] | None:
    """A label selector as messages show it."""
    if selector is None:
        return None
    shown: dict[str, Any] = {}
    if labels := labels_value(selector.get("matchLabels")):
        shown["matchLabels"] = labels
    if conditions := selector.get("matchExpressions"):
        order = ("key", "operator", "values")
        shown["matchExpressions"] = [
            {key: condition[key] for key in order if key in condition} for condition in conditions
        ]
    return shown


def selects_nothing_particular(selector: Part) -> bool:
    """Whether a label selector has no condition at all, and so matches everything."""
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def selects(selector: Part, of: Mapping[str, str]) -> bool:
    """Whether a label selector that is valid matches these labels."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if of.get(key) != value:
            return False
    for condition in selector.get("matchExpressions") or ():
        present = condition["key"] in of
        match condition.get("operator"):
            case "In":
                matches = present and of[condition["key"]] in (condition.get("values") or ())
            case "NotIn":
                matches = not present or of[condition["key"]] not in (condition.get("values") or ())
            case "Exists":
                matches = present
            case _:
                matches = not present
        if not matches:
            return False
    return True


def port_or_name(faults: Faults, path: str, port: object) -> None:
    """A port by number or by name."""
    if isinstance(port, int):
        add_all(faults, path, port, formats.port_number(port))
    else:
        text = str(port or "")
        add_all(faults, path, text, formats.port_name(text))


def quantity_sign(quantity: Number) -> int:
    """-1, 0 or 1. What is no quantity has been refused before."""
    try:
        mantissa = parse(quantity).mantissa
    except QuantityError:
        return 0
    return (mantissa > 0) - (mantissa < 0)


def backsteps(faults: Faults, path: str, target: str) -> None:
    if ".." in target.split("/"):
        faults.append(invalid(path, target, "must not contain '..'"))


def descending_path(faults: Faults, path: str, target: str) -> None:
    """A relative path that does not climb."""
    if target.startswith("/"):
        faults.append(invalid(path, target, "must be a relative path"))
    backsteps(faults, path, target)


def inner_path(faults: Faults, path: str, target: str) -> None:
    """A descending path that is not one of those that volumes use themselves."""
    descending_path(faults, path, target)
    if target.startswith("..") and not target.startswith("../"):
        faults.append(invalid(path, target, "must not start with '..'"))
