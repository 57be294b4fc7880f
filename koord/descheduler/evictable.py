"""Which pods may be moved: never, not yet, or now.

`never` has what will not change while the pod lives, `not_yet` what other moves decide. Both say why. A pod with the
annotation `descheduler.alpha.kubernetes.io/evict` asks for it itself, and passes both.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.kubernetes import autoscaling
from koord.api.kubernetes.pod import Pod
from koord.api.protocol import names
from koord.api.protocol.annotations.load import EVICTION_COST, NEVER_EVICT
from koord.descheduler.moves import Move, Moves, identity
from koord.descheduler.rules import Rules
from koord.descheduler.selection import in_namespaces
from koord.descheduler.workloads import Workload, Workloads, at_most

SYSTEM_CRITICAL: Final = 2_000_000_000
_MIRROR: Final = "kubernetes.io/config.mirror"
_SOURCE: Final = "kubernetes.io/config.source"
_MIGRATING: Final = "MaxMigratingPerWorkload"
_UNAVAILABLE: Final = "MaxUnavailablePerWorkload"
UNKNOWN_OWNER: Final = (
    "its owner is not known, or gone, so it is not known how many of its pods may be away"
    f" (skipEvictionGates: {_MIGRATING} and {_UNAVAILABLE})"
)


def asks_for_it(pod: Pod) -> bool:
    return names.ANNOTATION_DESCHEDULER_EVICT in pod.metadata.annotations


def never(pod: Pod, rules: Rules, workloads: Workloads) -> str | None:
    """Why a pod is not to be moved at all; None where it may."""
    if asks_for_it(pod):
        return None
    why = (_by_itself(pod, rules) or _by_its_workload(pod, rules, workloads)) if rules.filters else None
    for keeps in rules.keeps:
        why = why or keeps(pod)
    return why


def _by_itself(pod: Pod, rules: Rules) -> str | None:
    meta, args, skipped = pod.metadata, rules.args, rules.skipped
    if "Namespaces" not in skipped and not in_namespaces(meta.namespace, args.namespaces):
        return f"pods in the namespace {meta.namespace} are left alone (namespaces)"
    if EVICTION_COST.read(meta) == NEVER_EVICT:
        return f"its eviction cost is {NEVER_EVICT}: never"
    if "Autoscalers" not in skipped and (kept := autoscaling.is_kept(meta)) is not None:
        return f"it asks to stay ({kept})"
    if meta.deletion_timestamp is not None:
        return "it is being deleted"
    if _MIRROR in meta.annotations or meta.annotations.get(_SOURCE, "api") != "api":
        return "it is a static pod"
    if any(owner.kind == "DaemonSet" for owner in meta.owner_references):
        return "it belongs to a DaemonSet"
    priority = pod.spec.priority or 0
    if not args.evict_system_critical_pods:
        if "SystemCritical" not in skipped and priority >= SYSTEM_CRITICAL:
            return "it is critical to the system"
        threshold = rules.priority_threshold
        if "PriorityThreshold" not in skipped:
            if threshold is not None and priority >= threshold:
                return f"its priority {priority} is at least {threshold} (priorityThreshold)"
            if rules.priority_class_missing:
                return f"there is no PriorityClass {rules.priority_class_missing} (priorityThreshold)"
    volumes = pod.spec.volumes
    if "LocalStorage" not in skipped and not args.evict_local_storage_pods:
        local = [volume.name for volume in volumes if volume.host_path is not None or volume.empty_dir is not None]
        if local:
            return f"it has local storage: volume {local[0]} (evictLocalStoragePods)"
    if "PVC" not in skipped and args.ignore_pvc_pods:
        claimed = [volume.name for volume in volumes if volume.persistent_volume_claim is not None]
        if claimed:
            return f"it has a claim: volume {claimed[0]} (ignorePvcPods)"
    if "LabelSelector" not in skipped and not rules.labels.matches(meta.labels):
        return "its labels are not selected (labelSelector)"
    return None


def _by_its_workload(pod: Pod, rules: Rules, workloads: Workloads) -> str | None:
    meta, args, skipped = pod.metadata, rules.args, rules.skipped
    if meta.controller is None and not meta.owner_references:
        if "BarePods" in skipped or args.evict_all_bare_pods:
            return None
        if args.evict_failed_bare_pods:
            return None if pod.status.phase == "Failed" else "nothing would create it again, and it has not failed"
        return "nothing would create it again: it has no owner (evictAllBarePods)"
    workload = workloads.of(pod)
    if workload is None and _limits_workloads(rules):
        return UNKNOWN_OWNER
    if args.skip_check_expected_replicas or "ExpectedReplicas" in skipped:
        return None
    if workload is None:
        return "its owner is not known, or gone (skipCheckExpectedReplicas)"
    if workload.kind == "Job":
        # It loses work but serves no requests: all of it may be evicted, as fast as its limits allow.
        return None
    if workload.scales_first:
        return None
    away, moving = _limits(args, workload.replicas)
    if workload.replicas == 1:
        return f"it is the only replica of {workload.kind} {workload.key} (skipCheckExpectedReplicas)"
    for limit, name in ((moving, "maxMigratingPerWorkload"), (away, "maxUnavailablePerWorkload")):
        if workload.replicas == limit:
            return f"{name} would let all {limit} replicas of {workload.kind} {workload.key} go at once"
    return None


def not_yet(pod: Pod, rules: Rules, workloads: Workloads, moves: Moves) -> str | None:
    """Why a pod must wait for others that move; None where it may go now."""
    if asks_for_it(pod) or not rules.filters:
        return None
    args, skipped = rules.args, rules.skipped
    if "Autoscalers" not in skipped and (kept := autoscaling.is_kept_now(pod, moves.at_s)) is not None:
        return f"it asks to stay for a time ({kept})"
    node, own = pod.spec.node_name, int(pod in moves)
    others = len(moves) - own
    on_node = moves.per_node[node] - own if node else 0
    in_namespace = moves.per_namespace[pod.metadata.namespace] - own
    for number, limit, name, where in (
        (others, args.max_migrating_globally, "MaxMigratingGlobally", "in the cluster"),
        (on_node, args.max_migrating_per_node, "MaxMigratingPerNode", f"on {node}"),
        (
            in_namespace,
            args.max_migrating_per_namespace,
            "MaxMigratingPerNamespace",
            f"in the namespace {pod.metadata.namespace}",
        ),
    ):
        if name not in skipped and limit and number >= limit:
            return f"{where}, {_pods(number)} moving already (m{name[1:]}: {limit})"
    return _while_others_of_its_workload(pod, rules, workloads, moves)


def _while_others_of_its_workload(pod: Pod, rules: Rules, workloads: Workloads, moves: Moves) -> str | None:
    workload = workloads.of(pod)
    if workload is None:
        return UNKNOWN_OWNER if pod.metadata.owner_references and _limits_workloads(rules) else None
    if workload.change:
        return f"{workload.kind} {workload.key} {workload.change}"
    migrating = _moving_with(pod, workload, workloads, moves)
    limit = at_most(rules.args.max_migrating_per_workload, workload.replicas)
    if _MIGRATING not in rules.skipped and migrating and len(migrating) >= limit:
        return f"of {workload.kind} {workload.key}, {_pods(len(migrating))} moving already (limit {limit})"
    return _away_too_many(pod, rules, workload, workloads, migrating)


def may_not_leave(pod: Pod, rules: Rules, workloads: Workloads, moves: Moves) -> str | None:
    """Why a pod that was let through must not leave just now; None if it may. Since then, more pods of its workload may
    have become unavailable. Pods that were let through and are still there do not count, so that two of them do not
    wait for each other."""
    if asks_for_it(pod) or not rules.filters:
        return None
    workload = workloads.of(pod)
    if workload is None:
        return UNKNOWN_OWNER if pod.metadata.owner_references and _limits_workloads(rules) else None
    leaving = [move for move in _moving_with(pod, workload, workloads, moves) if move.is_leaving]
    return _away_too_many(pod, rules, workload, workloads, leaving)


def _away_too_many(
    pod: Pod, rules: Rules, workload: Workload, workloads: Workloads, moving: Collection[Move]
) -> str | None:
    """Whether as many others of a pod's workload are away as may be: on the move, not ready, or missing. A replacement
    that is not ready and the pod that it replaces are one replica, hence two counts: of the pods that exist, and of
    the replicas that are short."""
    if _UNAVAILABLE in rules.skipped:
        return None
    limit = at_most(rules.args.max_unavailable_per_workload, workload.replicas)
    here = {move.pod for move in moving if move.is_here}
    absent = (here | _unavailable_with(pod, workloads)) - {identity(pod)}
    away = len(absent)
    if workloads.has_all_pods:
        staying = len(workloads.siblings(pod)) - (not pod.is_finished) - len(absent)
        away = max(away, workload.wanted - 1 - staying)
    if away >= limit:
        return f"of {workload.kind} {workload.key}, {_pods(away)} away already (limit {limit})"
    return None


def _limits_workloads(rules: Rules) -> bool:
    return not rules.skipped >= {_MIGRATING, _UNAVAILABLE}


def _moving_with(pod: Pod, workload: Workload, workloads: Workloads, moves: Moves) -> list[Move]:
    """The moves of other pods of its workload."""
    owners, own = workloads.owners(workload.uid), identity(pod)
    return [move for owner in owners for move in moves.by_owner.get(owner, ()) if move.pod != own]


def _unavailable_with(pod: Pod, workloads: Workloads) -> frozenset[str]:
    """The pods of its workload that are not ready; found once for all who ask."""
    uid = workloads.uid_of(pod) or ""
    unavailable = workloads.unavailable.get(uid)
    if unavailable is None:
        unavailable = frozenset(identity(sibling) for sibling in workloads.siblings(pod) if not is_available(sibling))
        workloads.unavailable[uid] = unavailable
    return unavailable


def _limits(args: MigrationControllerArgs, replicas: int) -> tuple[int, int]:
    """How many of a workload may be away, and on the move."""
    return at_most(args.max_unavailable_per_workload, replicas), at_most(args.max_migrating_per_workload, replicas)


def _pods(number: int) -> str:
    return "1 pod is" if number == 1 else f"{number} pods are"


def is_available(pod: Pod) -> bool:
    ready = pod.status.condition("Ready")
    return (
        not pod.is_finished and pod.metadata.deletion_timestamp is None and ready is not None and ready.status == "True"
    )
