"""Takes koord off a cluster: rights, webhooks and workloads, what agents changed on nodes, what is written on Nodes,
and at last what only koord needs. Killed at any point, the next run goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from koord.api.kinds import (
    CONFIG_MAPS,
    CUSTOM,
    DAEMON_SETS,
    DEPLOYMENTS,
    ELASTIC_QUOTAS,
    LEASES,
    NODES,
    PODS,
    SECRETS,
    Kind,
)
from koord.api.protocol import names
from koord.api.protocol.announcements import ANNOUNCED
from koord.api.protocol.priority import BANDS
from koord.kube.errors import ApiError, Conflict, NotFound
from koord.operate.install.kinds import kind_of
from koord.operate.install.live.cluster import Cluster, each_of
from koord.operate.install.live.installing import LOOK_AGAIN_S, Progress, Refused, find_record, standing
from koord.operate.install.live.may_i import Wanted, for_objects, missing
from koord.operate.install.manifest import Json, Key, key_of, labels_of
from koord.operate.install.migration import FIELD_MANAGER as MIGRATING
from koord.operate.install.migration import THEIRS, is_paused
from koord.operate.install.node_agent import restoring
from koord.operate.install.plan import is_own
from koord.operate.install.record import NAME, Record
from koord.operate.install.removal import LEASES as OWN_LEASES
from koord.operate.install.removal import QUOTAS, REPORTS, Kept, Removal, before_koord, is_of_another, removal
from koord.operate.install.settings import AGENT, SCHEDULER, Settings
from koord.operate.install.traces import WRITERS, is_by_koord_alone, traces

GONE_WITHIN_S: Final = 60.0
TRIES: Final = 5
_REGISTRATION: Final = "admissionregistration.k8s.io/v1"
WEBHOOKS: Final = (
    Key(_REGISTRATION, "MutatingWebhookConfiguration", names.WEBHOOK_MUTATING_CONFIGURATION),
    Key(_REGISTRATION, "ValidatingWebhookConfiguration", names.WEBHOOK_VALIDATING_CONFIGURATION),
)


class NotInstalled(Refused):
    """There is nothing to take away."""


@dataclass(slots=True)
class Taken:
    """What was done, and what is left."""

    deleted: list[Key] = field(default_factory=list)
    nodes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    "By node, what was taken off it."
    kept: list[Kept] = field(default_factory=list)
    cgroups_left: bool = False
    "Whether agents were not asked to put them back."
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Leaving:
    """What would go, and what that means."""

    record: Record
    removal: Removal
    custom: dict[str, int]
    "By kind, how many objects users have."
    waiting: tuple[str, ...]
    "Pods without a node that only koord's scheduler would place."
    paused: tuple[str, ...] = ()
    "Components of Koordinator's that gave way to koord's, and would stay so."
    writers: frozenset[str] = WRITERS
    "Koord's components, as managedFields name them; without those whose namesakes of Koordinator's run."


async def look(cluster: Cluster, namespace: str, *, delete_crds: bool) -> Leaving:
    record = await find_record(cluster, namespace)
    if record is None:
        raise NotInstalled("koord is not installed on this cluster", [f"there is no ConfigMap {NAME} in any namespace"])
    keys = [*record.applied]
    lacking = await missing(cluster, [*for_objects(keys, "get", "delete"), *_further_rights(record.settings)])
    if lacking:
        raise Refused("you may not do all that uninstalling takes", [f"missing right: {each}" for each in lacking])
    live = await cluster.live(keys)
    classes, waiting = set[str](), []
    for pod in await cluster.client.list(PODS):
        classes.add(pod.spec.priority_class_name)
        if pod.spec.scheduler_name == names.SCHEDULER_KOORD and not pod.spec.node_name and not pod.is_finished:
            waiting.append(pod.metadata.key)
    in_use = classes & {str(each) for each in BANDS}
    custom = {kind.resource: number for kind in CUSTOM if (number := await _count(cluster, kind))}
    leaving = removal(live, in_use, delete_crds=delete_crds)
    paused, running = await _theirs(cluster)
    return Leaving(record, leaving, custom, tuple(waiting), paused, WRITERS - running)


async def _theirs(cluster: Cluster) -> tuple[tuple[str, ...], frozenset[str]]:
    """Koordinator's components that are paused, and the names under which the others write."""
    keys = {Key("apps/v1", each.kind, each.name, names.NAMESPACE_KOORDINATOR): each for each in THEIRS}
    live = {key: found for key, found in (await cluster.live(keys)).items() if not is_own(found)}
    paused = tuple(keys[key].component.name for key, found in live.items() if is_paused(found))
    return paused, frozenset(keys[key].name for key, found in live.items() if not is_paused(found))


def _further_rights(settings: Settings) -> list[Wanted]:
    own = names.NAMESPACE_KOORDINATOR
    return [
        *(Wanted(verb, "nodes", "") for verb in ("list", "patch")),
        Wanted("patch", "nodes", "", subresource="status"),
        Wanted("list", "pods", ""),
        *(Wanted(verb, "daemonsets", "apps", settings.namespace) for verb in ("get", "patch")),
        *(Wanted(verb, kind.plural, kind.group) for kind in REPORTS for verb in ("list", "delete")),
        *(Wanted(verb, "elasticquotas", "scheduling.sigs.k8s.io", own) for verb in ("list", "delete")),
        *(Wanted(verb, "configmaps", "", own) for verb in ("get", "delete")),
        *(Wanted("get", workloads, "apps", own) for workloads in ("deployments", "daemonsets")),
        *(Wanted(verb, "leases", "coordination.k8s.io", own) for verb in ("list", "delete")),
    ]


async def _count(cluster: Cluster, kind: Kind[Any]) -> int:
    return sum([1 async for _ in cluster.all_of(kind)])


async def take_away(cluster: Cluster, leaving: Leaving, progress: Progress, *, restore_s: float) -> Taken:
    taken, plan = Taken(), leaving.removal
    taken.kept += plan.kept
    await _hand_back(cluster, plan.handed_back, progress)
    for key in plan.early:
        progress(f"deleting {key}")
        await _delete(cluster, key, taken)
    needed = await _restore_nodes(cluster, leaving, taken, progress, restore_s)
    taken.kept += [Kept(key, "nodes are yet to be restored") for key in plan.late if key in needed]
    progress("taking off Nodes what koord wrote")
    found = [each async for each in cluster.all_of(NODES)]
    await each_of((key_of(each).name for each in found), lambda name: _clean(cluster, name, taken, leaving.writers))
    await _delete_reports(cluster, taken, progress, leaving.writers)
    await _delete_quotas(cluster, taken, leaving.writers)
    await _delete_maps(cluster, taken)
    for key in plan.late:
        if key in needed:
            continue
        progress(f"deleting {key}")
        await _delete(cluster, key, taken)
    await _delete_leases(cluster, taken)
    if taken.problems:
        # The record stays: the next run goes on from here.
        return taken
    own = Key("v1", "ConfigMap", NAME, leaving.record.settings.namespace)
    await cluster.delete(own)
    taken.deleted.append(own)
    for key in plan.namespaces:
        await _leave_namespace(cluster, key, taken)
    return taken


async def _restore_nodes(
    cluster: Cluster, leaving: Leaving, taken: Taken, progress: Progress, restore_s: float
) -> tuple[Key, ...]:
    """What has to stay because nodes are left: the next run waits for them again."""
    settings = leaving.record.settings
    key = key_of(restoring(settings))
    if key not in leaving.removal.late or await cluster.get(key) is None:
        return ()
    if restore_s <= 0:
        taken.cgroups_left = True
        return ()
    progress("agents put back what they changed on their nodes")
    if problem := await put_nodes_back(cluster, settings, restore_s):
        taken.problems.append(f"{problem}; --restore-timeout 0 leaves them")
        return key, Key("v1", "ServiceAccount", AGENT.full_name, settings.namespace)
    return ()


async def put_nodes_back(cluster: Cluster, settings: Settings, within_s: float) -> str:
    """The DaemonSet's pods become ones that put back what agents changed; then it may go. What went wrong, if
    anything."""
    manifest = restoring(settings)
    key = key_of(manifest)
    await cluster.apply(manifest)
    deadline_s = time.monotonic() + within_s
    while True:
        found = await cluster.get(key)
        state = standing(found) if found is not None else ""
        if not state:
            return ""
        if time.monotonic() > deadline_s:
            break
        await asyncio.sleep(LOOK_AGAIN_S)
    behind = [each async for each in _not_restored(cluster, settings)]
    where = ", ".join(behind) if behind else state
    return f"cgroups may not be restored on {where}: run 'koord agent restore' there, or this again"


async def hand_back_webhooks(cluster: Cluster, progress: Progress) -> None:
    """Others' webhook configurations get what they had before koord's manager registered its own."""
    live = await cluster.live(WEBHOOKS)
    await _hand_back(cluster, {key: patch for key, each in live.items() if (patch := before_koord(each))}, progress)


async def _hand_back(cluster: Cluster, patches: Mapping[Key, Json], progress: Progress) -> None:
    for key, patch in patches.items():
        progress(f"giving {key} its webhooks back")
        # Under a name that makes no object koord's.
        await cluster.client.patch(kind_of(key), key.name, patch, field_manager=MIGRATING)


async def _not_restored(cluster: Cluster, settings: Settings) -> AsyncIterator[str]:
    selector = f"app.kubernetes.io/name={AGENT.full_name}"
    for pod in await cluster.client.list(PODS, namespace=settings.namespace, labels=selector):
        if not any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions):
            yield pod.spec.node_name or pod.metadata.name


async def _delete(cluster: Cluster, key: Key, taken: Taken) -> None:
    """What cannot be deleted is told; the rest goes on."""
    try:
        if await cluster.delete(key, propagation="Background"):
            taken.deleted.append(key)
    except ApiError as error:
        taken.problems.append(str(error))


async def _clean(cluster: Cluster, name: str, taken: Taken, writers: frozenset[str]) -> None:
    """Again where somebody writes meanwhile: a component's last request may be on its way."""
    key = Key("v1", "Node", name)
    for _ in range(TRIES):
        node = await cluster.get(key)
        if node is None:
            return
        found = traces(node, writers)
        if not found.names:
            return
        try:
            for patch, subresource in ((found.object, ""), (found.status, "status")):
                if patch is not None:
                    await cluster.patch(key, patch, subresource)
        except NotFound:
            return
        except Conflict:
            continue
        except ApiError as error:
            taken.problems.append(f"Node {name}: {error}")
            return
        taken.nodes[name] = (*taken.nodes.get(name, ()), *found.names)


async def _delete_reports(cluster: Cluster, taken: Taken, progress: Progress, writers: frozenset[str]) -> None:
    for kind in REPORTS:
        mine = [key_of(each) async for each in cluster.all_of(kind) if is_by_koord_alone(each, writers)]
        if mine:
            progress(f"deleting {len(mine)} {kind.plural}")
            await each_of(mine, cluster.delete)
            taken.deleted += mine


async def _delete_quotas(cluster: Cluster, taken: Taken, writers: frozenset[str]) -> None:
    """Those that a scheduler makes by itself. One that is still in use stays: that is no failure."""
    async for quota in cluster.all_of(ELASTIC_QUOTAS, namespace=names.NAMESPACE_KOORDINATOR):
        key = key_of(quota)
        if key.name not in QUOTAS:
            continue
        if SCHEDULER.full_name not in writers:
            taken.kept.append(Kept(key, "Koordinator's scheduler uses it"))
        elif not is_by_koord_alone(quota, writers):
            taken.kept.append(Kept(key, "others wrote it too; delete it if it is of no use"))
        else:
            try:
                if await cluster.delete(key):
                    taken.deleted.append(key)
            except ApiError as error:
                taken.kept.append(Kept(key, f"a manager that still runs refuses to delete it ({error.message})"))


async def _delete_maps(cluster: Cluster, taken: Taken) -> None:
    """What the manager and `koord colocation` keep beside the configuration."""
    for name in (names.CONFIGMAP_SLO_IN_FORCE, names.CONFIGMAP_ROLLOUTS):
        key = Key("v1", "ConfigMap", name, names.NAMESPACE_KOORDINATOR)
        found = await cluster.get(key)
        # One in which nothing stands has nobody who wrote it.
        if found is None or (found.get("data") and not is_by_koord_alone(found)):
            continue
        if await cluster.delete(key):
            taken.deleted.append(key)


async def _delete_leases(cluster: Cluster, taken: Taken) -> None:
    async for lease in cluster.all_of(LEASES, namespace=names.NAMESPACE_KOORDINATOR):
        key = key_of(lease)
        own = key.name in OWN_LEASES and not is_of_another(lease)
        if (own or ANNOUNCED in labels_of(lease)) and await cluster.delete(key):
            taken.deleted.append(key)


async def _leave_namespace(cluster: Cluster, key: Key, taken: Taken) -> None:
    """Deleted if koord made it and nothing but what every namespace has is in it."""
    left = [str(each) async for each in _in_namespace(cluster, key.name)]
    if left:
        shown = ", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
        taken.kept.append(Kept(key, f"{shown} {'are' if len(left) > 1 else 'is'} in it"))
    elif await cluster.delete(key):
        taken.deleted.append(key)


async def _in_namespace(cluster: Cluster, namespace: str) -> AsyncIterator[Key]:
    everywhere = {"kube-root-ca.crt"}
    kinds: tuple[Kind[Any], ...] = (CONFIG_MAPS, SECRETS, DEPLOYMENTS, DAEMON_SETS, LEASES, PODS, *CUSTOM)
    for kind in kinds:
        if not kind.namespaced:
            continue
        async for found in cluster.all_of(kind, namespace=namespace):
            if key_of(found).name not in everywhere and not (kind is PODS and is_own(found)):
                yield key_of(found)
