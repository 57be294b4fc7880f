"""`koord explain podgroup/NAME`: the state of a gang in a set of manifests, why it is pending, and what would help.

Pods that come before it in the queue are placed first, as `koord plan` does. Nothing stays changed but that.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Literal

import msgspec

from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.api.text.manifest import Manifests
from koord.offline.driver import Driver
from koord.offline.world import World, world_of
from koord.scheduler.core.decision import Bind
from koord.scheduler.core.entity import Entity
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.job_changes import changes_for
from koord.scheduler.message import fits_nowhere
from koord.scheduler.plugins.gang_status import status_of
from koord.scheduler.plugins.gangs import Gang, Gangs
from koord.scheduler.plugins.network.network import Network
from koord.scheduler.plugins.network.planner import Planner, drawn, wish_of
from koord.scheduler.profiles import Profiles


class NoSuchGang(BadInput):
    """The gang does not exist. The message names gangs with similar names."""


class GangExplained(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The explanation of a gang. All keys are always printed."""

    gang: str
    outcome: Literal["fits", "unschedulable", "waiting", "placed"]
    message: str
    phase: str
    "What its PodGroup should say; empty where there is none."
    group: tuple[str, ...]
    "The gangs that go together, itself included."
    min_member: int | None
    match_policy: str
    pods: int
    bound: int
    waiting: int
    placed_before: int
    "Pods that come before it and were placed first."
    nodes: dict[str, int]
    "Where its waiting pods would go, and how many to each node."
    why_not: dict[str, int]
    "Why no node will do for the first pod without a place, with those placed that fit."
    changes: tuple[str, ...]
    "The smallest changes after which it would fit, each of them tried out."
    victims: tuple[str, ...] = ()
    "Less important pods that would make room for it."
    network: tuple[str, ...] = ()
    "The tree of the network, drawn, with what each domain could take of its pods; for gangs that ask for places in it."


class GangAnswer(msgspec.Struct, frozen=True):
    explained: GangExplained
    ignored: Mapping[str, int]
    warnings: tuple[str, ...]


def explain_gang(manifests: Manifests, profiles: Profiles, key: str, *, now_s: float, seed: int = 0) -> GangAnswer:
    """Raises `Invalid` where manifests are faulty, `NoSuchGang`."""
    world = world_of(manifests, profiles, now_s=now_s, seed=seed, rounds=1)
    driver = Driver(world.core)
    driver.wait(world.waiting)
    gangs = world.cluster.notes(Gangs)
    gang = gangs.all.get(key)
    if gang is None:
        near = difflib.get_close_matches(key, gangs.all, n=3)
        hint = f"; there is {', '.join(near)}" if near else ""
        raise NoSuchGang(f"there is no gang {key}: no PodGroup of that name, and no pod that names it{hint}")
    return GangAnswer(_explained(world, driver, gang, now_s), world.ignored, (*profiles.warnings, *world.warnings))


def _explained(world: World, driver: Driver, gang: Gang, now_s: float) -> GangExplained:
    before = _placed_before(world, driver, gang)
    attempt = next((attempt for attempt in world.core.queue if _is_of(attempt.entity, gang)), None)
    status, settings = status_of(gang, now_s), gang.settings
    explained = GangExplained(
        gang=gang.id,
        outcome="placed",
        message="no pod of it waits for a place",
        phase="" if status is None else str(status.phase),
        group=gang.group,
        min_member=None if settings is None else settings.min_available,
        match_policy="" if settings is None else settings.match_policy,
        pods=len(gang.members),
        bound=len(gang.bound),
        waiting=0,
        placed_before=before,
        nodes={},
        why_not={},
        changes=(),
    )
    if attempt is None:
        return explained
    entity = attempt.entity
    mine = [ask.key for ask in entity.pods if ask.key in gang.members]
    explained = msgspec.structs.replace(explained, waiting=len(mine))
    if attempt.gate:
        return msgspec.structs.replace(explained, outcome="waiting", message=attempt.gate)
    engine = world.engine_of(entity.pods[0])
    assert engine is not None  # others are not queued
    return _decided(engine, entity, mine, explained)


def _network(engine: Engine, asks: list[Ask]) -> tuple[str, ...]:
    """The topology tree, if the job asks for places in it and the scheduler uses it."""
    wish = wish_of(engine.cluster.notes(Gangs), asks)
    if wish is None:
        return ()
    if Network.name not in engine.cluster.noting:
        spec = names.ANNOTATION_GANG_NETWORK_TOPOLOGY_SPEC
        return (f"{spec} has no effect: awareNetworkTopology of Coscheduling is off",)
    domains = Planner(asks, wish, engine).domains()
    return (domains,) if isinstance(domains, str) else tuple(drawn(domains))


def _decided(engine: Engine, entity: Entity, mine: list[str], explained: GangExplained) -> GangExplained:
    asks = list(entity.pods)
    explained = msgspec.structs.replace(explained, network=_network(engine, asks))
    with engine.cluster.transaction() as trial:
        placements = engine.place_all(asks) if len(asks) > 1 else [engine.place(asks[0])]
        trial.undo()
    nodes: dict[str, int] = {}
    for placement in placements:
        if placement.node is not None and placement.pod in mine:
            nodes[placement.node] = nodes.get(placement.node, 0) + 1
    if any(placement.node is not None for placement in placements):
        left = len(mine) - sum(nodes.values())
        more = f"; {left} of its pods find no place yet, and may come later" if left else ""
        return msgspec.structs.replace(
            explained, outcome="fits", message=f"{sum(nodes.values())} of its pods go together{more}", nodes=nodes
        )
    against = next((placement for placement in placements if placement.why_not), placements[0])
    changes = () if against.refusal else tuple(change.text for change in changes_for(engine, asks))
    remedy = engine.remedy_for_job(asks) if len(asks) > 1 else engine.remedy(asks[0])
    moving = [*remedy.victims, *(key for move in remedy.others for key in move.victims)]
    return msgspec.structs.replace(
        explained,
        victims=tuple(moving),
        outcome="unschedulable",
        message=against.short_of or fits_nowhere(against, len(engine.cluster.table)),
        why_not={against.refusal: len(engine.cluster.table)} if against.refusal else dict(against.rejections),
        changes=changes,
    )


def _is_of(entity: Entity, gang: Gang) -> bool:
    return any(ask.key in gang.members for ask in entity.pods)


def _placed_before(world: World, driver: Driver, gang: Gang) -> int:
    """Place the pods that come before a gang. Returns their number."""
    placed = 0
    while (upcoming := world.core.upcoming()) is not None and not _is_of(upcoming, gang):
        decision = driver.step()
        if isinstance(decision, Bind):
            placed += len(decision.members)
    return placed
