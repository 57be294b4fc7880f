"""Labels and annotations of the protocol that nobody will be able to read, or parts of them: told, not refused.

Who reads them makes do with a default or leaves the object alone, as the protocol has it; but whoever wrote them should
hear of it at once, and not wonder later why a gang has no minimum. Asked when they are new or changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.protocol import names
from koord.api.protocol.annotations import ALL
from koord.api.protocol.annotations.value import Value
from koord.api.protocol.priority import SubPriorityError, sub_priority


def _by_key(kind: str) -> dict[str, Value[Any, Any]]:
    return {key: value for value in ALL if kind in value.on for key in (value.key, *value.old_keys)}


_VALUES: Final[Mapping[str, Mapping[str, Value[Any, Any]]]] = {kind: _by_key(kind) for kind in ("Pod", "Node")}


def warnings(kind: str, meta: ObjectMeta, old: ObjectMeta | None) -> Iterator[str]:
    """What of an object's labels and annotations cannot be read or has no effect. `old`: the object as it is stored."""
    if old is not None and old.labels == meta.labels and old.annotations == meta.annotations:
        return
    known = _VALUES[kind]
    seen: set[str] = set()
    for key in (*meta.labels, *meta.annotations):
        value = known.get(key)
        if value is None or value.key in seen:
            continue
        seen.add(value.key)
        if error := value.check(meta, kind):
            yield f"{error}; it counts as absent or as its default"
        elif error := value.idle(meta, kind):
            yield f"{error}; it has no effect"
    if kind == "Pod" and names.LABEL_PRIORITY in meta.labels:
        try:
            sub_priority(meta.labels)
        except SubPriorityError as error:
            yield str(error)
