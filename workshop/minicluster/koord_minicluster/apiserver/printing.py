"""Cells of tables, as `kubectl get` shows them: ages, lists, labels.

A `Column`'s cell is computed from an object and the present time. Ages get coarser as they grow, by the rules of Go's
HumanDuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord_minicluster.apiserver.resource import Column, Obj

UNKNOWN = "<unknown>"
NONE = "<none>"
UNSET = "<unset>"


def human_duration(seconds: float) -> str:
    total_s = int(seconds)
    if total_s < -1:
        return "<invalid>"
    if total_s < 120:
        return f"{max(total_s, 0)}s"
    minutes, rest_s = divmod(total_s, 60)
    if minutes < 10:
        return f"{minutes}m{rest_s}s" if rest_s else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours, rest_m = divmod(minutes, 60)
    if hours < 8:
        return f"{hours}h{rest_m}m" if rest_m else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    days, rest_h = divmod(hours, 24)
    if hours < 24 * 8:
        return f"{days}d{rest_h}h" if rest_h else f"{days}d"
    if hours < 24 * 365 * 2:
        return f"{days}d"
    years, rest_d = divmod(days, 365)
    if hours < 24 * 365 * 8 and rest_d:
        return f"{years}y{rest_d}d"
    return f"{years}y"


def since(timestamp: object, now_s: float) -> str:
    """How long ago a time was."""
    if not isinstance(timestamp, str) or not timestamp:
        return UNKNOWN
    try:
        return human_duration(now_s - parse_timestamp(timestamp))
    except TimestampError:
        return UNKNOWN


def age(obj: Obj, now_s: float) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now_s)


def name(obj: Obj, _now_s: float) -> str:
    return str(obj["metadata"].get("name", ""))


ZERO_TIME = "0001-01-01T00:00:00Z"
"A time that was never set, as Go prints it."
NAME = Column("Name", "string", name, format="name")
AGE = Column("Age", "string", age)
CREATED_AT = Column("Created At", "date", lambda obj, _now_s: obj["metadata"].get("creationTimestamp") or ZERO_TIME)
DEFAULT_COLUMNS = (NAME, Column("Age", "date", age))
"""Of custom resources that name no columns."""


def at(*path: str, default: object = "") -> Callable[[Obj, float], object]:
    """A cell that shows one field."""

    def cell(obj: Obj, _now_s: float) -> object:
        value: Any = obj
        for part in path:
            value = (value or {}).get(part)
        return default if value is None else value

    return cell


def of(show: Callable[[Obj], object]) -> Callable[[Obj, float], object]:
    """A cell that has nothing to do with time."""
    return lambda obj, _now_s: show(obj)


def text(column: str, cell: Callable[[Obj, float], object], priority: int = 0) -> Column:
    return Column(column, "string", cell, priority=priority)


def number(column: str, *path: str) -> Column:
    return Column(column, "integer", at(*path, default=0))


def labels_text(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) if labels else NONE


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A label selector in its string form."""
    if selector is None:
        return NONE
    parts: list[tuple[str, str]] = [
        (key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for condition in selector.get("matchExpressions") or ():
        key, values = condition.get("key", ""), ",".join(sorted(condition.get("values") or ()))
        match condition.get("operator"):
            case "In":
                parts.append((key, f"{key} in ({values})"))
            case "NotIn":
                parts.append((key, f"{key} notin ({values})"))
            case "Exists":
                parts.append((key, key))
            case _:
                parts.append((key, f"!{key}"))
    return ",".join(shown for _, shown in sorted(parts, key=lambda part: part[0])) or NONE


def template_columns(*path: str) -> tuple[Column, Column]:
    """Containers and images of a workload's pod template."""

    def containers(obj: Obj) -> Iterable[Mapping[str, Any]]:
        value: Any = obj
        for part in path:
            value = (value or {}).get(part)
        return ((value or {}).get("spec") or {}).get("containers") or ()

    return (
        text("Containers", of(lambda obj: ",".join(container.get("name", "") for container in containers(obj))), 1),
        text("Images", of(lambda obj: ",".join(container.get("image", "") for container in containers(obj))), 1),
    )
