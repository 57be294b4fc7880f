"""Starts, stops, resumes and ends roll-outs on a running cluster. The manager carries out the steps in between.

Every write names the version that was read, so that two users, or a user and the manager, never silently undo each
other's changes. All commands can be repeated, and continue where a killed one stopped. The configuration is written
before the roll-out: it switches nothing on until nodes have its label.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import structs
from msgspec.structs import replace

from koord.api.configuration.slo_config import reload
from koord.api.kinds import NODES
from koord.api.kubernetes.core import ConfigMap
from koord.api.kubernetes.node import Node
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.errors import Conflict, NotFound
from koord.manager.rollout.features import FEATURES, Feature, RolloutError, begun, ended, is_begun, obstacle
from koord.manager.rollout.state import Rollout, checked, chosen, parse, render
from koord.manager.rollout.steps import resumed, stopped
from koord.offline.live.node_snapshot import who_is_missing
from koord.operate.install.live.cluster import Cluster
from koord.operate.install.live.may_i import RequiredRight, missing
from koord.operate.live import colocation as switch
from koord.operate.live.break_glass import FIELD_MANAGER
from koord.operate.live.colocation import Done, Scope, SwitchResult, each_of, take_back
from koord.operate.live.config_maps import config_map, rewrite

HAND: Final = "stopped by hand"


class RolloutShown(msgspec.Struct, frozen=True, rename="camel"):
    feature: str
    state: str
    percent: int
    steps: tuple[int, ...]
    selector: str
    nodes: tuple[str, ...]
    "Nodes that have the feature."
    pool: int
    "Number of nodes in the roll-out's pool."
    since_s: float
    every_seconds: float
    reason: str = ""
    taken_back: tuple[str, ...] = ()
    unready: tuple[str, ...] = ()
    slowed: tuple[str, ...] = ()
    evictions: int = 0


class RolloutResult(msgspec.Struct, frozen=True, rename="camel"):
    rollouts: tuple[RolloutShown, ...]
    faults: tuple[str, ...] = ()
    "Stored roll-outs that cannot be read."
    manager: str = ""
    "A note if no manager leads; otherwise empty."


class StatusResult(SwitchResult, frozen=True, rename="camel"):
    """The state of co-location, including roll-outs."""

    rollouts: tuple[RolloutShown, ...] = ()
    rollout_faults: tuple[str, ...] = ()
    "Faults in stored roll-outs."


async def status(client: Client, scope: Scope) -> StatusResult:
    switched, looked = await switch.look(client, scope), await look(client)
    return StatusResult(**structs.asdict(switched), rollouts=looked.rollouts, rollout_faults=looked.faults)


async def look(client: Client, only: Feature | None = None) -> RolloutResult:
    stored = await config_map(client, names.CONFIGMAP_ROLLOUTS)
    shown, faults = [], []
    nodes = await client.list(NODES) if stored is not None and stored.data else []
    for feature in FEATURES:
        text = stored.data.get(feature.name) if stored is not None else None
        if text is None or (only is not None and feature is not only):
            continue
        try:
            shown.append(_shown(feature, parse(feature.name, text), nodes))
        except BadInput as error:
            faults.append(f"ConfigMap {names.CONFIGMAP_ROLLOUTS}: {error}")
    return RolloutResult(tuple(shown), tuple(faults), await who_is_missing(client, time.time()))


def _shown(feature: Feature, rollout: Rollout, nodes: Sequence[Node]) -> RolloutShown:
    matcher = rollout.matcher
    pool = [node for node in nodes if matcher is None or matcher.matches(node.metadata.labels)]
    inside = [node.metadata.name for node in nodes if feature.label in node.metadata.labels]
    return RolloutShown(
        feature.name,
        rollout.state,
        rollout.percent,
        rollout.steps,
        rollout.selector,
        tuple(sorted(inside)),
        len(pool),
        rollout.since_s,
        rollout.every_seconds,
        rollout.reason,
        rollout.taken_back,
        rollout.found.unready,
        rollout.found.slowed,
        rollout.found.evictions,
    )


async def start(client: Client, feature: Feature, wanted: Rollout, *, dry_run: bool = False) -> RolloutResult:
    """Starts a roll-out. Refused if the feature already has one with other settings."""
    checked(wanted)
    if not dry_run:
        await _require_rights(client, feature, on_nodes=False)
    matcher = wanted.matcher
    nodes = [node for node in await client.list(NODES) if matcher is None or matcher.matches(node.metadata.labels)]
    if not nodes:
        raise RolloutError(f"there is no node with {wanted.selector}" if wanted.selector else "there is no node")
    stored = await config_map(client, names.CONFIGMAP_ROLLOUTS)
    present = stored.data.get(feature.name) if stored is not None else None
    if present is not None:
        same = _asked(parse(feature.name, present)) == _asked(wanted)
        if not same:
            raise RolloutError(
                f"there is a roll-out of {feature.name} already, with other settings: koord colocation rollout status;"
                " undo or finish it first"
            )
        return await look(client, feature)
    picked = [(node.metadata.name, node.metadata.labels) for node in nodes]
    if dry_run:
        config = await config_map(client, names.CONFIGMAP_SLO_CONTROLLER)
        begun(config.data if config is not None else {}, feature, picked)
        first = chosen([name for name, _ in picked], wanted.percent)
        shown = replace(_shown(feature, wanted, nodes), nodes=tuple(sorted(first)))
        return RolloutResult((shown,), manager=await who_is_missing(client, time.time()))
    await _configure(client, feature, lambda data: begun(data, feature, picked))
    try:
        await _change(client, feature, lambda current: current or replace(wanted, since_s=time.time()))
    except NotFound:
        raise RolloutError(f"namespace {names.NAMESPACE_KOORDINATOR} is gone") from None
    return await look(client, feature)


def _asked(rollout: Rollout) -> tuple[object, ...]:
    return rollout.selector, rollout.steps, rollout.every_seconds, rollout.limits, rollout.on_stop


async def stop(client: Client, feature: Feature, reason: str) -> RolloutResult:
    said = f"{HAND}: {reason}" if reason else HAND
    await _go_on(client, feature, lambda current: stopped(current, time.time(), said))
    return await look(client, feature)


async def resume(client: Client, feature: Feature, *, again: bool) -> RolloutResult:
    config = await config_map(client, names.CONFIGMAP_SLO_CONTROLLER)
    why = obstacle(config.data if config is not None else {}, feature)
    if why:
        raise RolloutError(f"{names.CONFIGMAP_SLO_CONTROLLER}: {why}; undo the roll-out, and start it again")

    def go_on(rollout: Rollout) -> Rollout:
        return rollout if rollout.state == "running" else resumed(rollout, time.time(), again=again)

    await _go_on(client, feature, go_on)
    return await look(client, feature)


async def end(client: Client, feature: Feature, *, on: bool, force: bool = False) -> dict[str, str] | None:
    """Ends a roll-out: on for the whole cluster, or off as before. Returns the nodes that could not be written, and
    why; None if there is no roll-out to undo.

    Labels are removed last: while the configuration selects nodes by these labels, they keep nodes unchanged.
    Afterwards they have no effect.
    """
    await _require_rights(client, feature, on_nodes=True)
    stored = await config_map(client, names.CONFIGMAP_ROLLOUTS)
    text = stored.data.get(feature.name) if stored is not None else None
    if on and not force:
        if text is None:
            raise RolloutError(f"there is no roll-out of {feature.name}")
        rollout = parse(feature.name, text)
        if rollout.state != "complete" or rollout.percent < 100:
            raise RolloutError(
                f"the roll-out of {feature.name} is {rollout.state} at {rollout.percent}%: it can be finished when it"
                " is complete at 100%; --force switches the feature on for the whole cluster as it is"
            )
        _require_whole(rollout, await client.list(NODES))
    config_before = await config_map(client, names.CONFIGMAP_SLO_CONTROLLER) or ConfigMap()
    nodes = await client.list(NODES)
    labelled = [node for node in nodes if feature.label in node.metadata.labels]
    if text is None and not is_begun(config_before.data, feature):
        if on:
            raise RolloutError(f"there is no roll-out of {feature.name} to finish")
        if not labelled:
            return None
    await _configure(client, feature, lambda data: ended(data, feature, on=on))
    await _change(client, feature, lambda current: None)
    done = Done()
    data = (await config_map(client, names.CONFIGMAP_SLO_CONTROLLER) or ConfigMap()).data
    config = reload(None, data)[0]

    async def unlabel(node: Node) -> None:
        patch = {"metadata": {"uid": node.metadata.uid, "labels": {feature.label: None}}}
        try:
            await client.patch(NODES, node.metadata.name, patch, field_manager=FIELD_MANAGER)
        except (NotFound, Conflict):
            return

    if feature.is_lending and not on:
        await each_of(nodes, lambda node: take_back(client, node, config, done))
    # Without the roll-out the manager labels no more nodes; until then it may have labelled some.
    await each_of([node for node in await client.list(NODES) if feature.label in node.metadata.labels], unlabel)
    return done.refused


def _require_whole(rollout: Rollout, nodes: Sequence[Node]) -> None:
    """Finishing gives the whole cluster the feature, so the roll-out must cover all nodes."""
    matcher = rollout.matcher
    others = [node for node in nodes if matcher is not None and not matcher.matches(node.metadata.labels)]
    if others:
        one = len(others) == 1
        raise RolloutError(
            f"the roll-out is for nodes with {rollout.selector}, and {len(others)} {'node is' if one else 'nodes are'}"
            f" not among them ({others[0].metadata.name}{'' if one else ' ...'}): leave it complete to keep the feature"
            " for that pool; --force switches it on for the whole cluster at once"
        )


async def _require_rights(client: Client, feature: Feature, *, on_nodes: bool) -> None:
    """Raises an error with all missing rights, before anything is written."""
    where = names.NAMESPACE_KOORDINATOR
    wanted = [RequiredRight("create", "configmaps", "", where)]
    for name in (names.CONFIGMAP_SLO_CONTROLLER, names.CONFIGMAP_ROLLOUTS):
        wanted += [RequiredRight(verb, "configmaps", "", where, name) for verb in ("get", "patch")]
    wanted.append(RequiredRight("list", "nodes", ""))
    if on_nodes:
        wanted.append(RequiredRight("patch", "nodes", ""))
        wanted += [RequiredRight("patch", "nodes", "", subresource="status")] * feature.is_lending
    lacking = await missing(Cluster(client), wanted)
    if lacking:
        raise RolloutError("nothing was changed; missing rights: " + ", ".join(map(str, lacking)))


async def _go_on(client: Client, feature: Feature, change: Callable[[Rollout], Rollout]) -> None:
    """Changes an existing, valid roll-out."""

    def text_of(data: Mapping[str, str]) -> str:
        present = data.get(feature.name)
        if present is None:
            raise RolloutError(f"there is no roll-out of {feature.name}; koord colocation rollout start begins one")
        try:
            return render(change(parse(feature.name, present)))
        except BadInput as error:
            raise RolloutError(
                f"ConfigMap {names.CONFIGMAP_ROLLOUTS}: {error}\n"
                f"Mend it there, or take it away with koord colocation rollout undo {feature.name}."
            ) from None

    await rewrite(client, names.CONFIGMAP_ROLLOUTS, feature.name, text_of)


async def _change(client: Client, feature: Feature, change: Callable[[Rollout | None], Rollout | None]) -> None:
    def text_of(data: Mapping[str, str]) -> str | None:
        before = None
        if (present := data.get(feature.name)) is not None:
            # An invalid roll-out can still be ended or replaced.
            with suppress(BadInput):
                before = parse(feature.name, present)
        after = change(before)
        return render(after) if after is not None else None

    await rewrite(client, names.CONFIGMAP_ROLLOUTS, feature.name, text_of)


async def _configure(client: Client, feature: Feature, text_of: Callable[[Mapping[str, str]], str | None]) -> None:
    """`text_of` returns None if the section does not change."""

    def kept(data: Mapping[str, str]) -> str | None:
        text = text_of(data)
        return data.get(feature.section) if text is None else text

    await rewrite(client, names.CONFIGMAP_SLO_CONTROLLER, feature.section, kept)
