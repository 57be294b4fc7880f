"""Drives the scheduler's core like a cluster where every binding succeeds at once.

It decides nothing. The clock stands still, so writes that no later decision depends on stay with the core: plugins
limit how often they report, and a report at the end of a run has everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from koord.api.kinds import PODS
from koord.api.kubernetes.pod import Pod
from koord.offline.patched import patched
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind, Broken, Decision
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.writes import BindingPlan, Delete, Patch


class Driver:
    def __init__(self, core: Core, running: Mapping[str, Pod] | None = None) -> None:
        """`running`: pods that have a node from the beginning."""
        self.core, self.running = core, running or {}

    def wait(self, asks: Iterable[Ask]) -> None:
        """Pods become pending, the oldest first."""
        for ask in sorted(asks, key=lambda ask: ask.meta.creation_timestamp or ""):
            self.core.put(PODS, ask.pod)

    def step(self) -> Decision | None:
        """The next decision, carried out. A plugin that fails ends the run."""
        self.write()
        decision = self.core.decide()
        if isinstance(decision, Bind):
            self._bind(decision)
            self.write()
        elif isinstance(decision, Broken) and decision.error is not None:
            raise decision.error
        return decision

    def end(self, pod: Pod) -> None:
        """A pod is gone."""
        self.core.removed(PODS, pod)

    def _bind(self, bind: Bind) -> None:
        for placed in bind.members:
            self.core.bound(bind, placed.ask)
            if isinstance(placed.plan.binding, Patch):
                self._bind_stand_in(placed.plan)
                continue
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

    def _bind_stand_in(self, plan: BindingPlan) -> None:
        """Binds a reservation: the pods that it takes over are patched, and then the object itself."""
        for step in plan.steps:
            for write in step.writes():
                if isinstance(write, Patch) and write.kind is PODS:
                    self._patch(write)
        for patch in (plan.patch, plan.binding):
            if isinstance(patch, Patch):
                self._patch(patch)

    def write(self) -> None:
        """Applies what later decisions depend on."""
        for write in self.core.take_writes(decisive=True):
            if isinstance(write, Patch):
                self._patch(write)
            elif isinstance(write, Delete) and (old := self.core.objects(write.kind).get(write.name)) is not None:
                self.core.removed(write.kind, old)

    def _patch(self, patch: Patch) -> None:
        """Patches a running pod, or an object that is placed like pods. No decision depends on others."""
        if patch.kind is PODS:
            old = self.running.get(f"{patch.namespace}/{patch.name}")
        else:
            old = self.core.objects(patch.kind).get(patch.name)
        if old is not None:
            self.core.put(patch.kind, patched(old, patch.body), old)


def merged(texts: Mapping[str, str], patch: Mapping[str, str | None]) -> dict[str, str]:
    """Labels or annotations after a patch, which removes keys whose value is None."""
    return {key: text for key, text in {**texts, **patch}.items() if text is not None}
