"""Drives the scheduler's core as a cluster would in which everything works at once: what is placed is bound.

It decides nothing. The clock stands still.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from koord.api.kinds import PODS
from koord.api.kubernetes.pod import Pod
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind, Broken, Decision
from koord.scheduler.framework.ask import Ask


class Driver:
    def __init__(self, core: Core) -> None:
        self.core = core

    def wait(self, asks: Iterable[Ask]) -> None:
        """Pods come to wait for a place: the one that was made first comes first."""
        for ask in sorted(asks, key=lambda ask: ask.meta.creation_timestamp or ""):
            self.core.put(PODS, ask.pod)

    def step(self) -> Decision | None:
        """The next decision, carried out. A plugin that fails ends the run."""
        decision = self.core.decide()
        if isinstance(decision, Bind):
            self._bind(decision)
        elif isinstance(decision, Broken) and decision.error is not None:
            raise decision.error
        return decision

    def end(self, pod: Pod) -> None:
        """A pod is gone."""
        self.core.removed(PODS, pod)

    def _bind(self, bind: Bind) -> None:
        for placed in bind.members:
            self.core.bound(bind, placed.ask)
            pod = placed.ask.pod
            metadata = pod.metadata
            if placed.plan.patch is not None:
                written = placed.plan.patch.body["metadata"]
                metadata = replace(
                    metadata,
                    annotations=merged(metadata.annotations, written.get("annotations", {})),
                    labels=merged(metadata.labels, written.get("labels", {})),
                )
            self.core.put(PODS, replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=placed.node)), pod)


def merged(texts: Mapping[str, str], patch: Mapping[str, str | None]) -> dict[str, str]:
    """Labels or annotations after a patch, which takes away what it says is None."""
    return {key: text for key, text in {**texts, **patch}.items() if text is not None}
