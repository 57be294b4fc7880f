"""What was changed, newest first: acts of people, evictions, moves and roll-outs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import msgspec

from koord.console import shapes
from koord.console.acts import as_of, object_of, stored_act
from koord.console.listings import Listing
from koord.console.rows import EVICTIONS, MOVES, EventRow
from koord.manager.rollout.state import Rollout

_VERBS: Final = {
    "evictPodSuccess": "evicted",
    "QuotaOverused": "evicted, since its quota is overused:",
    "Preempted": "preempted",
    "Descheduled": "moved",
}
_KINDS: Final = {**dict.fromkeys(EVICTIONS, "eviction"), **dict.fromkeys(MOVES, "move")}


def changes(
    acts: Mapping[str, str],
    events: Iterable[EventRow],
    rollouts: Mapping[str, Rollout],
    may_list: Callable[[str], bool],
    now_s: float,
    under_way: Collection[str] = (),
) -> Listing:
    """`acts`: the stored records; `under_way`: ids of acts that this console does."""
    rows: list[dict[str, Any]] = []
    for text in acts.values():
        record = stored_act(text)
        if record is not None:
            act = as_of(record.act, now_s, is_under_way=record.act.id in under_way)
            rows.append(
                {
                    "id": act.id,
                    "at_s": act.at_s,
                    "kind": "act",
                    "who": act.who,
                    "what": act.sentence,
                    "why": act.why,
                    "result": act.state,
                    "object": object_of(act.scope),
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
                "what": f"{_VERBS[event.reason]} {name}",
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
