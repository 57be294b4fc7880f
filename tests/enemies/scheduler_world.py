"""A scheduler's core among innocents and enemies: everything is fed, decided and written, and time passes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from koord.api import kinds
from koord.api.configuration.features import SchedulerGate
from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import Kind
from koord.api.machinery.codec import encode
from koord.api.machinery.shield import Failure, Shield
from koord.offline.patched import patched
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind, Broken, Decision
from koord.scheduler.core.inputs import INPUTS
from koord.scheduler.core.moment import Moment
from koord.scheduler.framework.writes import Delete, Patch
from koord.scheduler.profiles import profiles_of
from tests.enemies.honest import NOW_S, Thing

LATER_S: Final = (1.0, 61.0, 3600.0, 90_000.0, 400 * 365.25 * 86400)
"""How long is waited, time after time: past all deadlines of the honest, and most of the others."""
MOST_DECISIONS: Final = 3000


class SchedulerWorld:
    def __init__(self) -> None:
        self.now_s = NOW_S
        self.defects: list[Failure] = []
        profiles = profiles_of(SHIPPED, gates={SchedulerGate.MULTI_QUOTA_TREE: True})
        self.core = Core(profiles, alone=True, now=Moment(NOW_S, 0.0), hints=False, shield=Shield(self._failed))
        self.known: dict[tuple[Kind[Any], str], Any] = {}
        self.told: set[str] = set()
        "What came of innocents, in words."

    def put(self, things: Iterable[Thing]) -> None:
        order = {source.kind: i for i, source in enumerate(INPUTS)}
        for kind, thing in sorted((thing for thing in things if thing[0] in order), key=lambda each: order[each[0]]):
            key = kind, thing.metadata.key
            before = self.known.get(key)
            self.known[key] = thing
            self.core.put(kind, thing, before)

    def remove(self, things: Iterable[Thing]) -> None:
        for kind, thing in things:
            known = self.known.pop((kind, thing.metadata.key), None)
            if known is not None:
                self.core.removed(kind, known)

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.core.at(Moment(self.now_s, self.now_s - NOW_S))

    def settle(self) -> None:
        for _ in range(MOST_DECISIONS):
            decision = self.core.decide()
            if decision is None:
                break
            self._carry_out(decision)
        else:
            raise AssertionError("the scheduler never rests")
        self._write()

    def _carry_out(self, decision: Decision) -> None:
        if isinstance(decision, Bind):
            for member in decision.members:
                self._tell(member.ask.key, f"to {member.node}")
                self.core.bound(decision, member.ask)
                for patch in (member.plan.patch, member.plan.binding):
                    if isinstance(patch, Patch):
                        self._patch(patch)
                pod = self.known.get((kinds.PODS, member.ask.key))
                if pod is not None:
                    self.put([(kinds.PODS, replace(pod, spec=replace(pod.spec, node_name=member.node)))])
        elif isinstance(decision, Broken):
            self._tell(decision.ask.key, f"broken: {decision.message}")
            if decision.error is not None:
                self.defects.append(Failure("decide", decision.error, kinds.PODS, decision.ask.meta))

    def _write(self) -> None:
        for write in self.core.take_writes():
            if isinstance(write, Patch):
                self._tell(f"{write.kind.kind} {write.name}", encode(write.body).decode())
                self._patch(write)
            elif isinstance(write, Delete):
                self._tell(f"{write.kind.kind} {write.name}", "deleted")

    def _patch(self, patch: Patch) -> None:
        key = f"{patch.namespace}/{patch.name}" if patch.namespace else patch.name
        known = self.known.get((patch.kind, key))
        if known is not None:
            self.put([(patch.kind, patched(known, patch.body))])

    def _tell(self, who: str, what: str) -> None:
        if "good" in who:
            self.told.add(f"{self.now_s:.0f} {who}: {what}")

    def _failed(self, failure: Failure) -> None:
        if failure.is_defect:
            self.defects.append(failure)


def story(innocents: Sequence[Thing], honest: Sequence[Thing], enemies: Sequence[Thing]) -> SchedulerWorld:
    """Enemies come, stay, become honest, turn enemies again, and go; time passes."""
    scene = SchedulerWorld()
    scene.put([*honest, *innocents])
    scene.put(enemies)
    scene.settle()
    for seconds in LATER_S:
        scene.wait(seconds)
        scene.settle()
    scene.put(honest)
    scene.put(enemies)
    scene.settle()
    scene.remove(enemies)
    scene.settle()
    return scene
