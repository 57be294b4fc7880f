"""Reads which project runs each component of a cluster, and moves a component step by step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from koord.api.configuration import config_file
from koord.api.kinds import DAEMON_SETS, DEPLOYMENTS, ELASTIC_QUOTAS, LEASES, PODS, Kind
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.api.protocol.hand_over import opened
from koord.api.protocol.lease_holders import is_anothers
from koord.api.text.timestamp import micro_from_seconds
from koord.kube.errors import Conflict, Forbidden
from koord.operate.install.kinds import kind_of
from koord.operate.install.live.cluster import Cluster, said
from koord.operate.install.live.installing import (
    LOOK_AGAIN_S,
    Prepared,
    Progress,
    Refused,
    carry_out,
    find_record,
    prepare,
    rolled_out,
)
from koord.operate.install.live.may_i import RequiredRight, missing
from koord.operate.install.live.uninstalling import TRIES, WEBHOOKS, hand_back_webhooks, put_nodes_back
from koord.operate.install.manifest import Json, Key, key_of
from koord.operate.install.migration import (
    FIELD_MANAGER,
    THEIRS,
    Move,
    Side,
    Standing,
    Theirs,
    in_the_way,
    is_paused,
    moves,
    pause,
    resume,
    their_workload,
    unusable_quotas,
    with_component,
)
from koord.operate.install.migration import said as said_of
from koord.operate.install.plan import is_own
from koord.operate.install.record import Record
from koord.operate.install.settings import MANAGER, SCHEDULER, Settings

UNRENEWED_S: Final = 5.0
"""A live leader renews its lease every 2 seconds."""


class NotMoved(BadInput):
    """A step did not finish in time."""


@dataclass(frozen=True, slots=True)
class MigrationState:
    standings: tuple[Standing, ...]
    record: Record | None
    "The record of koord's installation."

    def of(self, theirs: Theirs) -> Standing:
        return next(standing for standing in self.standings if standing.theirs is theirs)


async def look(cluster: Cluster, namespace: str) -> MigrationState:
    """`namespace`: the namespace of koord's workloads, unless a record names another."""
    record = await find_record(cluster, namespace)
    place = record.settings.namespace if record is not None else namespace
    there: dict[str, Side] = {}
    here: dict[str, Side] = {}
    for kind in (DEPLOYMENTS, DAEMON_SETS):
        async for workload in cluster.all_of(kind):
            key = key_of(workload)
            if is_own(workload) and key.namespace == place:
                here[key.name] = await _side(cluster, workload)
            elif their_workload(workload) is not None:
                there[key.name] = await _side(cluster, workload)
    standings = []
    for theirs in THEIRS:
        lease = await _lease(cluster, theirs.lease) if theirs.lease else None
        holder = str(said(lease or {}, "spec", "holderIdentity") or "")
        standings.append(Standing(theirs, there.get(theirs.name), here.get(theirs.component.full_name), holder))
    return MigrationState(tuple(standings), record)


async def _side(cluster: Cluster, workload: Json) -> Side:
    key = key_of(workload)
    return Side(key, is_paused(workload), len(await _pods(cluster, workload)))


async def _pods(cluster: Cluster, workload: Json) -> list[str]:
    labels = said(workload, "spec", "selector", "matchLabels")
    chosen = ",".join(f"{k}={v}" for k, v in labels.items()) if isinstance(labels, Mapping) else ""
    pods = await cluster.client.list(PODS, namespace=key_of(workload).namespace, labels=chosen)
    return [pod.metadata.name for pod in pods if not pod.is_finished]


async def _lease(cluster: Cluster, name: str) -> Json | None:
    return await cluster.get(Key(LEASES.api_version, LEASES.kind, name, names.NAMESPACE_KOORDINATOR))


async def configuration(cluster: Cluster, theirs: Theirs) -> str:
    """The configuration file of Koordinator's component; empty if there is none. Raises an
    error that names the faults if koord cannot use it."""
    if not theirs.configuration:
        return ""
    key = Key("v1", "ConfigMap", theirs.configuration, names.NAMESPACE_KOORDINATOR)
    data = said(await cluster.get(key) or {}, "data")
    text = str(data.get(theirs.configuration, "")) if isinstance(data, Mapping) else ""
    if text:
        config_file.read(text, f"{key}, {theirs.configuration}")
    return text


@dataclass(frozen=True, slots=True)
class Migration:
    """How one component moves between the two projects, without obstacles."""

    theirs: Theirs
    settings: Settings
    "Settings of koord's installation afterwards."
    steps: tuple[Move, ...]
    prepared: Prepared | None
    "The plan to install koord's component; None on the way back."
    installed: bool
    "Whether koord is installed at all."

    def sentences(self) -> list[str]:
        return [said_of(step, self.theirs, self.settings.namespace) for step in self.steps]


async def prepare_migration(
    cluster: Cluster, looked: MigrationState, theirs: Theirs, settings: Settings, *, back: bool
) -> Migration:
    """`settings`: the settings of koord's installation before. Raises `Refused`."""
    name = theirs.component.name
    if why := in_the_way(looked.of(theirs), settings.namespace, back=back):
        raise Refused(f"the {name} cannot be moved{' back' if back else ''}", [why])
    if not back and (unusable := await _unusable(cluster, theirs)):
        raise Refused(f"the {name} cannot be moved", unusable)
    if lacking := await missing(cluster, _rights(theirs)):
        raise Refused("you may not do all that this takes", [f"missing right: {right}" for right in lacking])
    after = await _after(cluster, theirs, settings, back=back)
    # All obstacles are known before the first step.
    prepared = await prepare(cluster, after, adopt=True, moving=True) if not back else None
    return Migration(theirs, after, moves(theirs.component, back=back), prepared, looked.record is not None)


async def obstacles(cluster: Cluster, looked: MigrationState, settings: Settings) -> list[str]:
    """All obstacles to moving Koordinator's components."""
    problems: list[str] = []
    for standing in looked.standings:
        if standing.there is None or standing.acts == "koord":
            continue
        name = standing.theirs.component.name
        if why := in_the_way(standing, settings.namespace, back=False):
            problems.append(f"{name}: {why}")
        problems += [f"{name}: {quota}" for quota in await _unusable(cluster, standing.theirs)]
        problems += [f"{name}: missing right: {lack}" for lack in await missing(cluster, _rights(standing.theirs))]
        try:
            settings = await _after(cluster, standing.theirs, settings, back=False)
        except BadInput as fault:
            problems.append(f"{name}: {fault}")
    try:
        await prepare(cluster, settings, adopt=True, moving=True)
    except Refused as refused:
        problems += refused.reasons
    return problems


async def _unusable(cluster: Cluster, theirs: Theirs) -> list[str]:
    """Quotas that koord's scheduler would not use."""
    if theirs.component is not SCHEDULER:
        return []
    with suppress(Forbidden):
        return unusable_quotas([quota async for quota in cluster.all_of(ELASTIC_QUOTAS)])
    return []


async def _after(cluster: Cluster, theirs: Theirs, settings: Settings, *, back: bool) -> Settings:
    """The settings after the move, with the configuration of Koordinator's component."""
    name = theirs.component.name
    configurations = dict(settings.configurations)
    if not back and name not in configurations and (text := await configuration(cluster, theirs)):
        configurations[name] = text
    components = with_component(settings.components, name, back=back)
    return replace(settings, components=components, configurations=configurations)


def _rights(theirs: Theirs) -> list[RequiredRight]:
    own, kind = names.NAMESPACE_KOORDINATOR, _kind(theirs)
    return [
        *(RequiredRight(verb, kind.plural, kind.group, own, theirs.name) for verb in ("get", "patch")),
        RequiredRight("list", "pods", "", own),
        *(RequiredRight(v, LEASES.plural, LEASES.group, own, theirs.lease) for v in ("get", "patch") if theirs.lease),
        *(
            RequiredRight(verb, kind_of(key).plural, kind_of(key).group, name=key.name)
            for key in (WEBHOOKS if theirs.component is MANAGER else ())
            for verb in ("get", "patch")
        ),
    ]


def _kind(theirs: Theirs) -> Kind[Any]:
    return DAEMON_SETS if theirs.kind == "DaemonSet" else DEPLOYMENTS


async def migrate(cluster: Cluster, migration: Migration, progress: Progress, *, wait_s: float) -> None:
    """Runs the steps in order. `wait_s`: how long each step may wait until its pods are ready or gone. With 0, only
    pods that must be gone are checked, and cgroups of nodes stay unchanged."""
    shell = _Shell(cluster, migration, progress, wait_s)
    for move in migration.steps:
        progress(said_of(move, migration.theirs, migration.settings.namespace))
        await shell.do(move)


class _Shell:
    def __init__(self, cluster: Cluster, migration: Migration, progress: Progress, wait_s: float) -> None:
        self._cluster, self._theirs, self._settings = cluster, migration.theirs, migration.settings
        self._prepared = migration.prepared
        self._progress, self._wait_s, self._is_installed = progress, wait_s, migration.installed
        kind = _kind(self._theirs)
        self._there = Key(kind.api_version, kind.kind, self._theirs.name, names.NAMESPACE_KOORDINATOR)
        self._here = Key(kind.api_version, kind.kind, self._theirs.component.full_name, migration.settings.namespace)

    async def do(self, move: Move) -> None:
        match move:
            case "install":
                assert self._prepared is not None
                await self._carry_out(self._prepared)
            case "remove":
                await self._removed()
            case "open":
                await self._opened()
            case "pause":
                await self._patched(self._there, pause)
            case "resume":
                await self._patched(self._there, resume)
                if self._wait_s:
                    await rolled_out(self._cluster, self._there, self._wait_s, self._progress)
            case "wait":
                await self._gone(self._there)
            case "stop":
                await self._patched(self._here, lambda _: {"spec": {"replicas": 0}})
                await self._gone(self._here)
            case "restore":
                await self._restored()
            case "release":
                await self._released()
            case "lead" | "theirs lead":
                await self._led(by_koord=move == "lead")

    async def _carry_out(self, prepared: Prepared) -> None:
        await carry_out(self._cluster, prepared, self._progress, wait_s=self._wait_s)

    async def _removed(self) -> None:
        if self._is_installed:
            await self._carry_out(await prepare(self._cluster, self._settings, adopt=True, moving=True))
        if self._theirs.component is MANAGER:
            await hand_back_webhooks(self._cluster, self._progress)

    async def _opened(self) -> None:
        for key in WEBHOOKS:
            for _ in range(TRIES):
                live = await self._cluster.get(key)
                patch = opened(live, self._settings.namespace) if live is not None else None
                if patch is None:
                    break
                with suppress(Conflict):
                    await self._cluster.client.patch(kind_of(key), key.name, patch, field_manager=FIELD_MANAGER)
                    break
            else:
                raise NotMoved(f"others keep changing {key}; run this again")

    async def _patched(self, key: Key, patch_of: Callable[[Json], Json | None]) -> None:
        live = await self._cluster.get(key)
        patch = patch_of(live) if live is not None else None
        if patch is not None:
            await self._cluster.client.patch(
                _kind(self._theirs), key.name, patch, namespace=key.namespace, field_manager=FIELD_MANAGER
            )

    async def _gone(self, key: Key) -> None:
        live = await self._cluster.get(key)
        if live is None:
            return

        async def left() -> str:
            pods = await _pods(self._cluster, live)
            return f"{key} still has {', '.join(pods[:3])}" + (" ..." if len(pods) > 3 else "") if pods else ""

        await self._until(left)

    async def _restored(self) -> None:
        if not self._wait_s or await self._cluster.get(self._here) is None:
            return
        problem = await put_nodes_back(self._cluster, self._settings, self._wait_s)
        if problem:
            raise NotMoved(problem)

    async def _released(self) -> None:
        """Releases a lease whose holder ended without releasing it. A running holder would have renewed it."""
        deadline_s = time.monotonic() + UNRENEWED_S
        first = await self._held_by_another()
        while (lease := await self._held_by_another()) is not None and lease == first:
            if time.monotonic() < deadline_s:
                await asyncio.sleep(min(LOOK_AGAIN_S, UNRENEWED_S))
                continue
            with suppress(Conflict):
                await self._release(lease)
        if lease is not None:
            raise NotMoved(
                f"lease {self._theirs.lease}: {said(lease, 'spec', 'holderIdentity')} still renews it, though"
                f" Koordinator's {self._there} has no pods; end that process, and run this again"
            )

    async def _held_by_another(self) -> Json | None:
        lease = await _lease(self._cluster, self._theirs.lease)
        return lease if is_anothers(str(said(lease or {}, "spec", "holderIdentity") or "")) else None

    async def _release(self, lease: Json) -> None:
        free = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micro_from_seconds(time.time())}
        version = said(lease, "metadata", "resourceVersion")
        await self._cluster.client.patch(
            LEASES,
            self._theirs.lease,
            {"metadata": {"resourceVersion": version}, "spec": free},
            namespace=names.NAMESPACE_KOORDINATOR,
            field_manager=FIELD_MANAGER,
        )

    async def _led(self, *, by_koord: bool) -> None:
        async def not_yet() -> str:
            lease = await _lease(self._cluster, self._theirs.lease)
            holder = str(said(lease or {}, "spec", "holderIdentity") or "")
            wanted = bool(holder) and is_anothers(holder) != by_koord
            return "" if wanted else f"lease {self._theirs.lease} is held by {holder or 'no process'}"

        if self._wait_s:
            await self._until(not_yet)

    async def _until(self, lacks: Callable[[], Awaitable[str]]) -> None:
        deadline_s = time.monotonic() + self._wait_s
        while state := await lacks():
            if time.monotonic() > deadline_s:
                raise NotMoved(f"{state} after {self._wait_s:g} s; run this again once that is fixed")
            await asyncio.sleep(LOOK_AGAIN_S)
