"""`koord explain reservation/NAME`: why a reservation of a set of manifests is pending, or who uses it.

Whoever comes before it in the queue is placed first, as `koord plan` does. Nothing stays changed but that.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from koord.api.kinds import RESERVATIONS
from koord.api.kubernetes.resources import amounts
from koord.api.machinery.faults import BadInput
from koord.api.protocol.crd.reservation import Reservation, ReservationOwner, ReservationPhase
from koord.api.text.manifest import Manifests
from koord.api.text.quantity import render
from koord.api.text.selector import EVERYTHING, compile_labels
from koord.api.text.timestamp import from_seconds
from koord.offline.driver import Driver
from koord.offline.world import World, world_of
from koord.scheduler import explain as scheduler
from koord.scheduler.explain import Explanation
from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.reservation.lifecycle import RESIZE_PENDING, expires_s
from koord.scheduler.plugins.reservation.owners import owns
from koord.scheduler.plugins.reservation.reserve_pod import reserve_pod
from koord.scheduler.profiles import Profiles

MOST_ASKED: Final = 5


class NoSuchReservation(BadInput):
    """The reservation does not exist. The message names reservations with similar names."""


class ReservationExplained(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The explanation of a reservation. All keys are always printed."""

    name: str
    phase: str
    node: str | None
    message: str
    allocatable: dict[str, str]
    allocated: dict[str, str]
    left: dict[str, str]
    "What its owners can still have of it."
    owners: tuple[str, ...]
    "Who may use it, in words."
    used_by: tuple[str, ...]
    holds: tuple[str, ...]
    "What it holds beside amounts: CPUs, devices."
    waiting: tuple[str, ...]
    "Pods that may use it and wait for a place."
    against: dict[str, str]
    "Of the first of these, where it can be used: what keeps them out of its node."
    allocate_once: bool
    allocate_policy: str
    expires: str | None
    "When it ends, once it has a node; None: never."
    explanation: Explanation | None
    "Of one that is pending: where it would go, or why nowhere."


class ReservationAnswer(msgspec.Struct, frozen=True):
    explained: ReservationExplained
    ignored: Mapping[str, int]
    warnings: tuple[str, ...]


def explain_reservation(
    manifests: Manifests, profiles: Profiles, name: str, *, now_s: float, seed: int = 0
) -> ReservationAnswer:
    """Raises `Invalid` where manifests are faulty, `NoSuchReservation`."""
    world = world_of(manifests, profiles, now_s=now_s, seed=seed, rounds=1)
    driver = Driver(world.core)
    reservations = world.core.objects(RESERVATIONS)
    if name not in reservations:
        near = difflib.get_close_matches(name, reservations, n=3)
        hint = f"; there is {', '.join(near)}" if near else ""
        raise NoSuchReservation(f"there is no reservation {name}{hint}")
    explained = _explained(world, driver, name)
    return ReservationAnswer(explained, world.ignored, (*profiles.warnings, *world.warnings))


def _explained(world: World, driver: Driver, name: str) -> ReservationExplained:
    ask = Ask(reserve_pod(world.core.objects(RESERVATIONS)[name]))
    explanation, core = None, world.core
    if not ask.spec.node_name and not ask.pod.is_finished:
        driver.wait(world.waiting)
        while (upcoming := core.upcoming()) is not None and all(pod.key != ask.key for pod in upcoming.pods):
            driver.step()
        engine = world.engine_of(ask) or next(iter(core.engines.values()))
        explanation = scheduler.explain(engine, ask)
    reservation = core.objects(RESERVATIONS)[name]
    status, spec = reservation.status, reservation.spec
    waiting = sorted((ask for ask in world.waiting if owns(spec.owners, ask.meta)), key=lambda ask: ask.key)
    has, used = amounts(status.allocatable), amounts(status.allocated)
    due_s = expires_s(_created(reservation, core.cluster.now_s))
    return ReservationExplained(
        name=name,
        phase=str(status.phase),
        node=status.node_name or None,
        message=_message(reservation, explanation, core.cluster.now_s),
        allocatable={resource: str(amount) for resource, amount in status.allocatable.items()},
        allocated={resource: str(amount) for resource, amount in status.allocated.items()},
        left={resource: render(resource, max(0, amount - used.get(resource, 0))) for resource, amount in has.items()},
        owners=tuple(_owner(owner) for owner in spec.owners),
        used_by=tuple(f"{owner.namespace}/{owner.name}" for owner in status.current_owners),
        holds=_holds(world, ask),
        waiting=tuple(ask.key for ask in waiting),
        against=_against(world, reservation, waiting[:MOST_ASKED]),
        allocate_once=spec.allocate_once,
        allocate_policy=spec.allocate_policy or "Default",
        expires=None if due_s is None else from_seconds(due_s),
        explanation=explanation,
    )


def _created(reservation: Reservation, now_s: float) -> Reservation:
    """A reservation from a file is created when it is applied: now at the earliest."""
    if reservation.metadata.creation_timestamp:
        return reservation
    return replace(reservation, metadata=replace(reservation.metadata, creation_timestamp=from_seconds(now_s)))


def _message(reservation: Reservation, explanation: Explanation | None, now_s: float) -> str:
    if explanation is not None:
        return explanation.message
    status = reservation.status
    if status.phase is ReservationPhase.AVAILABLE:
        used = ", ".join(f"{owner.namespace}/{owner.name}" for owner in status.current_owners)
        sentences = [
            f"used by {used}" if used else "no pod uses it yet",
            *_closed(reservation, now_s),
            *_not_resized(reservation),
        ]
        return "; ".join(sentences)
    last = next(reversed(status.conditions), None)
    return "" if last is None else last.message or last.reason


def _closed(reservation: Reservation, now_s: float) -> Iterator[str]:
    """Why an available reservation takes no more owners."""
    due_s = expires_s(reservation)
    if reservation.metadata.deletion_timestamp is not None:
        yield "it is being deleted and takes no new owners"
    elif due_s is not None and due_s < now_s:
        yield f"it expired at {from_seconds(due_s)}, and no scheduler has ended it yet"
    elif reservation.spec.unschedulable:
        yield "it takes no new owners (spec.unschedulable)"
    elif reservation.spec.taints:
        taints = ", ".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in reservation.spec.taints)
        yield f"new owners must tolerate {taints} in their reservation affinity"


def _not_resized(reservation: Reservation) -> Iterator[str]:
    """Why an available reservation does not have its wanted size."""
    yield from (
        condition.message
        for condition in reservation.status.conditions
        if condition.type == RESIZE_PENDING and condition.message
    )


def _holds(world: World, ask: Ask) -> tuple[str, ...]:
    engine = world.engine_of(ask) or next(iter(world.core.engines.values()))
    return tuple(engine.notes_in_words(ask.key).values())


def _against(world: World, reservation: Reservation, waiting: Sequence[Ask]) -> dict[str, str]:
    row = world.core.cluster.table.row_of.get(reservation.status.node_name)
    if row is None or reservation.status.phase is not ReservationPhase.AVAILABLE:
        return {}
    reasons = {}
    for ask in waiting:
        engine = world.engine_of(ask)
        if engine is not None:
            reasons[ask.key] = ", ".join(engine.words_against(ask, row)) or "nothing: it fits there"
    return reasons


def _owner(owner: ReservationOwner) -> str:
    """One entry of its owners, as people say it."""
    words = []
    if (thing := owner.object) is not None:
        words.append(f"the pod {'/'.join(part for part in (thing.namespace, thing.name) if part) or thing.uid}")
    if (controller := owner.controller) is not None:
        words.append(f"pods of {controller.kind or 'the controller'} {controller.name or controller.uid}")
    labels = compile_labels(owner.label_selector, absent=EVERYTHING)
    if labels.requirements:
        words.append(f"pods with {labels}")
    return ", ".join(words) or "all pods"
