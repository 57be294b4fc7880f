"""Installs, and brings an installation up to date: look, plan, ask whether all of it would be accepted, then do it.

Nothing is written before all rights, refusals and dry-run results are known; then all problems are reported
together.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from koord.api.kinds import CONFIG_MAPS, DAEMON_SETS
from koord.api.machinery.faults import BadInput
from koord.kube.errors import ApiError, Forbidden
from koord.kube.served import is_served
from koord.operate.install import versions
from koord.operate.install.kinds import OF_OTHERS
from koord.operate.install.live.cluster import Cluster, each_of, said
from koord.operate.install.live.may_i import RequiredRight, for_objects, missing
from koord.operate.install.manifest import Json, Key, key_of
from koord.operate.install.objects import desired
from koord.operate.install.others import KOORDLET, neighbour, refusals
from koord.operate.install.plan import Plan, Step, is_own, plan
from koord.operate.install.record import NAME, Record, begun, finished, read
from koord.operate.install.settings import Settings, is_newer

ESTABLISHED_WITHIN_S: Final = 60.0
LOOK_AGAIN_S: Final = 0.2
WORKLOADS: Final = ("Deployment", "DaemonSet")

_MAY_NOT: Final = "you may not do all that installing takes"

Progress = Callable[[str], None]


class Refused(BadInput):
    """All obstacles together. Nothing was changed."""

    def __init__(self, what: str, reasons: Sequence[str]) -> None:
        self.what, self.reasons = what, tuple(reasons)
        super().__init__(what, self.reasons)

    def __str__(self) -> str:
        return "\n  ".join([f"{self.what}; nothing was changed:", *self.reasons])


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan without obstacles."""

    settings: Settings
    desired: Sequence[Json]
    plan: Plan
    live: dict[Key, Json]
    before: Record | None


async def find_record(cluster: Cluster, namespace: str) -> Record | None:
    """The record of the installation in this cluster, in whichever namespace its workloads are."""
    try:
        maps = [manifest async for manifest in cluster.all_of(CONFIG_MAPS, fields=f"metadata.name={NAME}")]
    except Forbidden:
        own = await cluster.get(Key("v1", "ConfigMap", NAME, namespace))
        maps = [own] if own is not None else []
    return read(maps[0]) if maps else None


async def prepare(
    cluster: Cluster, settings: Settings, *, adopt: bool = False, downgrade: bool = False, moving: bool = False
) -> Prepared:
    """Raises `Refused` with all obstacles. `moving`: Koordinator's node agent is paused before koord's is installed."""
    version = await cluster.client.server_version()
    if version.numbers < versions.OLDEST_SERVER:
        least = versions.said(versions.OLDEST_SERVER)
        raise Refused("this cluster is too old", [f"the API server is {version.git_version}; koord needs {least}"])
    wanted = desired(settings)
    keys = [key_of(manifest) for manifest in wanted]
    try:
        return await _prepared(cluster, settings, wanted, adopt=adopt, downgrade=downgrade, moving=moving)
    except Forbidden:
        if lacking := await _lacking(cluster, keys, settings):
            raise Refused(_MAY_NOT, lacking) from None
        raise


async def _lacking(cluster: Cluster, keys: Sequence[Key], settings: Settings) -> list[str]:
    return [f"missing right: {right}" for right in await missing(cluster, needed(keys, settings))]


async def _prepared(
    cluster: Cluster, settings: Settings, wanted: Sequence[Json], *, adopt: bool, downgrade: bool, moving: bool
) -> Prepared:
    before = await find_record(cluster, settings.namespace)
    if before is not None and before.settings.namespace != settings.namespace:
        where = before.settings.namespace
        raise Refused(
            "koord is already installed",
            [f"namespace {where}: koord upgrade changes it, koord uninstall takes it away"],
        )
    if before is not None and is_newer(before.settings.version, settings.version) and not downgrade:
        have = before.settings.version
        how = f"use koord {have} or newer, or say --allow-downgrade"
        raise Refused("what is installed is newer", [f"installed is {have}, this is {settings.version}: {how}"])
    applied = before.applied if before is not None else {}
    keys = [key_of(manifest) for manifest in wanted]
    await _others_kinds(cluster, keys)
    live = await cluster.live(dict.fromkeys((*keys, *applied)))
    planned = plan(wanted, live, applied, adopt=adopt, may_prune=downgrade)
    reasons = [f"{refusal.key}: {refusal.why}" for refusal in planned.refusals]
    reasons += await _clashes(cluster, settings, before.settings if before is not None else None, moving=moving)
    if reasons or planned.changes:
        lacking = await _lacking(cluster, keys, settings)
        if lacking and not reasons:
            raise Refused(_MAY_NOT, lacking)
        # Without the rights, a dry run would only repeat the same error for each object.
        reasons += lacking or await _tried(cluster, planned, live)
    if reasons:
        raise Refused("this cluster cannot take it", reasons)
    return Prepared(settings, wanted, planned, live, before)


async def _others_kinds(cluster: Cluster, keys: Sequence[Key]) -> None:
    """Kinds that other projects define must exist."""
    heads = {(key.api_version, key.kind) for key in keys}
    used = {kind: how for kind, how in OF_OTHERS.items() if (kind.api_version, kind.kind) in heads}
    absent = [kind for kind in used if not await is_served(cluster.client, kind)]
    if absent:
        reasons = [f"the API server does not have {kind.plural}.{kind.group}: {used[kind]}" for kind in absent]
        raise Refused("kinds are missing", reasons)


async def _clashes(cluster: Cluster, settings: Settings, installed: Settings | None, *, moving: bool) -> list[str]:
    """Agents of other systems that would write the same fields or files as koord's."""
    try:
        agents = [agent async for agent in cluster.all_of(DAEMON_SETS)]
    except Forbidden:
        # Missing rights to list DaemonSets do not block an installation: `koord check` reports what nodes show.
        return []
    others = [other for agent in agents if not is_own(agent) and (other := neighbour(agent)) is not None]
    return refusals([other for other in others if not (moving and other.system is KOORDLET)], settings, installed)


def needed(keys: Sequence[Key], settings: Settings) -> list[RequiredRight]:
    record = Key("v1", "ConfigMap", NAME, settings.namespace)
    return for_objects([*keys, record], "get", "create", "patch")


async def _tried(cluster: Cluster, planned: Plan, live: dict[Key, Json]) -> list[str]:
    """Errors from a dry run of each step. Objects in a namespace that does not exist yet, or that is refused, cannot be
    tried."""
    refused = {refusal.key for refusal in planned.refusals}
    there = {key.name for key in live if key.kind == "Namespace" and key not in refused} | {"kube-system"}

    async def one(step: Step) -> str:
        if step.key.namespace and step.key.namespace not in there:
            return ""
        try:
            await cluster.apply(step.manifest, dry_run=True)
        except ApiError as error:
            return f"{step.key}: {error.message or error}"
        return ""

    return [problem for problem in await each_of(planned.of("create", "patch"), one) if problem]


async def carry_out(cluster: Cluster, prepared: Prepared, progress: Progress, *, wait_s: float = 0.0) -> None:
    """Carries out the plan. `wait_s`: how long to wait for each workload's roll-out before the next one starts."""
    settings, wanted, planned = prepared.settings, prepared.desired, prepared.plan
    done = finished(settings, wanted, prepared.before)
    if not planned.changes and prepared.before == done:
        return
    steps = planned.of("create", "patch")
    for step in (step for step in steps if step.key.kind == "Namespace"):
        await cluster.apply(step.manifest)
    await cluster.apply(begun(settings, wanted, prepared.before).manifest())
    kinds = [step for step in steps if step.key.kind == "CustomResourceDefinition"]
    if kinds:
        progress(f"defining {len(kinds)} kinds")
        await each_of(kinds, lambda step: _define(cluster, step.manifest))
    for step in steps:
        if step.key.kind in ("Namespace", "CustomResourceDefinition"):
            continue
        progress(f"{'creating' if step.action == 'create' else 'changing'} {step.key}")
        await cluster.apply(step.manifest)
        if wait_s and step.key.kind in WORKLOADS:
            await rolled_out(cluster, step.key, wait_s, progress)
    for step in planned.of("delete"):
        progress(f"deleting {step.key}")
        await cluster.delete(step.key, propagation="Background")
    await cluster.apply(done.manifest())


async def _define(cluster: Cluster, manifest: Json) -> None:
    definition: Json | None = await cluster.apply(manifest)
    async with asyncio.timeout(ESTABLISHED_WITHIN_S):
        while definition is None or not _established(definition):
            await asyncio.sleep(LOOK_AGAIN_S)
            definition = await cluster.get(key_of(manifest))


def _established(definition: Json) -> bool:
    conditions = said(definition, "status", "conditions")
    listed = conditions if isinstance(conditions, list) else []
    return any(condition.get("type") == "Established" and condition.get("status") == "True" for condition in listed)


class NotRolledOut(BadInput):
    """A workload did not become ready in time."""


async def rolled_out(cluster: Cluster, key: Key, within_s: float, progress: Progress) -> None:
    """Waits until all pods of a workload have its newest version and are ready."""
    deadline_s = time.monotonic() + within_s
    last = ""
    while True:
        workload = await cluster.get(key)
        state = standing(workload) if workload is not None else "is gone"
        if not state:
            return
        if state != last:
            progress(f"{key} {state}")
            last = state
        if time.monotonic() > deadline_s:
            hint = f"kubectl -n {key.namespace} get pods, and run this again"
            raise NotRolledOut(f"{key} {state} after {within_s:g} s; see {hint}")
        await asyncio.sleep(LOOK_AGAIN_S)


def standing(workload: Json) -> str:
    """What a workload still lacks; empty if nothing."""

    def number(*path: str) -> int:
        value = said(workload, *path)
        return value if isinstance(value, int) else 0

    if number("status", "observedGeneration") < number("metadata", "generation"):
        return "has not been looked at yet"
    if workload.get("kind") == "DaemonSet":
        wanted, ready = number("status", "desiredNumberScheduled"), number("status", "numberReady")
        new = number("status", "updatedNumberScheduled")
    else:
        wanted, ready = number("spec", "replicas"), number("status", "readyReplicas")
        new = number("status", "updatedReplicas")
        if number("status", "replicas") > new:
            return f"has {number('status', 'replicas') - new} old pods left"
    if new < wanted:
        return f"has {new} of {wanted} new pods"
    return "" if ready >= wanted else f"has {ready} of {wanted} pods ready"
