"""NodeResourcesFit and NodeResourcesBalancedAllocation: is there room, and where is it best used?"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from koord.api.configuration.scheduler_args import (
    FitScoringStrategy,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ResourceWeight,
    ShapePoint,
    is_extended_resource,
)
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import NON_ZERO_REQUESTS, pod_requests
from tests.scheduler.reference.cluster import (
    OK,
    Cluster,
    Verdict,
    allocatable,
    divided,
    rounded,
    unsched,
    uu,
)

PLAIN = ("cpu", "memory", "ephemeral-storage")


def is_scalar(name: str) -> bool:
    """Extended resources, everything of kubernetes.io (batch-cpu), huge pages and attachable volumes."""
    return "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


def requested(node: Node, cluster: Cluster) -> dict[str, int]:
    """Node `Requested` = Σ over cached pods."""
    return _sum(pod_requests(pod) for pod in cluster.pods_on(node))


def non_zero_requested(node: Node, cluster: Cluster) -> dict[str, int]:
    """A container missing the cpu key counts 100m, missing memory counts 200Mi; an explicit 0 stays 0."""
    return _sum(_non_zero_of_placed(pod) for pod in cluster.pods_on(node))


def _non_zero_of_placed(pod: Pod) -> dict[str, int]:
    """Where a pod states amounts for itself as a whole, only what is stated nowhere in it is made up."""
    missing = NON_ZERO_REQUESTS
    if pod.spec.resources is not None and pod.spec.resources.requests:
        stated = pod_requests(pod)
        missing = {name: amount for name, amount in NON_ZERO_REQUESTS.items() if name not in stated}
    return pod_requests(pod, missing=missing)


def _sum(lists: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in lists:
        for name, amount in each.items():
            total[name] = total.get(name, 0) + amount
    return total


def fit(pod: Pod, node: Node, cluster: Cluster, args: NodeResourcesFitArgs) -> Verdict:
    """`pods+1 > allowedPods` → `Too many pods`; for cpu, memory, ephemeral-storage and each scalar with request>0:
    request > allocatable − Requested → `Insufficient <name>`. All reasons are kept. The node is UU if any single
    request exceeds total allocatable, else Unsched. A scalar absent from the node has allocatable 0."""
    has, used = allocatable(node), cluster.once(requested, node, cluster)
    wanted = {name: amount for name, amount in pod_requests(pod, use_status=False).items() if amount > 0}
    reasons = []
    hopeless = False
    if len(cluster.pods_on(node)) + 1 > has.get("pods", 0):
        reasons.append("Too many pods")
    for name in [*PLAIN, *sorted(filter(is_scalar, wanted))]:
        amount = wanted.get(name, 0)
        if amount == 0 or _is_ignored(name, args):
            continue
        if amount > has.get(name, 0) - used.get(name, 0):
            reasons.append(f"Insufficient {name}")
            hopeless |= amount > has.get(name, 0)
    if not reasons:
        return OK
    return uu(*reasons) if hopeless else unsched(*reasons)


def _is_ignored(name: str, args: NodeResourcesFitArgs) -> bool:
    """Only resources of vendors can be left to someone else."""
    group = name.partition("/")[0]
    return is_extended_resource(name) and (name in args.ignored_resources or group in args.ignored_resource_groups)


def fit_score(pod: Pod, nodes: list[Node], cluster: Cluster, args: NodeResourcesFitArgs) -> dict[str, int]:
    """kube-scheduler, when it scores, overlooks amounts that the incoming pod states for itself as a whole, though it
    counts them for placed pods and when it filters."""
    strategy = args.scoring_strategy
    by_containers = replace(pod, spec=replace(pod.spec, resources=None))
    wanted = pod_requests(by_containers, use_status=False, missing=NON_ZERO_REQUESTS)
    scores = {}
    for node in nodes:
        used = cluster.once(requested, node, cluster)
        used = {**used, **_cpu_and_memory(cluster.once(non_zero_requested, node, cluster))}
        scores[node.metadata.name] = _strategy_score(
            _weighed(strategy.resources, wanted, used, allocatable(node)), strategy
        )
    return scores


def _cpu_and_memory(resources: Mapping[str, int]) -> dict[str, int]:
    return {name: resources.get(name, 0) for name in ("cpu", "memory")}


def _weighed(
    resources: tuple[ResourceWeight, ...], wanted: Mapping[str, int], used: Mapping[str, int], has: Mapping[str, int]
) -> list[tuple[int, int, int]]:
    """Of each resource that counts: what would be requested, what there is, its weight.

    "req = NonZeroRequested (cpu/memory) or Requested (others) + pod's NonZero request; skip resources with allocatable
    0 and scalars the pod does not request."
    """
    counted = []
    for resource in resources:
        amount, capacity = wanted.get(resource.name, 0), has.get(resource.name, 0)
        if capacity == 0 or (amount == 0 and is_scalar(resource.name)):
            continue
        if resource.name not in PLAIN and not is_scalar(resource.name):
            continue
        counted.append((used.get(resource.name, 0) + amount, capacity, resource.weight))
    return counted


def _strategy_score(counted: list[tuple[int, int, int]], strategy: FitScoringStrategy) -> int:
    """Result Σ(s_i·w_i)/Σw_i, 0 if no weight."""
    match strategy.type:
        case "LeastAllocated":
            scored = [(least_allocated(req, cap), weight) for req, cap, weight in counted]
        case "MostAllocated":
            scored = [(most_allocated(req, cap), weight) for req, cap, weight in counted]
        case "RequestedToCapacityRatio":
            assert strategy.requested_to_capacity_ratio is not None
            shape = strategy.requested_to_capacity_ratio.shape
            # "Resources scoring 0 are left out of numerator and denominator; rounded to nearest."
            scored = [(s, w) for s, w in ((ratio_score(req, cap, shape), w) for req, cap, w in counted) if s > 0]
            weights = sum(weight for _, weight in scored)
            return rounded(sum(s * w for s, w in scored) / weights) if weights else 0
    weights = sum(weight for _, weight in scored)
    return sum(s * w for s, w in scored) // weights if weights else 0


def least_allocated(req: int, cap: int) -> int:
    """req>cap → 0 else (cap−req)·100/cap."""
    return 0 if req > cap else (cap - req) * 100 // cap


def most_allocated(req: int, cap: int) -> int:
    """min(req,cap)·100/cap."""
    return min(req, cap) * 100 // cap


def ratio_score(req: int, cap: int, shape: tuple[ShapePoint, ...]) -> int:
    """u = req·100/cap (cap=0 or req>cap → 100); piecewise-linear over shape points (score field ×10), constant
    outside."""
    u = 100 if cap == 0 or req > cap else req * 100 // cap
    points = [(point.utilization, point.score * 10) for point in shape]
    if u <= points[0][0]:
        return points[0][1]
    for (u0, s0), (u1, s1) in itertools.pairwise(points):
        if u <= u1:
            return s0 + divided((s1 - s0) * (u - u0), u1 - u0)
    return points[-1][1]


def balanced_score(
    pod: Pod, nodes: list[Node], cluster: Cluster, args: NodeResourcesBalancedAllocationArgs
) -> dict[str, int]:
    """Uses real Requested + real pod requests; skipped for pods with all-zero requests (of the resources that are
    weighed); f_i=min(1,req/cap); 2 resources: σ=|f1−f2|/2; >2: population std-dev; 1: 0; score=int((1−σ)·100)."""
    wanted = pod_requests(pod)
    if not any(wanted.get(resource.name, 0) for resource in args.resources):
        return {}
    scores = {}
    for node in nodes:
        counted = _weighed(args.resources, wanted, cluster.once(requested, node, cluster), allocatable(node))
        fractions = [min(1.0, req / cap) for req, cap, _ in counted]
        scores[node.metadata.name] = int((1 - deviation(fractions)) * 100)
    return scores


def deviation(fractions: list[float]) -> float:
    if len(fractions) < 2:
        return 0.0
    if len(fractions) == 2:
        return abs((fractions[0] - fractions[1]) / 2)
    mean = sum(fractions) / len(fractions)
    return math.sqrt(sum((f - mean) * (f - mean) for f in fractions) / len(fractions))
