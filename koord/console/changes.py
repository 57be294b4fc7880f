"""What was changed, newest first: acts of people, evictions, moves and roll-outs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from koord.console import shapes
from koord.console.listings import Listing
from koord.console.rows import EVICTIONS, MOVES, EventRow
from koord.console.shapes import Act
from koord.manager.rollout.state import Rollout

_KINDS: Final = {**dict.fromkeys(EVICTIONS, "eviction"), **dict.fromkeys(MOVES, "move")}


def act_of(text: str) -> Act | None:
    """A stored record; None if it cannot be read."""
    try:
        return msgspec.json.decode(text, type=Act)
    except msgspec.DecodeError:
        return None


def changes(
    acts: Mapping[str, str],
    events: Iterable[EventRow],
    rollouts: Mapping[str, Rollout],
    may_list: Callable[[str], bool],
) -> Listing:
    rows: list[dict[str, Any]] = []
    for text in acts.values():
        act = act_of(text)
        if act is not None:
            rows.append(
                {
                    "id": act.id,
                    "at_s": act.at_s,
                    "kind": "act",
                    "who": act.who,
                    "what": act.sentence,
                    "why": act.why,
                    "result": act.state,
                    "object": _object(act.scope),
                    "can_undo": act.can_undo,
                    "link": f"/changes/{act.id}",
                }
            )
    hidden = 0
    for event in events:
        kind = _KINDS.get(event.reason)
        if kind is None:
            continue
        if not may_list(event.namespace):
            hidden += 1
            continue
        name = f"{event.namespace}/{event.name}"
        rows.append(
            {
                "id": f"event/{event.key}",
                "at_s": event.at_s,
                "kind": kind,
                "who": event.reporter,
                "what": event.reason,
                "why": event.note,
                "result": "done",
                "object": f"pod {name}",
                "link": f"/pods/{name}",
                "can_undo": False,
            }
        )
    for feature, rollout in rollouts.items():
        rows.append(
            {
                "id": f"rollout/{feature}",
                "at_s": rollout.since_s,
                "kind": "rollout",
                "who": "koord manager",
                "what": f"{feature} at {rollout.percent}%",
                "why": rollout.reason,
                "result": rollout.state,
                "object": rollout.selector or "all nodes",
                "link": "/changes",
                "can_undo": True,
            }
        )
    rows.sort(key=lambda row: (-row["at_s"], row["id"]))
    fields = msgspec.structs.fields(shapes.ChangeColumns)
    columns = {field.encode_name: [row[field.name] for row in rows] for field in fields}
    return Listing(columns, [row["id"] for row in rows], hidden)


def _object(scope: shapes.Scope) -> str:
    if scope.nodes:
        return f"{len(scope.nodes)} nodes" if len(scope.nodes) > 1 else f"node {scope.nodes[0]}"
    if scope.pod:
        return f"pod {scope.pod}"
    if scope.feature:
        return scope.feature
    return f"nodes with {scope.pool}" if scope.pool else "the cluster"
