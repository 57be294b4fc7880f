"""TaintToleration: NoSchedule and NoExecute taints turn a pod away; PreferNoSchedule ones count against the node.

Nodes share few sets of taints, so a verdict is worked out per set, and rows only look theirs up.
    score = 100 - 100 * n / max(n),  n the untolerated PreferNoSchedule taints; all 100 where no node has any
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np
from msgspec.structs import replace

from koord.api.kubernetes.node import Taint
from koord.api.kubernetes.pod import Toleration
from koord.api.kubernetes.taints import tolerates, untolerated
from koord.api.kubernetes.words import TolerationOperator
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Numbers
from koord.scheduler.framework.change import Change, listed
from koord.scheduler.framework.facet import OfNodes
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import KeyedBy, Plugin
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Changes, Reason, Row

HARD: Final = ("NoSchedule", "NoExecute")
SOFT: Final = "PreferNoSchedule"


class TaintToleration(Plugin):
    name = "TaintToleration"
    wakes_on = Reason.NODE | Reason.TAINTS

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.SPEC

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return ask.spec.tolerations

    def compile(self, ask: Ask, cluster: Cluster) -> Judge:
        return _Tolerant(ask.spec.tolerations, cluster)


class _Tolerant(Judge):
    filters_on = Reason.NODE | Reason.TAINTS

    def __init__(self, tolerations: tuple[Toleration, ...], cluster: Cluster) -> None:
        self._tolerations, self._cluster = tolerations, cluster
        self._verdicts = np.zeros(0, np.bool_)
        self._soft = _SoftTaints(tolerations, cluster)
        self.facets = (self._soft,)

    def feasible(self, cells: Cells) -> Numbers:
        return self._by_set()[cells["taints"]]

    def reasons(self, mask: int) -> list[str]:
        return ["node(s) had untolerated taint(s)"]

    def unresolvable(self, masks: Array, rows: Array) -> Array:
        return np.ones(len(rows), np.bool_)

    def fixes(self, ask: Ask, row: Row) -> list[Change]:
        node, pod = self._cluster.nodes[row], ask.pod
        missed = [taint for taint in node.spec.taints if untolerated((taint,), pod.spec.tolerations, HARD) is not None]
        more = [
            Toleration(
                taint.key,
                TolerationOperator.EQUAL if taint.value else TolerationOperator.EXISTS,
                taint.value,
                taint.effect,
            )
            for taint in missed
        ]
        spec = replace(pod.spec, tolerations=(*pod.spec.tolerations, *more))
        kept = tuple(taint for taint in node.spec.taints if taint not in missed)
        named = f"taint{'s' if len(missed) > 1 else ''} {listed(taint_text(taint) for taint in missed)}"
        size = float(len(missed))
        return [
            Change(f"a toleration for the {named}", pod=replace(pod, spec=spec), size=size),
            Change(f"the {named} taken off it", node=replace(node, spec=replace(node.spec, taints=kept)), size=size),
        ]

    def _by_set(self) -> Array:
        """Whether each set of taints repels the pod."""
        sets = self._cluster.taint_sets
        if len(self._verdicts) < len(sets):
            self._verdicts = np.array([untolerated(taint, self._tolerations, HARD) is not None for taint in sets])
        return self._verdicts


class _SoftTaints(OfNodes):
    """Rows grouped by their set of taints; a group's raw score is its number of untolerated soft taints."""

    gates = closes = False
    normalised = True
    flat = True

    def __init__(self, tolerations: tuple[Toleration, ...], cluster: Cluster) -> None:
        self._tolerations = [toleration for toleration in tolerations if toleration.effect in ("", "PreferNoSchedule")]
        self._cluster = cluster
        self._raw = np.zeros(0, np.int64)

    def refresh(self, changed: Changes | None) -> bool:
        sets = self._cluster.taint_sets
        if len(self._raw) == len(sets):
            return False
        self._raw = np.array([self._number(taint_set) for taint_set in sets], np.int64)
        self.flat = not self._raw.any()
        return True

    def _number(self, taints: tuple[Taint, ...]) -> int:
        soft = [taint for taint in taints if taint.effect == SOFT]
        return sum(1 for taint in soft if not any(tolerates(toleration, taint) for toleration in self._tolerations))

    @property
    def groups(self) -> Array:
        return self._cluster.table.columns["taints"]

    @property
    def size(self) -> int:
        return len(self._raw)

    def table(self, candidates: Array | None) -> Array:
        assert candidates is not None
        return 100 - by_maximum(self._raw, candidates)


def taint_text(taint: Taint) -> str:
    """As kubectl prints it."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def by_maximum(raw: Array, candidates: Array) -> Array:
    """Scores normalised by the highest among the groups that have a candidate: 100 * v / max; all 0 stay 0."""
    present = raw[candidates > 0]
    highest = int(present.max()) if len(present) else 0
    if highest <= 0:
        return np.zeros(len(raw), np.int64)
    return np.minimum(raw, highest) * 100 // highest
