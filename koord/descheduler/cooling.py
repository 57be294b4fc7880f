"""What a node says after a pod was moved away from it, so that the scheduler does not undo the move.

For a while (`COOL_DOWN_S`) it takes no pods of the same owner. A node that was hot takes none of the same band: what
the descheduler calls hot, the scheduler does not fill.
"""

from __future__ import annotations

from collections.abc import Iterable

from koord.api.configuration.thresholds import COOL_DOWN_S
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.annotations.load import LAST_EVICTIONS, OF_OWNER
from koord.api.protocol.priority import BANDS, priority_class
from koord.api.text.timestamp import TimestampError, from_seconds, parse_timestamp
from koord.descheduler.registry import cools


def note_of_move(node: Node, pod: Pod, by: str, now_s: float) -> dict[str, str] | None:
    """The annotation that a node gets before a pod leaves it by the wish of a plugin; None where there is nothing to
    say. What is over is left out."""
    owner, band = pod.metadata.controller, priority_class(pod)
    added = {}
    if owner is not None:
        added[f"{OF_OWNER}{owner.uid}"] = from_seconds(now_s)
    if cools(by) and band in BANDS:
        added[str(band)] = from_seconds(now_s)
    if not added:
        return None
    said = LAST_EVICTIONS.read(node.metadata, "Node")
    kept = {name: time for name, time in said.items() if not name.startswith(OF_OWNER) or _counts(time, now_s)}
    return {LAST_EVICTIONS.key: LAST_EVICTIONS.render({**kept, **added})}


def closed_to(nodes: Iterable[Node], owner: str, now_s: float) -> list[str]:
    """The nodes that take no pods of an owner, because one was moved away from them a while ago. A reservation for its
    next pod must not be there: no pod would use it."""
    key, closed = f"{OF_OWNER}{owner}", []
    for node in nodes:
        if LAST_EVICTIONS.key in node.metadata.annotations:
            time = LAST_EVICTIONS.read(node.metadata, "Node").get(key)
            if time is not None and _counts(time, now_s):
                closed.append(node.metadata.name)
    return sorted(closed)


def _counts(time: str, now_s: float) -> bool:
    try:
        return now_s < parse_timestamp(time) + COOL_DOWN_S
    except TimestampError:
        return False
