"""`koord explain reservation/NAME`: why a reservation of a set of manifests is pending, or who uses it.

Whoever comes before it in the queue is placed first, as `koord plan` does. Nothing stays changed but that.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

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
    """There is no such reservation; others with such a name may be."""


class ReservationExplained(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is to be said of a reservation. Printed whole: readers may count on every key."""

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
    known = driver.reservations()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"; there is {', '.join(near)}" if near else ""
        raise NoSuchReservation(f"there is no reservation {name}{hint}")
    found = _explained(world, driver, name)
    return ReservationAnswer(found, world.ignored, (*profiles.warnings, *world.warnings))


def _explained(world: World, driver: Driver, name: str) -> ReservationExplained:
    ask = Ask(reserve_pod(driver.reservations()[name]))
    explanation, core = None, world.core
    if not ask.spec.node_name and not ask.pod.is_finished:
        driver.wait(world.waiting)
        while (upcoming := core.upcoming()) is not None and all(each.key != ask.key for each in upcoming.pods):
            driver.step()
        engine = world.engine_of(ask) or next(iter(core.engines.values()))
        explanation = scheduler.explain(engine, ask)
    found = driver.reservations()[name]
    status, spec = found.status, found.spec
    waiting = sorted((each for each in world.waiting if owns(spec.owners, each.meta)), key=lambda each: each.key)
    has, used = amounts(status.allocatable), amounts(status.allocated)
    due_s = expires_s(_created(found, core.cluster.now_s))
    return ReservationExplained(
        name=name,
        phase=str(status.phase),
        node=status.node_name or None,
        message=_message(found, explanation, core.cluster.now_s),
        allocatable={each: str(amount) for each, amount in status.allocatable.items()},
        allocated={each: str(amount) for each, amount in status.allocated.items()},
        left={each: render(each, max(0, amount - used.get(each, 0))) for each, amount in has.items()},
        owners=tuple(_owner(each) for each in spec.owners),
        used_by=tuple(f"{each.namespace}/{each.name}" for each in status.current_owners),
        holds=_holds(world, ask),
        waiting=tuple(each.key for each in waiting),
        against=_against(world, found, waiting[:MOST_ASKED]),
        allocate_once=spec.allocate_once,
        allocate_policy=spec.allocate_policy or "Default",
        expires=None if due_s is None else from_seconds(due_s),
        explanation=explanation,
    )


def _created(found: Reservation, now_s: float) -> Reservation:
    """A reservation of a file is created when somebody applies it: at the earliest now."""
    if found.metadata.creation_timestamp:
        return found
    return replace(found, metadata=replace(found.metadata, creation_timestamp=from_seconds(now_s)))


def _message(found: Reservation, explanation: Explanation | None, now_s: float) -> str:
    if explanation is not None:
        return explanation.message
    status = found.status
    if status.phase is ReservationPhase.AVAILABLE:
        used = ", ".join(f"{each.namespace}/{each.name}" for each in status.current_owners)
        told = [f"used by {used}" if used else "nobody uses it yet", *_closed(found, now_s), *_not_resized(found)]
        return "; ".join(told)
    last = next(reversed(status.conditions), None)
    return "" if last is None else last.message or last.reason


def _closed(found: Reservation, now_s: float) -> Iterator[str]:
    """Why one that is there takes no more owners."""
    due_s = expires_s(found)
    if found.metadata.deletion_timestamp is not None:
        yield "it is being deleted and takes no new owners"
    elif due_s is not None and due_s < now_s:
        yield f"it expired at {from_seconds(due_s)}, and no scheduler has ended it yet"
    elif found.spec.unschedulable:
        yield "it takes no new owners (spec.unschedulable)"
    elif found.spec.taints:
        taints = ", ".join(f"{each.key}={each.value}:{each.effect}" for each in found.spec.taints)
        yield f"new owners must tolerate {taints} in their reservation affinity"


def _not_resized(found: Reservation) -> Iterator[str]:
    """Why one that is there does not have the size that it should have."""
    yield from (each.message for each in found.status.conditions if each.type == RESIZE_PENDING and each.message)


def _holds(world: World, ask: Ask) -> tuple[str, ...]:
    engine = world.engine_of(ask) or next(iter(world.core.engines.values()))
    return tuple(engine.told(ask.key).values())


def _against(world: World, found: Reservation, waiting: Sequence[Ask]) -> dict[str, str]:
    row = world.core.cluster.table.row_of.get(found.status.node_name)
    if row is None or found.status.phase is not ReservationPhase.AVAILABLE:
        return {}
    told = {}
    for ask in waiting:
        engine = world.engine_of(ask)
        if engine is not None:
            told[ask.key] = ", ".join(engine.words_against(ask, row)) or "nothing: it fits there"
    return told


def _owner(owner: ReservationOwner) -> str:
    """One entry of its owners, as people say it."""
    told = []
    if (thing := owner.object) is not None:
        told.append(f"the pod {'/'.join(part for part in (thing.namespace, thing.name) if part) or thing.uid}")
    if (controller := owner.controller) is not None:
        told.append(f"pods of {controller.kind or 'the controller'} {controller.name or controller.uid}")
    labels = compile_labels(owner.label_selector, absent=EVERYTHING)
    if labels.requirements:
        told.append(f"pods with {labels}")
    return ", ".join(told) or "all pods"
