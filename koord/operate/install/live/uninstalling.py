"""Removes koord from a cluster: rights, webhooks and workloads, the agents' changes on nodes, koord's fields on Nodes,
and last the objects that only koord needs. If it is killed at any point, the next run continues."""

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
from koord.operate.install.live.may_i import RequiredRight, for_objects, missing
from koord.operate.install.manifest import Json, Key, key_of, labels_of
from koord.operate.install.migration import FIELD_MANAGER as MIGRATING
from koord.operate.install.migration import THEIRS, is_paused
from koord.operate.install.node_agent import restoring
from koord.operate.install.plan import is_own
from koord.operate.install.record import NAME, Record
from koord.operate.install.removal import LEASES as OWN_LEASES
from koord.operate.install.removal import QUOTAS, REPORTS, KeptObject, Removal, before_koord, is_of_another, removal
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
    """koord is not installed."""


@dataclass(slots=True)
class UninstallReport:
    """What was done, and what is left."""

    deleted: list[Key] = field(default_factory=list)
    nodes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    "By node, what was removed from it."
    kept: list[KeptObject] = field(default_factory=list)
    cgroups_left: bool = False
    "Whether the agents' cgroup changes were left in place."
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class UninstallPlan:
    """The objects that would be removed, and the consequences."""

    record: Record
    removal: Removal
    custom: dict[str, int]
    "The number of objects that users have, by kind."
    waiting: tuple[str, ...]
    "Pods without a node that only koord's scheduler would place."
    paused: tuple[str, ...] = ()
    "Components of Koordinator that are paused in favour of koord's, and would stay paused."
    writers: frozenset[str] = WRITERS
    "koord's components, as managedFields name them, except those whose namesakes from Koordinator run."


async def look(cluster: Cluster, namespace: str, *, delete_crds: bool) -> UninstallPlan:
    record = await find_record(cluster, namespace)
    if record is None:
        raise NotInstalled("koord is not installed on this cluster", [f"there is no ConfigMap {NAME} in any namespace"])
    keys = [*record.applied]
    lacking = await missing(cluster, [*for_objects(keys, "get", "delete"), *_further_rights(record.settings)])
    if lacking:
        raise Refused("you may not do all that uninstalling takes", [f"missing right: {right}" for right in lacking])
    live = await cluster.live(keys)
    classes, waiting = set[str](), []
    for pod in await cluster.client.list(PODS):
        classes.add(pod.spec.priority_class_name)
        if pod.spec.scheduler_name == names.SCHEDULER_KOORD and not pod.spec.node_name and not pod.is_finished:
            waiting.append(pod.metadata.key)
    in_use = classes & {str(band) for band in BANDS}
    custom = {kind.resource: number for kind in CUSTOM if (number := await _count(cluster, kind))}
    leaving = removal(live, in_use, delete_crds=delete_crds)
    paused, running = await _theirs(cluster)
    return UninstallPlan(record, leaving, custom, tuple(waiting), paused, WRITERS - running)


async def _theirs(cluster: Cluster) -> tuple[tuple[str, ...], frozenset[str]]:
    """Koordinator's paused components, and the field manager names of the running ones."""
    keys = {Key("apps/v1", theirs.kind, theirs.name, names.NAMESPACE_KOORDINATOR): theirs for theirs in THEIRS}
    live = {key: manifest for key, manifest in (await cluster.live(keys)).items() if not is_own(manifest)}
    paused = tuple(keys[key].component.name for key, manifest in live.items() if is_paused(manifest))
    return paused, frozenset(keys[key].name for key, manifest in live.items() if not is_paused(manifest))


def _further_rights(settings: Settings) -> list[RequiredRight]:
    own = names.NAMESPACE_KOORDINATOR
    return [
        *(RequiredRight(verb, "nodes", "") for verb in ("list", "patch")),
        RequiredRight("patch", "nodes", "", subresource="status"),
        RequiredRight("list", "pods", ""),
        *(RequiredRight(verb, "daemonsets", "apps", settings.namespace) for verb in ("get", "patch")),
        *(RequiredRight(verb, kind.plural, kind.group) for kind in REPORTS for verb in ("list", "delete")),
        *(RequiredRight(verb, "elasticquotas", "scheduling.sigs.k8s.io", own) for verb in ("list", "delete")),
        *(RequiredRight(verb, "configmaps", "", own) for verb in ("get", "delete")),
        *(RequiredRight("get", workloads, "apps", own) for workloads in ("deployments", "daemonsets")),
        *(RequiredRight(verb, "leases", "coordination.k8s.io", own) for verb in ("list", "delete")),
    ]


async def _count(cluster: Cluster, kind: Kind[Any]) -> int:
    return sum([1 async for _ in cluster.all_of(kind)])


async def take_away(
    cluster: Cluster, leaving: UninstallPlan, progress: Progress, *, restore_s: float
) -> UninstallReport:
    report, plan = UninstallReport(), leaving.removal
    report.kept += plan.kept
    await _hand_back(cluster, plan.handed_back, progress)
    for key in plan.early:
        progress(f"deleting {key}")
        await _delete(cluster, key, report)
    needed = await _restore_nodes(cluster, leaving, report, progress, restore_s)
    report.kept += [KeptObject(key, "nodes are yet to be restored") for key in plan.late if key in needed]
    progress("taking off Nodes what koord wrote")
    nodes = [node async for node in cluster.all_of(NODES)]
    await each_of((key_of(node).name for node in nodes), lambda name: _clean(cluster, name, report, leaving.writers))
    await _delete_reports(cluster, report, progress, leaving.writers)
    await _delete_quotas(cluster, report, leaving.writers)
    await _delete_maps(cluster, report)
    for key in plan.late:
        if key in needed:
            continue
        progress(f"deleting {key}")
        await _delete(cluster, key, report)
    await _delete_leases(cluster, report)
    if report.problems:
        # The record stays, so the next run continues from here.
        return report
    own = Key("v1", "ConfigMap", NAME, leaving.record.settings.namespace)
    await cluster.delete(own)
    report.deleted.append(own)
    for key in plan.namespaces:
        await _leave_namespace(cluster, key, report)
    return report


async def _restore_nodes(
    cluster: Cluster, leaving: UninstallPlan, report: UninstallReport, progress: Progress, restore_s: float
) -> tuple[Key, ...]:
    """Objects that stay because nodes are not restored yet: the next run waits for them again."""
    settings = leaving.record.settings
    key = key_of(restoring(settings))
    if key not in leaving.removal.late or await cluster.get(key) is None:
        return ()
    if restore_s <= 0:
        report.cgroups_left = True
        return ()
    progress("agents put back what they changed on their nodes")
    if problem := await put_nodes_back(cluster, settings, restore_s):
        report.problems.append(f"{problem}; --restore-timeout 0 leaves them")
        return key, Key("v1", "ServiceAccount", AGENT.full_name, settings.namespace)
    return ()


async def put_nodes_back(cluster: Cluster, settings: Settings, within_s: float) -> str:
    """Replaces the DaemonSet's pods by pods that restore what agents changed; afterwards it can be deleted. Returns the
    error, empty if there is none."""
    manifest = restoring(settings)
    key = key_of(manifest)
    await cluster.apply(manifest)
    deadline_s = time.monotonic() + within_s
    while True:
        agents = await cluster.get(key)
        state = standing(agents) if agents is not None else ""
        if not state:
            return ""
        if time.monotonic() > deadline_s:
            break
        await asyncio.sleep(LOOK_AGAIN_S)
    behind = [node async for node in _not_restored(cluster, settings)]
    where = ", ".join(behind) if behind else state
    return f"cgroups may not be restored on {where}: run 'koord agent restore' there, or this again"


async def hand_back_webhooks(cluster: Cluster, progress: Progress) -> None:
    """Restores webhook configurations of others to their content before koord's manager registered its own."""
    live = await cluster.live(WEBHOOKS)
    await _hand_back(
        cluster, {key: patch for key, manifest in live.items() if (patch := before_koord(manifest))}, progress
    )


async def _hand_back(cluster: Cluster, patches: Mapping[Key, Json], progress: Progress) -> None:
    for key, patch in patches.items():
        progress(f"giving {key} its webhooks back")
        # With a field manager that does not mark the object as koord's.
        await cluster.client.patch(kind_of(key), key.name, patch, field_manager=MIGRATING)


async def _not_restored(cluster: Cluster, settings: Settings) -> AsyncIterator[str]:
    selector = f"app.kubernetes.io/name={AGENT.full_name}"
    for pod in await cluster.client.list(PODS, namespace=settings.namespace, labels=selector):
        if not any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions):
            yield pod.spec.node_name or pod.metadata.name


async def _delete(cluster: Cluster, key: Key, report: UninstallReport) -> None:
    """Deletes an object. A failure is reported, and the uninstallation continues."""
    try:
        if await cluster.delete(key, propagation="Background"):
            report.deleted.append(key)
    except ApiError as error:
        report.problems.append(str(error))


async def _clean(cluster: Cluster, name: str, report: UninstallReport, writers: frozenset[str]) -> None:
    """Retries on a conflict: a component's last request may be on its way."""
    key = Key("v1", "Node", name)
    for _ in range(TRIES):
        node = await cluster.get(key)
        if node is None:
            return
        marks = traces(node, writers)
        if not marks.names:
            return
        try:
            for patch, subresource in ((marks.object, ""), (marks.status, "status")):
                if patch is not None:
                    await cluster.patch(key, patch, subresource)
        except NotFound:
            return
        except Conflict:
            continue
        except ApiError as error:
            report.problems.append(f"Node {name}: {error}")
            return
        report.nodes[name] = (*report.nodes.get(name, ()), *marks.names)


async def _delete_reports(
    cluster: Cluster, report: UninstallReport, progress: Progress, writers: frozenset[str]
) -> None:
    for kind in REPORTS:
        mine = [key_of(obj) async for obj in cluster.all_of(kind) if is_by_koord_alone(obj, writers)]
        if mine:
            progress(f"deleting {len(mine)} {kind.plural}")
            await each_of(mine, cluster.delete)
            report.deleted += mine


async def _delete_quotas(cluster: Cluster, report: UninstallReport, writers: frozenset[str]) -> None:
    """Deletes the quotas that a scheduler creates itself. A quota still in use stays, which is not a failure."""
    async for quota in cluster.all_of(ELASTIC_QUOTAS, namespace=names.NAMESPACE_KOORDINATOR):
        key = key_of(quota)
        if key.name not in QUOTAS:
            continue
        if SCHEDULER.full_name not in writers:
            report.kept.append(KeptObject(key, "Koordinator's scheduler uses it"))
        elif not is_by_koord_alone(quota, writers):
            report.kept.append(KeptObject(key, "others wrote it too; delete it if it is of no use"))
        else:
            try:
                if await cluster.delete(key):
                    report.deleted.append(key)
            except ApiError as error:
                report.kept.append(KeptObject(key, f"a manager that still runs refuses to delete it ({error.message})"))


async def _delete_maps(cluster: Cluster, report: UninstallReport) -> None:
    """Deletes the ConfigMaps that the manager and `koord colocation` keep beside the configuration."""
    for name in (names.CONFIGMAP_SLO_IN_FORCE, names.CONFIGMAP_ROLLOUTS):
        key = Key("v1", "ConfigMap", name, names.NAMESPACE_KOORDINATOR)
        config_map = await cluster.get(key)
        # An empty ConfigMap has no recorded writer.
        if config_map is None or (config_map.get("data") and not is_by_koord_alone(config_map)):
            continue
        if await cluster.delete(key):
            report.deleted.append(key)


async def _delete_leases(cluster: Cluster, report: UninstallReport) -> None:
    async for lease in cluster.all_of(LEASES, namespace=names.NAMESPACE_KOORDINATOR):
        key = key_of(lease)
        own = key.name in OWN_LEASES and not is_of_another(lease)
        if (own or ANNOUNCED in labels_of(lease)) and await cluster.delete(key):
            report.deleted.append(key)


async def _leave_namespace(cluster: Cluster, key: Key, report: UninstallReport) -> None:
    """Deletes a namespace that koord created and that has only the objects of every namespace."""
    left = [str(key_in_it) async for key_in_it in _in_namespace(cluster, key.name)]
    if left:
        shown = ", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "")
        report.kept.append(KeptObject(key, f"{shown} {'are' if len(left) > 1 else 'is'} in it"))
    elif await cluster.delete(key):
        report.deleted.append(key)


async def _in_namespace(cluster: Cluster, namespace: str) -> AsyncIterator[Key]:
    everywhere = {"kube-root-ca.crt"}
    kinds: tuple[Kind[Any], ...] = (CONFIG_MAPS, SECRETS, DEPLOYMENTS, DAEMON_SETS, LEASES, PODS, *CUSTOM)
    for kind in kinds:
        if not kind.namespaced:
            continue
        async for manifest in cluster.all_of(kind, namespace=namespace):
            if key_of(manifest).name not in everywhere and not (kind is PODS and is_own(manifest)):
                yield key_of(manifest)
