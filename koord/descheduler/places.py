"""Where a pod that leaves its node would go: tried out on the scheduler's own state.

Every plugin of the pod's profile has its say, as if the pod came now. What is tried out stays for the rest of the
trial, so that several pods are not promised the same room; then all of it is undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from msgspec.structs import replace

from koord.api.kubernetes.pod import Pod
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.groups import LOW
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array


class Places:
    def __init__(self, cluster: Cluster, engine_of: Callable[[Ask], Engine | None]) -> None:
        self.cluster, self._engine_of = cluster, engine_of

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Moves inside are undone at the end."""
        with self.cluster.transaction() as trial:
            yield
            trial.undo()

    def move(self, pod: Pod, may_take: Array) -> str | None:
        """The best node for a pod among the rows that `may_take` allows, where it counts from now on; None where no
        node takes it. It never stays where it is."""
        cluster, key = self.cluster, pod.metadata.key
        ask = Ask(replace(pod, spec=replace(pod.spec, node_name="")))
        engine = self._engine_of(ask)
        if engine is None:
            return None
        with cluster.transaction() as attempt:
            here = cluster.table.row_of.get(pod.spec.node_name)
            if key in cluster.pods:
                cluster.remove_pod(key)
            totals = engine.class_of(ask).totals()
            will_do = (totals > LOW) & may_take[: len(totals)]
            if here is not None:
                will_do[here] = False
            rows = np.flatnonzero(will_do)
            for row in rows[np.argsort(-totals[rows], kind="stable")].tolist():
                placement = engine.place_on(ask, row)
                if placement.node is not None:
                    return placement.node
            attempt.undo()
        return None
