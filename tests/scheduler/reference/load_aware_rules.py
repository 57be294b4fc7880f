"""LoadAwareScheduling: keep pods off nodes that are busy, by measured usage and by what was just placed there.

A resource vector is a map from every name of `vector(args)` to an amount.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koord.api.configuration.scheduler_args import LoadAwareSchedulingArgs
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import amounts, pod_limits, pod_requests
from koord.api.protocol import names
from koord.api.protocol.annotations.colocation import RAW_ALLOCATABLE
from koord.api.protocol.annotations.load import (
    LOAD_ESTIMATED_SCALING_FACTORS,
    LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED,
    LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED,
    USAGE_THRESHOLDS,
)
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.node_metric import NodeMetric, NodeMetricInfo
from koord.api.protocol.priority import PriorityClass, priority_class
from koord.api.text.duration import parse_duration
from koord.api.text.timestamp import parse_timestamp
from tests.scheduler.reference.cluster import OK, Cluster, Verdict, allocatable, rounded, unsched

Vector = dict[str, int]

REAL_NAMES: Mapping[PriorityClass, Mapping[str, str]] = {
    PriorityClass.BATCH: {"cpu": names.RESOURCE_BATCH_CPU, "memory": names.RESOURCE_BATCH_MEMORY},
    PriorityClass.MID: {"cpu": names.RESOURCE_MID_CPU, "memory": names.RESOURCE_MID_MEMORY},
    PriorityClass.FREE: {},
}
UNSTATED = {
    "cpu": 250,
    names.RESOURCE_BATCH_CPU: 250,
    "memory": 200 * 1024**2,
    names.RESOURCE_BATCH_MEMORY: 200 * 1024**2,
}


def vector(args: LoadAwareSchedulingArgs) -> list[str]:
    """cpu, memory ∪ names in args ∪ supportedResources, sorted; other names ignored."""
    wanted = {"cpu", "memory", *args.usage_thresholds, *args.prod_usage_thresholds, *args.resource_weights}
    wanted |= {*args.estimated_scaling_factors, *args.supported_resources}
    if args.aggregated is not None:
        wanted |= set(args.aggregated.usage_thresholds)
    return sorted(wanted)


def capacity(node: Node, args: LoadAwareSchedulingArgs) -> Vector:
    """status.allocatable overlaid with node annotation `node.koordinator.sh/raw-allocatable` (pre-amplification)."""
    try:
        raw = RAW_ALLOCATABLE.read(node.metadata, "Node")
    except AnnotationError:
        raw = None
    return _only(args, {**allocatable(node), **amounts(raw or {})})


def _only(args: LoadAwareSchedulingArgs, resources: Mapping[str, int]) -> Vector:
    return {name: resources.get(name, 0) for name in vector(args)}


def estimate(pod: Pod, args: LoadAwareSchedulingArgs) -> Vector:
    """For each resource r in factors: real name r' = r for prod/none; batch-cpu/batch-memory for batch; mid-* for
    mid; no name for free (estimate 0). q = max(limit, request) of r'. q=0 → 250 (cpu, batch-cpu), 200Mi (memory,
    batch-memory), else 0. Otherwise est = round(q·factor/100), capped at limit when limit>0. The value lands in slot
    r. With allowCustomizeEstimation, annotation `…/load-estimated-scaling-factors` overrides per key."""
    factors = dict(args.estimated_scaling_factors)
    if args.allow_customize_estimation:
        factors |= _factors_of(pod)
    requests, limits = pod_requests(pod, use_status=False), pod_limits(pod, use_status=False)
    class_ = priority_class(pod)
    estimated = {}
    for resource, factor in factors.items():
        real = REAL_NAMES[class_].get(resource, "") if class_ in REAL_NAMES else resource
        limit = limits.get(real, 0)
        q = max(limit, requests.get(real, 0))
        if q == 0:
            estimated[resource] = UNSTATED.get(real, 0)
            continue
        value = rounded(float(q) * float(factor) / 100)
        estimated[resource] = min(value, limit) if limit > 0 else value
    return _only(args, estimated)


def _factors_of(pod: Pod) -> Mapping[str, int]:
    try:
        return LOAD_ESTIMATED_SCALING_FACTORS.read(pod.metadata)
    except AnnotationError:
        return {}


class Load:
    """What is known of one node's load: its report, and the pods that were placed there."""

    def __init__(self, node: Node, metric: NodeMetric, cluster: Cluster, args: LoadAwareSchedulingArgs) -> None:
        self.args = args
        self.cluster = cluster
        self.metric = metric
        self.updated_s = parse_timestamp(metric.status.update_time) if metric.status.update_time else None
        policy = metric.spec.metric_collect_policy
        interval = policy.report_interval_seconds if policy else None
        self.interval_s = 60 if interval is None else interval
        info = metric.status.node_metric
        self.info = info or NodeMetricInfo()
        # "Entries with empty usage are ignored."
        reported = [p for p in metric.status.pods_metric if p.pod_usage.resources]
        self.usages = {(p.namespace, p.name): _only(args, amounts(p.pod_usage.resources)) for p in reported}
        self.reported_prod = {(p.namespace, p.name) for p in reported if p.priority == PriorityClass.PROD}
        # Every pod that was given the node and has not ended.
        self.pods = [pod for pod in cluster.pods if pod.spec.node_name == node.metadata.name and not pod.is_finished]

    def _zero(self) -> Vector:
        return dict.fromkeys(vector(self.args), 0)

    def usage(self, pod: Pod) -> Vector | None:
        return self.usages.get((pod.metadata.namespace, pod.metadata.name))

    def is_prod(self, pod: Pod) -> bool:
        return priority_class(pod) is PriorityClass.PROD

    def is_active_prod(self, pod: Pod) -> bool:
        """p is *active prod* if its class (default rule) is prod and NodeMetric labels it koord-prod."""
        return self.is_prod(pod) and (pod.metadata.namespace, pod.metadata.name) in self.reported_prod

    def placed_s(self, pod: Pod) -> float:
        """timestamp = lastTransitionTime of PodScheduled=True, else time of assignment."""
        condition = pod.status.condition("PodScheduled")
        if condition is not None and condition.status == "True" and condition.last_transition_time:
            return parse_timestamp(condition.last_transition_time)
        return self.cluster.assigned_at_s.get(pod.metadata.key, self.cluster.now_s)

    def deadline_s(self, pod: Pod) -> float | None:
        """Optional forced-estimation deadline: Initialized=True transition + estimatedSecondsAfterInitialized (if
        >0), else timestamp + estimatedSecondsAfterPodScheduled (if >0); with customisation, annotations win."""
        after_initialized = self._seconds(pod, LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED)
        if after_initialized is None:
            after_initialized = self.args.estimated_seconds_after_initialized
        after_scheduled = self._seconds(pod, LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED)
        if after_scheduled is None:
            after_scheduled = self.args.estimated_seconds_after_pod_scheduled
        condition = pod.status.condition("Initialized")
        initialized = condition is not None and condition.status == "True" and condition.last_transition_time
        if after_initialized is not None and after_initialized > 0 and condition is not None and initialized:
            assert condition.last_transition_time is not None
            return parse_timestamp(condition.last_transition_time) + after_initialized
        if after_scheduled is not None and after_scheduled > 0:
            return self.placed_s(pod) + after_scheduled
        return None

    def _seconds(self, pod: Pod, annotation: object) -> int | None:
        """A pod's own number of seconds; one that is malformed or negative is none."""
        if not self.args.allow_customize_estimation:
            return None
        try:
            seconds: int | None = annotation.read(pod.metadata)  # type: ignore[attr-defined]
        except AnnotationError:
            return None
        return seconds if seconds is not None and seconds >= 0 else None

    def is_forced(self, pod: Pod) -> bool:
        """forced(p) = u_p missing OR T−I < timestamp_p OR deadline_p > T."""
        if self.usage(pod) is None or self.updated_s is None:
            return True
        deadline_s = self.deadline_s(pod)
        recent = self.updated_s - self.interval_s < self.placed_s(pod)
        return recent or (deadline_s is not None and deadline_s > self.updated_s)

    def delta(self) -> Vector:
        """delta += max(0, est_p − u_p) per resource if forced (whole est_p when u_p missing)."""
        total = self._zero()
        for pod in filter(self.is_forced, self.pods):
            _add(total, _excess(estimate(pod, self.args), self.usage(pod) or self._zero()))
        return total

    def full_estimate(self) -> Vector:
        total = self._zero()
        for pod in self.pods:
            _add(total, estimate(pod, self.args))
        return total

    def prod_usage(self) -> Vector:
        """prodUsage = Σ u_p over active prod (+ system usage if prodUsageIncludeSys)."""
        total = self._zero()
        for pod in filter(self.is_active_prod, self.pods):
            _add(total, self.usage(pod) or {})
        if self.args.prod_usage_include_sys:
            _add(total, _only(self.args, amounts(self.info.system_usage.resources)))
        return total

    def prod_delta(self) -> Vector:
        """prod pods only; if active use the same forced/delta rule, if it has usage but is not active prod, add the
        whole est_p." A prod pod without usage is forced, and adds the whole too."""
        total = self._zero()
        for pod in filter(self.is_prod, self.pods):
            estimated, usage = estimate(pod, self.args), self.usage(pod)
            if usage is None or not self.is_active_prod(pod):
                _add(total, estimated)
            elif self.is_forced(pod):
                _add(total, _excess(estimated, usage))
        return total

    def existing(self, *, prod: bool, aggregation: str = "", duration_s: float = 0) -> Vector:
        """Existing load E of a node: prod view: prodUsage + prodDelta. plain: U + delta. aggregated (type t, duration
        d): A + delta where A = recorded (t,d); d=0 → longest recorded duration for t, or U if none; d>0 not recorded →
        E = fullEstimate (measured usage ignored)."""
        if prod:
            return _plus(self.prod_usage(), self.prod_delta())
        used = self._node_usage()
        if aggregation:
            recorded = self._recorded(aggregation)
            if duration_s > 0:
                if duration_s not in recorded:
                    return self.full_estimate()
                used = recorded[duration_s]
            elif recorded:
                used = recorded[max(recorded)]
        return _plus(used, self.delta())

    def _node_usage(self) -> Vector:
        return _only(self.args, amounts(self.info.node_usage.resources))

    def _recorded(self, aggregation: str) -> dict[float, Vector]:
        found = {}
        for part in self.info.aggregated_node_usages:
            usage = part.usage.get(aggregation)
            if usage is not None and usage.resources:
                found[parse_duration(part.duration or "0s")] = _only(self.args, amounts(usage.resources))
        return found


def _excess(estimated: Vector, used: Vector) -> Vector:
    return {name: max(0, value - used[name]) for name, value in estimated.items()}


def _add(total: Vector, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] += amount


def _plus(a: Vector, b: Vector) -> Vector:
    return {name: a[name] + b[name] for name in a}


def is_expired(metric: NodeMetric, cluster: Cluster, args: LoadAwareSchedulingArgs) -> bool:
    """expired (updateTime nil or age ≥ expiration)."""
    updated = metric.status.update_time
    return updated is None or cluster.now_s - parse_timestamp(updated) >= args.node_metric_expiration_seconds


def thresholds(pod: Pod, node: Node, args: LoadAwareSchedulingArgs) -> tuple[Vector, bool, tuple[str, float] | None]:
    """What limits the pod on the node: the percentages, whether of prod usage, and which aggregation.

    "Choose thresholds: prod thresholds (if non-zero set and pod class prod) → else aggregated if configured → else
    plain." "Per-node thresholds: each non-empty part replaces the global one (aggregated needs thresholds and type);
    bad JSON → global."
    """
    own = USAGE_THRESHOLDS.read(node.metadata, "Node")
    prod = _only(args, own.prod_usage_thresholds or args.prod_usage_thresholds)
    if any(prod.values()) and priority_class(pod) is PriorityClass.PROD:
        return prod, True, None
    for part in (own.aggregated_usage, args.aggregated):
        if part is not None and part.usage_thresholds and part.usage_aggregation_type:
            duration_s = parse_duration(part.usage_aggregated_duration or "0s")
            return _only(args, part.usage_thresholds), False, (part.usage_aggregation_type, duration_s)
    return _only(args, own.usage_thresholds or args.usage_thresholds), False, None


def load_aware(pod: Pod, node: Node, cluster: Cluster, args: LoadAwareSchedulingArgs) -> Verdict:
    """1. DaemonSet-owned pod → pass. 2. Choose thresholds. Empty → pass. 3. NodeMetric missing → pass. 4. If
    filterExpiredNodeMetrics and expired: enableScheduleWhenNodeMetricsExpired ? pass : Unsched. (Flag false → stale
    data is used.) 5. status.nodeMetric nil → pass. 6. For each resource in vector order with threshold t>0 and
    capacity c>0: round((E+est_pod)/c·100) > t → Unsched. Equality passes."""
    if any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references):
        return OK
    limits, prod, aggregation = thresholds(pod, node, args)
    metric = cluster.node_metric(node.metadata.name)
    if not any(limits.values()) or metric is None:
        return OK
    if args.filter_expired_node_metrics and is_expired(metric, cluster, args):
        if args.enable_schedule_when_node_metrics_expired:
            return OK
        return unsched("node(s) nodeMetric expired")
    if metric.status.node_metric is None:
        return OK
    type_, duration_s = aggregation or ("", 0.0)
    load = Load(node, metric, cluster, args)
    used = _plus(load.existing(prod=prod, aggregation=type_, duration_s=duration_s), estimate(pod, args))
    has = capacity(node, args)
    for resource in vector(args):
        t, c = limits[resource], has[resource]
        if t > 0 and c > 0 and rounded(used[resource] / c * 100) > t:
            what = "aggregated usage" if aggregation else "usage"
            return unsched(f"node(s) {resource} {what} exceed threshold")
    return OK


def load_aware_score(
    pod: Pod, nodes: Iterable[Node], cluster: Cluster, args: LoadAwareSchedulingArgs
) -> dict[str, int]:
    return {node.metadata.name: _score(pod, node, cluster, args) for node in nodes}


def _score(pod: Pod, node: Node, cluster: Cluster, args: LoadAwareSchedulingArgs) -> int:
    """0 if NodeMetric missing/expired/no data, or all weights (and W) are 0. View: prod if scoreAccordingProdUsage
    and pod is prod; else aggregated if scoreAggregationType set; else plain. s_r = least-used = used>cap or cap=0 → 0
    else (cap−used)·100/cap with used=E+est_pod. Result = (Σ w_r·s_r + W·min(100, min_r s_r)) / (Σ w_r + W). The
    minimum runs over **every** vector resource, including weight-0 ones; one the node lacks scores 0."""
    metric = cluster.node_metric(node.metadata.name)
    if metric is None or is_expired(metric, cluster, args) or metric.status.node_metric is None:
        return 0
    weights, dominant = _only(args, args.resource_weights), args.dominant_resource_weight
    if not any(weights.values()) and dominant == 0:
        return 0
    prod = args.score_according_prod_usage and priority_class(pod) is PriorityClass.PROD
    part = args.aggregated
    type_ = part.score_aggregation_type if part is not None else ""
    duration_s = parse_duration(part.score_aggregated_duration) if part is not None and type_ else 0.0
    load = Load(node, metric, cluster, args)
    used = _plus(load.existing(prod=prod, aggregation=type_, duration_s=duration_s), estimate(pod, args))
    has = capacity(node, args)
    s = {r: 0 if has[r] == 0 or used[r] > has[r] else (has[r] - used[r]) * 100 // has[r] for r in vector(args)}
    total = sum(weights[r] * s[r] for r in s) + dominant * min(100, *s.values())
    return total // (sum(weights.values()) + dominant)
