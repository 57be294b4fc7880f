"""SchedulingHint: another system says where a pod should go, in an annotation.

    internal.scheduling.koordinator.sh/scheduling-hint: {"nodeNames": [...], "preferredNodeNames": [...]}

`nodeNames` are the only nodes that will do. `preferredNodeNames` are tried first, in their order, up to `maxHintNodes`
of them: the first one that all plugins take is taken, whatever the scores. A malformed annotation is an error of the
pod, which stays pending.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from koord.api.configuration.scheduler_args import SchedulingHintArgs
from koord.api.protocol import names
from koord.api.protocol.annotations.reservation import SCHEDULING_HINT
from koord.api.protocol.annotations.reservation import SchedulingHint as Hint
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.change import Change, listed
from koord.scheduler.framework.explains import Explains
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.nominating import Nominating
from koord.scheduler.framework.plugin import KeyedBy, Plugin
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Reason, Row

MOST_NAMED: Final = 5


class SchedulingHint(Plugin):
    name = "SchedulingHint"
    wakes_on = Reason.NODE

    def __init__(self, args: SchedulingHintArgs | None = None) -> None:
        self._most = (args or SchedulingHintArgs()).completed().max_hint_nodes
        self.nominating = Nominating(prefers=self._prefers)

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.LABELS

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        hint = _hint(ask)
        return None if hint is None else hint.node_names

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        hint = _hint(ask)
        return None if hint is None or not hint.node_names else _Hinted(hint.node_names, cluster)

    def _prefers(self, ask: Ask, cluster: Cluster) -> Sequence[Row]:
        hint = _hint(ask)
        if hint is None:
            return ()
        row_of = cluster.table.row_of
        return [row_of[name] for name in hint.preferred_node_names[: self._most] if name in row_of]


class _Hinted(Judge, Explains):
    def __init__(self, nodes: tuple[str, ...], cluster: Cluster) -> None:
        self._nodes, self._cluster = nodes, cluster

    def only(self) -> list[Row]:
        row_of = self._cluster.table.row_of
        return [row_of[name] for name in self._nodes if name in row_of]

    def unresolvable(self, masks: Array, rows: Array) -> Array:
        return np.ones(len(rows), np.bool_)

    def fixes(self, ask: Ask, row: Row) -> list[Change]:
        """The pod without the nodes that are the only ones for it."""
        hint = _hint(ask)
        if hint is None:
            return []
        meta = ask.pod.metadata
        key = SCHEDULING_HINT.key if SCHEDULING_HINT.key in meta.annotations else SCHEDULING_HINT.old_keys[0]
        kept = SCHEDULING_HINT.render(replace(hint, node_names=()))
        annotations = {**meta.annotations, str(key): kept}
        pod = replace(ask.pod, metadata=replace(meta, annotations=annotations))
        return [Change(f"nodeNames of {key.partition('/')[2]} left out", pod=pod)]

    def detail(self, reason: str, rows: Sequence[Row]) -> str:
        row_of = self._cluster.table.row_of
        absent = [name for name in self._nodes if name not in row_of]
        said = f"the scheduling-hint allows {_few(self._nodes)} alone"
        return f"{said}; there is no node {_few(absent)}" if absent else said


def _few(names: Sequence[str]) -> str:
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    return listed([*names[:MOST_NAMED], *more])


def _hint(ask: Ask) -> Hint | None:
    annotations = ask.meta.annotations
    if not annotations:
        return None
    if names.ANNOTATION_SCHEDULING_HINT not in annotations and names.OLD_ANNOTATION_SCHEDULING_HINT not in annotations:
        return None
    return SCHEDULING_HINT.read(ask.meta, "Pod")
