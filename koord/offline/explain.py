"""`koord explain POD`: one pod of a set of manifests, as the scheduler would meet it.

Pods that come before it in the queue are placed first, as `koord plan` does, so that both say the same; `alone` leaves
them out. Nothing stays changed but that.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec
from msgspec.structs import replace

from koord.api import kinds
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.faults import BadInput
from koord.api.protocol.unacted import asked_in_vain
from koord.api.text.manifest import Manifests
from koord.offline import defaults
from koord.offline.driver import Driver
from koord.offline.world import World, world_of
from koord.scheduler import explain as scheduler
from koord.scheduler.core.decision import Bind
from koord.scheduler.explain import Explanation
from koord.scheduler.framework.ask import Ask
from koord.scheduler.profiles import Profiles


class NoSuchPod(BadInput):
    """The pod does not exist. The message names pods with similar names."""


class Explained(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The explanation of a pod. All keys are always printed."""

    pod: str
    outcome: Literal["fits", "unschedulable", "waiting", "denied", "skipped"]
    message: str
    placed_before: int
    "Pods that come before it and were placed first."
    as_if_new: bool
    "Whether it already has a node. It is then explained as if it were pending now."
    foreign: str
    "The scheduler that it names, where no profile is of that name: it is looked at with the first profile."
    scheduler_name: str
    unanswered: str = ""
    "Why no scheduler serves the scheduler name of a pending pod; empty if one does, or if that was not checked."
    missing_node: str = ""
    "The node that the pod is bound to, if that node does not exist."
    unacted: tuple[str, ...] = ()
    "What the pod asks for that nothing acts on yet, and what happens instead."
    moves: tuple[str, ...] = ()
    "The component that wanted it gone, why, and where its replacement went, if the cluster knows."
    slowdowns: tuple[str, ...] = ()
    "What slowed it down, or which pods it slowed down, and what was done, as the agent of its node reported."
    explanation: Explanation | None = None


class ExplainAnswer(msgspec.Struct, frozen=True):
    explained: Explained
    ignored: Mapping[str, int]
    warnings: tuple[str, ...]


def explain(
    manifests: Manifests,
    profiles: Profiles,
    key: str,
    *,
    now_s: float,
    seed: int = 0,
    alone: bool = False,
    top: int = scheduler.TOP,
    examples: int = scheduler.EXAMPLES,
    unanswered: Callable[[str], str] = lambda scheduler_name: "",
) -> ExplainAnswer:
    """Why a pod is where it is, or nowhere. Raises `Invalid` where manifests are faulty, `NoSuchPod`.

    `unanswered`: why no scheduler serves a scheduler name; empty if one does.
    """
    world = world_of(manifests, profiles, now_s=now_s, seed=seed, rounds=1, unanswered=unanswered)
    explained = explain_in(world, manifests, key, alone=alone, top=top, examples=examples, unanswered=unanswered)
    return ExplainAnswer(explained, world.ignored, (*profiles.warnings, *world.warnings))


def explain_in(
    world: World,
    manifests: Manifests,
    key: str,
    *,
    alone: bool,
    top: int,
    examples: int,
    unanswered: Callable[[str], str],
) -> Explained:
    """The same in an existing world. Raises `NoSuchPod`."""
    explained = _explained(world, manifests, key, alone, top, examples)
    if not explained.as_if_new and explained.explanation is not None:
        explained = replace(explained, unanswered=unanswered(explained.scheduler_name))
    return explained


def _explained(world: World, manifests: Manifests, key: str, alone: bool, top: int, examples: int) -> Explained:
    if (denial := world.denied.get(key)) is not None:
        return _only(key, "denied", denial)
    if (skip_reason := world.skipped.get(key)) is not None:
        return _only(key, "skipped", skip_reason)
    ask, waits = _find(world, manifests, key)
    engine = world.engine_of(ask)
    foreign = "" if engine is not None else str(ask.spec.scheduler_name)
    engine = engine or next(iter(world.core.engines.values()))
    gate, before = "", 0
    job: tuple[Ask, ...] = ()
    try:
        if waits and not alone:
            gate, before = _placed_before(world, key)
            job = () if gate else _job(world, key)
        explanation = scheduler.explain(engine, ask, job=job, top=top, examples=examples)
    except BadInput as error:
        return _only(key, "denied", str(error))
    return Explained(
        pod=key,
        outcome="waiting" if gate else explanation.outcome,
        message=gate or explanation.message,
        placed_before=before,
        as_if_new=explanation.node is not None,
        foreign=foreign,
        scheduler_name=str(ask.spec.scheduler_name),
        missing_node=_missing_node(world, key),
        unacted=asked_in_vain(ask.pod),
        explanation=explanation,
    )


def _only(key: str, outcome: Literal["denied", "skipped"], message: str) -> Explained:
    return Explained(
        pod=key, outcome=outcome, message=message, placed_before=0, as_if_new=False, foreign="", scheduler_name=""
    )


def _missing_node(world: World, key: str) -> str:
    node = world.running.get(key, "")
    return node if node not in world.cluster.table.row_of else ""


def _find(world: World, manifests: Manifests, key: str) -> tuple[Ask, bool]:
    """The pod as the cluster would have it, and whether it waits for a place."""
    waiting = {ask.key: ask for ask in world.waiting}
    if key in waiting:
        return waiting[key], True
    pods = {pod.metadata.key: pod for pod in manifests.of(kinds.PODS)}
    pod = pods.get(key)
    if pod is None:
        near = difflib.get_close_matches(key, {**pods, **waiting}, n=3)
        hint = f"; there is {', '.join(near)}" if near else ""
        raise NoSuchPod(f"there is no pod {key}{hint}")
    return Ask(_completed(pod, world)), False


def _completed(pod: Pod, world: World) -> Pod:
    spec = defaults.pod_spec(pod.spec)
    record = world.cluster.pods.get(pod.metadata.key)
    if spec.priority is None and record is not None:
        spec = replace(spec, priority=record[0].priority)
    return replace(pod, spec=spec)


def _job(world: World, key: str) -> tuple[Ask, ...]:
    """The pods that are placed together with a waiting one, itself included."""
    entities = (attempt.entity for attempt in world.core.queue)
    return next((entity.pods for entity in entities if any(ask.key == key for ask in entity.pods)), ())


def _placed_before(world: World, key: str) -> tuple[str, int]:
    """Place the pods that come before a pod. Returns why it must not be tried yet, and how many pods were placed."""
    driver, core, placed = Driver(world.core), world.core, 0
    driver.wait(world.waiting)
    gates = {ask.key: attempt.gate for attempt in core.queue if attempt.gate for ask in attempt.entity.pods}
    while (upcoming := core.upcoming()) is not None and all(ask.key != key for ask in upcoming.pods):
        decision = driver.step()
        if isinstance(decision, Bind):
            placed += len(decision.members)
    return gates.get(key, ""), placed
