"""Which pods may be moved: never, not yet, or now.

`never` has what will not change while the pod lives, `not_yet` what other moves decide. Both say why. A pod with the
annotation `descheduler.alpha.kubernetes.io/evict` asks for it itself, and passes both.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from koord.api.configuration.descheduler_args import MigrationControllerArgs
from koord.api.kubernetes import autoscaling
from koord.api.kubernetes.pod import Pod
from koord.api.protocol import names
from koord.api.protocol.annotations.load import EVICTION_COST, NEVER_EVICT
from koord.descheduler.rules import Rules
from koord.descheduler.selection import in_namespaces
from koord.descheduler.workloads import Workloads, at_most

SYSTEM_CRITICAL: Final = 2_000_000_000
_MIRROR: Final = "kubernetes.io/config.mirror"
_SOURCE: Final = "kubernetes.io/config.source"


@dataclass(slots=True)
class Moves:
    """The pods that are on the move: those with a job under way, and those let through since."""

    at_s: float = 0.0
    "When it is so."
    pods: dict[str, Pod] = field(default_factory=dict)
    "By uid, or by key where there is none."
    per_node: Counter[str] = field(default_factory=Counter)
    per_namespace: Counter[str] = field(default_factory=Counter)

    def add(self, pod: Pod) -> None:
        if identity(pod) not in self.pods:
            self.pods[identity(pod)] = pod
            self.per_node[pod.spec.node_name] += 1
            self.per_namespace[pod.metadata.namespace] += 1

    def __contains__(self, pod: Pod) -> bool:
        return identity(pod) in self.pods


def identity(pod: Pod) -> str:
    return pod.metadata.uid or pod.metadata.key


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
        local = [each.name for each in volumes if each.host_path is not None or each.empty_dir is not None]
        if local:
            return f"it has local storage: volume {local[0]} (evictLocalStoragePods)"
    if "PVC" not in skipped and args.ignore_pvc_pods:
        claimed = [each.name for each in volumes if each.persistent_volume_claim is not None]
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
            return None if pod.status.phase == "Failed" else "nothing would make it anew, and it has not failed"
        return "nothing would make it anew: it has no owner (evictAllBarePods)"
    if args.skip_check_expected_replicas or "ExpectedReplicas" in skipped:
        return None
    workload = workloads.of(pod)
    if workload is None:
        return "its owner is not known, or gone (skipCheckExpectedReplicas)"
    if workload.kind == "Job":
        # It loses work and serves nobody: it may go as a whole, and its limits say how fast.
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
    others = len(moves.pods) - (pod in moves)
    on_node = moves.per_node[pod.spec.node_name] - (pod in moves)
    in_namespace = moves.per_namespace[pod.metadata.namespace] - (pod in moves)
    for number, limit, name, where in (
        (others, args.max_migrating_globally, "MaxMigratingGlobally", "in the cluster"),
        (on_node, args.max_migrating_per_node, "MaxMigratingPerNode", f"on {pod.spec.node_name}"),
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
    args, skipped = rules.args, rules.skipped
    workload = workloads.of(pod)
    if workload is None:
        return None
    if workload.change:
        return f"{workload.kind} {workload.key} {workload.change}"
    away, moving = _limits(args, workload.replicas)
    migrating = _moving_with(pod, workloads, moves)
    if "MaxMigratingPerWorkload" not in skipped and migrating and len(migrating) >= moving:
        return f"of {workload.kind} {workload.key}, {_pods(len(migrating))} moving already (limit {moving})"
    missing = (migrating | _unavailable_with(pod, workloads)) - {identity(pod)}
    if "MaxUnavailablePerWorkload" not in skipped and len(missing) >= away:
        return f"of {workload.kind} {workload.key}, {_pods(len(missing))} away already (limit {away})"
    return None


def _moving_with(pod: Pod, workloads: Workloads, moves: Moves) -> set[str]:
    """The other pods of its workload that are on the move. A large workload is not looked through for a few of them."""
    siblings, mine = workloads.siblings(pod), workloads.uid_of(pod)
    if len(moves.pods) < len(siblings):
        moving = [each for each in moves.pods.values() if workloads.uid_of(each) == mine and not each.is_finished]
    else:
        moving = [each for each in siblings if each in moves]
    return {identity(each) for each in moving} - {identity(pod)}


def _unavailable_with(pod: Pod, workloads: Workloads) -> frozenset[str]:
    """The pods of its workload that are not ready; found once for all who ask."""
    uid = workloads.uid_of(pod) or ""
    known = workloads.unavailable.get(uid)
    if known is None:
        known = frozenset(identity(each) for each in workloads.siblings(pod) if not is_available(each))
        workloads.unavailable[uid] = known
    return known


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
