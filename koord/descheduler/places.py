"""Where a pod that leaves its node would go: tried out on the scheduler's own state.

Every plugin of the pod's profile has its say, as if the pod came now. What is tried out stays for the rest of the
trial, so that several pods are not promised the same room; then all of it is undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np
from msgspec.structs import replace

from koord.api.kubernetes.pod import Pod
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.groups import LOW
from koord.scheduler.framework.pod_class import PodClass
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

    def rows(self, nodes: Iterable[str]) -> Array:
        """Which rows are these nodes'."""
        table = self.cluster.table
        mask = np.zeros(table.capacity, np.bool_)
        mask[[table.row_of[name] for name in nodes if name in table.row_of]] = True
        return mask

    def leave(self, pod: Pod) -> None:
        """The pod leaves, without a new place."""
        if pod.metadata.key in self.cluster.pods:
            self.cluster.remove_pod(pod.metadata.key)

    def class_of(self, pod: Pod) -> PodClass | None:
        """How the scheduler sees a pod; None where it is another scheduler's. Raises what it cannot understand."""
        ask = _asking(pod)
        ask.requests  # noqa: B018 - worked out when it is asked for
        engine = self._engine_of(ask)
        return None if engine is None else engine.class_of(ask)

    def would_take(self, pod: Pod, may_take: Array) -> bool:
        """Whether one of these rows takes a pod. Nothing changes."""
        return self.would_take_all((pod,), may_take)

    def would_take_all(self, pods: Iterable[Pod], may_take: Array) -> bool:
        """Whether these rows take all of some pods. Nothing changes."""
        with self.cluster.transaction() as attempt:
            fit = all(self.move(pod, may_take) is not None for pod in pods)
            attempt.undo()
        return fit

    def move(self, pod: Pod, may_take: Array | None = None, avoid: Iterable[str] = ()) -> str | None:
        """The best node for a pod among the rows that `may_take` allows, where it counts from now on; None where no
        node takes it. It never stays where it is, and goes to none of the nodes to `avoid`."""
        cluster = self.cluster
        ask = _asking(pod)
        engine = self._engine_of(ask)
        if engine is None:
            return None
        with cluster.transaction() as attempt:
            self.leave(pod)
            totals = engine.class_of(ask).totals()
            will_do = totals > LOW
            if may_take is not None:
                will_do &= may_take[: len(totals)]
            for name in (pod.spec.node_name, *avoid):
                row = cluster.table.row_of.get(name)
                if row is not None:
                    will_do[row] = False
            best = np.where(will_do, totals, LOW)
            while best[row := int(best.argmax())] > LOW:
                placement = engine.place_on(ask, row)
                if placement.node is not None:
                    return placement.node
                best[row] = LOW
            attempt.undo()
        return None


def _asking(pod: Pod) -> Ask:
    """A pod, as if it had no node."""
    return Ask(replace(pod, spec=replace(pod.spec, node_name="")))
