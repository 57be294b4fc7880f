"""A story in memory: an API of dictionaries, a core that hears of it, and hands that carry its decisions out.

Hands are as slow and clumsy as on a cluster: bindings come late, or fail; victims take their time to go. Whoever checks
reads the API alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration
from koord.api.kinds import PODS, Kind
from koord.api.machinery.codec import convert
from koord.api.text.timestamp import from_seconds
from koord.offline.patched import patched
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind, Broken, Decision, Nowhere, Placed, Wait
from koord.scheduler.core.moment import Moment
from koord.scheduler.framework.writes import Create, Delete, Evict, Patch, PodBinding, Tell, Write
from koord.scheduler.profiles import profiles_of
from koord_chaos.invariants.manifests import Objects
from koord_chaos.stories.actions import KINDS, Action, Change, Drop, Has, Put, Rest, Restart
from koord_chaos.stories.dice import Dice
from koord_chaos.stories.script import NEVER, PRIORITIES

BEGAN_S: Final = 1_800_000_000.0
MOST_STEPS: Final = 3_000
BACKOFF_S: Final = 11.0
"""Longer than any backoff."""


class World:
    """One story. `clumsy`: how often a binding is late, or a victim stays for a while."""

    def __init__(self, dice: Dice, *, config: SchedulerConfiguration = SHIPPED, clumsy: float = 0.15) -> None:
        self.dice, self.config, self.clumsy = dice, config, clumsy
        self.things: dict[Kind[Any], dict[str, Any]] = {kind: {} for kind in KINDS}
        self.now_s = BEGAN_S
        self._uids = 0
        self._under_way: list[tuple[Bind, Placed]] = []
        self.lines: list[str] = []
        "What happened, for people."
        self.core = self._new_core()

    # The API.

    def manifests(self) -> Has:
        return {
            kind: {key: kind.manifest(thing) for key, thing in things.items()} for kind, things in self.things.items()
        }

    def objects(self) -> Objects:
        return {kind.kind: list(things.values()) for kind, things in self.manifests().items()}

    def act(self, action: Action) -> None:
        self.lines.append(in_words(action))
        match action:
            case Put(kind, manifest):
                self._create(kind, manifest)
            case Change(kind, key, body):
                if key in self.things[kind]:
                    self._put(kind, patched(self.things[kind][key], body))
            case Drop(kind, key):
                if key in self.things[kind]:
                    self._delete(kind, key)
            case Restart():
                self._under_way.clear()
                self.core = self.fresh()
            case Rest():
                self.rest()

    def _create(self, kind: Kind[Any], manifest: dict[str, Any]) -> None:
        self._uids += 1
        given = {"uid": f"uid-{self._uids}", "creationTimestamp": from_seconds(self.now_s)}
        manifest = {**manifest, "metadata": {**manifest["metadata"], **given}}
        if kind is PODS:
            manifest["spec"] = _admitted(manifest["spec"])
        thing = convert(kind.type, manifest)
        if thing.metadata.key not in self.things[kind]:
            self._put(kind, thing)

    def _put(self, kind: Kind[Any], thing: Any) -> None:
        key = thing.metadata.key
        old = self.things[kind].get(key)
        self.things[kind][key] = thing
        self.core.put(kind, thing, old)

    def _delete(self, kind: Kind[Any], key: str) -> None:
        self.core.removed(kind, self.things[kind].pop(key))

    # The scheduler.

    def _new_core(self) -> Core:
        core = Core(profiles_of(self.config), alone=True, hints=False)
        core.at(self._moment())
        return core

    def _moment(self) -> Moment:
        return Moment(self.now_s, self.now_s - BEGAN_S)

    def fresh(self) -> Core:
        """Another core that hears of the same objects, in whatever order."""
        core = self._new_core()
        for kind in KINDS if self.dice.chance(0.7) else tuple(reversed(KINDS)):
            for thing in self.things[kind].values():
                core.put(kind, thing)
        return core

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.core.at(self._moment())

    def settle(self) -> int:
        """Have everything decided that can be, and most of it carried out; how many decisions there were."""
        for decided in range(MOST_STEPS):
            decision = self.core.decide()
            if decision is not None:
                self._carry_out(decision)
            wrote = [self._write(write) for write in self.core.take_writes()]
            if decision is None and not any(wrote):
                return decided
        raise AssertionError("the scheduler does not come to rest")

    def rest(self) -> None:
        """Until nothing is under way and no pod is ready, not even after a backoff, however long that takes, short of
        the sweep."""
        was_quiet = False
        for _ in range(20):
            for key in [key for key, pod in self.things[PODS].items() if pod.metadata.deletion_timestamp is not None]:
                self._delete(PODS, key)
            was_under_way = self.finish_bindings()
            clumsy, self.clumsy = self.clumsy, 0.0
            decisions = self.settle()
            self.clumsy = clumsy
            is_quiet = not was_under_way and not self._under_way and not decisions and not self.core.waiting()
            if is_quiet and was_quiet:
                return
            was_quiet = is_quiet
            self.wait(BACKOFF_S)
        raise AssertionError("the scheduler does not come to rest")

    def finish_bindings(self) -> bool:
        """Carry out what is late; whether there was anything."""
        under_way, self._under_way = self._under_way, []
        for bind, placed in under_way:
            self._bind(bind, placed)
        return bool(under_way)

    def would_bind(self) -> list[str]:
        """Whom a fresh scheduler would bind as things are."""
        core, result = self.fresh(), list[str]()
        for _ in range(MOST_STEPS):
            decision = core.decide()
            if decision is None:
                return result
            if isinstance(decision, Bind | Wait):
                bind = decision if isinstance(decision, Bind) else decision.bind
                result += [f"{member.ask.key} to {member.node}" for member in bind.members]
        raise AssertionError("a fresh scheduler does not come to rest")

    def _carry_out(self, decision: Decision) -> None:
        match decision:
            case Bind():
                is_late = self.dice.chance(self.clumsy)
                for placed in decision.members:
                    if is_late:
                        self._under_way.append((decision, placed))
                    else:
                        self._bind(decision, placed)
            case Nowhere():
                self._nowhere(decision)
            case Broken():
                raise AssertionError(decision.message) from decision.error

    def _nowhere(self, decision: Nowhere) -> None:
        remedy = decision.remedy
        promised = {move.pod: move.node for move in decision.moves}
        for ask in decision.asks:
            node = promised.get(ask.key, "" if remedy.clears and not remedy.helps else None)
            pod = self.things[PODS].get(ask.key)
            if pod is not None and node is not None and pod.status.nominated_node_name != node:
                self._put(PODS, replace(pod, status=replace(pod.status, nominated_node_name=node)))
        for key in decision.outbid:
            pod = self.things[PODS].get(key)
            if pod is not None:
                self._put(PODS, replace(pod, status=replace(pod.status, nominated_node_name="")))
        for move in decision.moves:
            for key in move.victims:
                self.lines.append(f"  {key} has to go for {move.pod} on {move.node}")
                self._end(key)

    def _end(self, key: str) -> None:
        pod = self.things[PODS].get(key)
        if pod is None:
            return
        if self.dice.chance(self.clumsy):
            leaving = replace(pod.metadata, deletion_timestamp=from_seconds(self.now_s + 30))
            self._put(PODS, replace(pod, metadata=leaving))
        else:
            self._delete(PODS, key)

    def _bind(self, bind: Bind, placed: Placed) -> None:
        """One binding, as the API server takes it."""
        core, ask = self.core, placed.ask
        if not core.stands(ask, placed.node):
            core.failed(bind, ask, last=True)
            return
        plan = placed.plan
        for step in plan.steps:
            for write in step.writes():
                self._write(write)
        if isinstance(plan.binding, PodBinding):
            pod = self.things[PODS].get(ask.key)
            if pod is None or pod.metadata.uid != ask.meta.uid or pod.metadata.deletion_timestamp is not None:
                core.refused(bind, ask)
                return
            bound = pod if plan.patch is None else patched(pod, plan.patch.body)
            bound = replace(bound, spec=replace(bound.spec, node_name=placed.node))
            self.lines.append(f"  {ask.key} is bound to {placed.node}")
            core.bound(bind, ask)
            self._put(PODS, replace(bound, status=replace(bound.status, nominated_node_name="")))
            return
        core.bound(bind, ask)
        for patch in (plan.patch, plan.binding):
            if patch is not None:
                self._write(patch)

    def _write(self, write: Write | Tell) -> bool:
        """Whether something is otherwise than before."""
        match write:
            case Patch(kind, name, body, namespace):
                key = f"{namespace}/{name}" if namespace else name
                thing = self.things.get(kind, {}).get(key)
                if thing is None or patched(thing, body) == thing:
                    return False
                self._put(kind, patched(thing, body))
                return True
            case Delete(kind, name, uid, namespace):
                key = f"{namespace}/{name}" if namespace else name
                thing = self.things[kind].get(key)
                if thing is None or thing.metadata.uid != uid:
                    return False
                self._delete(kind, key)
                return True
            case Create(kind, name, body, namespace):
                if kind not in self.things or f"{namespace}/{name}" in self.things[kind]:
                    return False
                self._create(kind, dict(body))
                return True
            case Evict(namespace, name):
                self._end(f"{namespace}/{name}")
                return True
        return False


def _admitted(spec: dict[str, Any]) -> dict[str, Any]:
    """A pod's spec with what its priority class says."""
    name = spec["priorityClassName"]
    policy = {"preemptionPolicy": "Never"} if name.endswith(NEVER) else {}
    return {**spec, "priority": PRIORITIES[name.removesuffix(NEVER)], **policy}


def in_words(action: Action) -> str:
    """For people, in a line."""
    match action:
        case Put(kind, manifest):
            return f"{kind.kind} {manifest['metadata']['name']} comes: {' '.join(_told_of(manifest))}"
        case Change(kind, key, body):
            return f"{kind.kind} {key} changes: {body}"
        case Drop(kind, key):
            return f"{kind.kind} {key} goes"
        case Restart():
            return "the scheduler starts again"
        case Rest():
            return "rest"


def _told_of(manifest: Any, path: str = "") -> Iterator[str]:
    """Of a manifest, what sets it apart from others of its story."""
    if isinstance(manifest, dict):
        for key, value in manifest.items():
            if key not in ("metadata", "apiVersion", "kind", "namespace", "name", "image", "capacity", "detail"):
                yield from _told_of(value, key)
            elif key == "metadata":
                yield from _told_of(value)
    elif isinstance(manifest, list | tuple):
        for value in manifest:
            yield from _told_of(value, path)
    elif not path.endswith(("cpu-topology", "schedulerName", "terminationGracePeriodSeconds")):
        yield f"{path.rpartition('/')[2]}={manifest}"


def in_full(lines: Sequence[str]) -> str:
    return "\n".join(lines)
