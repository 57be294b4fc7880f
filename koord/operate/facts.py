"""What `koord status` knows of a cluster: plain values that pure functions make from objects.

`koord.operate.live.survey` fetches the objects, `koord.operate.health` judges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from koord.api.kubernetes.core import Namespace
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import ContainerWaiting, Pod
from koord.api.kubernetes.resources import pod_requests, stored_amounts
from koord.api.kubernetes.words import NotScheduled, PodConditionType, PodPhase, RestartPolicy
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.names import CONDITION_YARN
from koord.api.protocol.priority import PriorityClass, raw_priority_class
from koord.api.text.quantity import render
from koord.api.text.timestamp import TimestampError, parse_timestamp

UNTRIED_S: Final = 30.0
"""A scheduler reports its first attempt at a pod within this time; without a report, no scheduler has tried the pod."""
STARTED_WITHIN_S: Final = 300.0
"""A pod with a node starts within this time, including image pulls."""
GONE_WITHIN_S: Final = 60.0
"""A deleted pod is gone this long after its grace period."""
FIRST_REPORT_S: Final = 180.0
"""A new node reports its usage within this time."""
REPORTS_MISSED: Final = 3
ANSWER_SLACK_S: Final = 30.0
CRASHING: Final = "CrashLoopBackOff"
FAILED_STARTS: Final = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
"""Kubelet's reasons for a container that cannot start and is retried."""
QUEUEING: Final = frozenset({PriorityClass.MID, PriorityClass.BATCH, PriorityClass.FREE})
"""Bands that use resources that services leave idle: their pods wait until some are free."""


class Fact(msgspec.Struct, frozen=True, rename="camel"):
    """Base class of reported values: their JSON names are part of the command line's contract."""


class Check(Fact, frozen=True):
    """One line of a health endpoint."""

    name: str
    ok: bool
    message: str = ""


class ComponentFact(Fact, frozen=True):
    """A component: a process of a running `up`, or a workload of an installation."""

    name: str
    state: str
    pid: int | None = None
    restarts: int = 0
    endpoints: Mapping[str, str] = {}
    checks: tuple[Check, ...] = ()
    log: str = ""
    image: str = ""


class Leader(Fact, frozen=True):
    lease: str
    holder: str
    age_s: float | None
    expired: bool


_BOOKED: Final = ("cpu", "memory")


class Nodes(Fact, frozen=True):
    total: int = 0
    ready: int = 0
    not_ready: tuple[str, ...] = ()
    cordoned: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    "Ready nodes whose NodeMetric is missing or old."
    yarn: tuple[str, ...] = ()
    "Nodes that YARN shares."
    yarn_refused: Mapping[str, str] = {}
    "Nodes that YARN should share and does not: the reason, by name."
    overbooked: Mapping[str, str] = {}
    "Nodes whose pods request more than the node has: the resources and amounts, by name."


class Untried(Fact, frozen=True):
    """Pods of one scheduler name that no scheduler has tried."""

    scheduler_name: str
    pods: tuple[str, ...]


class Pods(Fact, frozen=True):
    phases: Mapping[str, int] = {}
    unschedulable: tuple[str, ...] = ()
    "Pods of services that fit on no node."
    queued: tuple[str, ...] = ()
    "Pods of jobs, batch pods and pods of full quotas that wait for room, which is normal."
    crashing: tuple[str, ...] = ()
    cannot_start: Mapping[str, str] = {}
    "Pods with a container that cannot start: the reason, by key."
    untried: tuple[Untried, ...] = ()
    not_starting: tuple[str, ...] = ()
    "Pods that have a node and do not start."
    not_ending: tuple[str, ...] = ()
    "Pods that were deleted and still exist."
    astray: tuple[str, ...] = ()
    "Pods that are bound to nodes that do not exist."


class Scheduler(Fact, frozen=True):
    """A scheduler name, and whether a scheduler of that name runs."""

    name: str
    holder: str
    age_s: float | None
    answers: bool
    beside: tuple[str, ...] = ()
    "Other schedulers that decide for the name at the same time."


class WebhooksFact(Fact, frozen=True):
    """Whether new pods pass koord's webhooks, tried with a dry run."""

    missing: tuple[str, ...] = ()
    "Configurations that are not registered."
    asked: bool = False
    took_s: float | None = None
    failure: str = ""
    "The error from the test pod."


class Server(Fact, frozen=True):
    url: str
    reachable: bool
    version: str = ""
    error: str = ""
    checks: tuple[Check, ...] = ()


class Place(Fact, frozen=True):
    """The namespace of koord's configuration, leases and certificates."""

    there: bool = True
    leaving_s: float | None = None
    "How long ago the namespace was deleted, if it still exists."
    held: tuple[str, ...] = ()
    "Why it still exists, as its controller reports."
    made_s: float | None = None
    "How long ago it was made, if it is there to stay."


class Facts(Fact, frozen=True):
    """All facts about a cluster."""

    version: str
    server: Server
    data_dir: str = ""
    up_pid: int | None = None
    components: tuple[ComponentFact, ...] = ()
    leaders: tuple[Leader, ...] = ()
    nodes: Nodes = Nodes()
    pods: Pods = Pods()
    missing_kinds: tuple[str, ...] = ()
    missing_priority_classes: tuple[str, ...] = ()
    schedulers: tuple[Scheduler, ...] = ()
    webhooks: WebhooksFact = WebhooksFact()
    namespace: Place = Place()
    unacted: Mapping[str, int] = {}
    "Objects that no component acts on yet, by the remark about them."
    moves: tuple[str, ...] = ()
    "PodMigrationJobs that have not ended."
    unread: tuple[str, ...] = ()
    "What could not be read, and why."


def place_of(namespace: Namespace | None, now_s: float) -> Place:
    """`namespace`: None if it does not exist."""
    if namespace is None:
        return Place(there=False)
    deleted = namespace.metadata.deletion_timestamp
    if deleted:
        return Place(leaving_s=_age_s(deleted, now_s), held=namespace.status.holding_up)
    made = namespace.metadata.creation_timestamp
    return Place(made_s=_age_s(made, now_s) if made else None)


def nodes_of(nodes: Iterable[Node], metrics: Iterable[NodeMetric] | None, now_s: float) -> Nodes:
    """`metrics`: None if the cluster has no NodeMetric kind, which is reported elsewhere."""
    all_nodes = list(nodes)
    reports = None if metrics is None else {metric.metadata.name: metric for metric in metrics}
    ready = [node for node in all_nodes if _is_ready(node)]
    names = {node.metadata.name for node in ready}
    shared = {
        node.metadata.name: condition for node in all_nodes if (condition := node.status.condition(CONDITION_YARN))
    }
    return Nodes(
        total=len(all_nodes),
        ready=len(ready),
        not_ready=tuple(node.metadata.name for node in all_nodes if node.metadata.name not in names),
        cordoned=tuple(node.metadata.name for node in all_nodes if node.spec.unschedulable),
        silent=tuple(
            node.metadata.name
            for node in ready
            if reports is not None
            and _age_s(node.metadata.creation_timestamp, now_s) > FIRST_REPORT_S
            and _is_silent(reports.get(node.metadata.name), now_s)
        ),
        yarn=tuple(name for name, condition in shared.items() if condition.status == "True"),
        yarn_refused={name: condition.message for name, condition in shared.items() if condition.status == "False"},
    )


def overbooked(nodes: Iterable[Node], pods: Iterable[Pod]) -> dict[str, str]:
    """Requests above what a node has, by node. Lent resources are ignored, since their amounts change."""
    requested: dict[str, Counter[str]] = {}
    for pod in pods:
        if pod.spec.node_name and not pod.is_finished:
            on_node = requested.setdefault(pod.spec.node_name, Counter())
            on_node.update({name: amount for name, amount in pod_requests(pod, capped=True).items() if name in _BOOKED})
            on_node["pods"] += 1
    by_node = {}
    for node in nodes:
        has = stored_amounts(node.status.allocatable)
        asked = requested.get(node.metadata.name, Counter[str]())
        over = [name for name in (*_BOOKED, "pods") if name in has and asked[name] > has[name]]
        if over:
            excess = (f"{name} {render(name, asked[name])} of {render(name, has[name])}" for name in over)
            by_node[node.metadata.name] = ", ".join(excess)
    return by_node


def _is_ready(node: Node) -> bool:
    ready = node.status.condition("Ready")
    return ready is not None and ready.status == "True"


def _is_silent(metric: NodeMetric | None, now_s: float) -> bool:
    return metric is None or abs(_age_s(metric.status.update_time, now_s)) > silent_after_s(metric)


def silent_after_s(metric: NodeMetric) -> float:
    """A node is silent if its last report is older than this."""
    policy = metric.spec.metric_collect_policy
    interval_s = (policy.report_interval_seconds if policy is not None else None) or 60
    return REPORTS_MISSED * interval_s + ANSWER_SLACK_S


def pods_of(pods: Iterable[Pod], nodes: Collection[str], now_s: float) -> Pods:
    phases: Counter[str] = Counter()
    lists: dict[str, list[str]] = {}
    untried: dict[str, list[str]] = {}
    cannot_start: dict[str, str] = {}
    for pod in pods:
        phases[str(pod.status.phase)] += 1
        for what in _oddities(pod, nodes, now_s):
            lists.setdefault(what, []).append(pod.metadata.key)
        if reason := _cannot_start(pod):
            cannot_start[pod.metadata.key] = reason
        if _is_untried(pod, now_s):
            untried.setdefault(str(pod.spec.scheduler_name), []).append(pod.metadata.key)
    return Pods(
        phases=dict(phases),
        untried=tuple(Untried(name, tuple(keys)) for name, keys in sorted(untried.items())),
        cannot_start=cannot_start,
        **{what: tuple(keys) for what, keys in lists.items()},
    )


def _oddities(pod: Pod, nodes: Collection[str], now_s: float) -> Iterable[str]:
    """The lists that a pod belongs to."""
    status, meta = pod.status, pod.metadata
    pending = status.phase == PodPhase.PENDING
    if any(waiting.reason == CRASHING for waiting in _waiting(pod)):
        yield "crashing"
    if meta.deletion_timestamp is not None:
        # The timestamp is when the grace period ends.
        if _age_s(meta.deletion_timestamp, now_s) > GONE_WITHIN_S:
            yield "not_ending"
        return
    if pod.spec.node_name and not pod.is_finished and pod.spec.node_name not in nodes:
        yield "astray"
        return
    scheduled = status.condition(PodConditionType.SCHEDULED)
    if pending and scheduled is not None and scheduled.reason in tuple(NotScheduled):
        yield "queued" if _may_queue(pod, scheduled.reason) else "unschedulable"
    if pending and pod.spec.node_name and not any(waiting.reason in FAILED_STARTS for waiting in _waiting(pod)):
        since = scheduled.last_transition_time if scheduled is not None else None
        if _age_s(since or meta.creation_timestamp, now_s) > STARTED_WITHIN_S:
            yield "not_starting"


def _waiting(pod: Pod) -> list[ContainerWaiting]:
    """Why containers of a pod do not run, according to kubelet."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return [status.state.waiting for status in statuses if status.state.waiting is not None]


def _cannot_start(pod: Pod) -> str:
    """Why a container of a pod cannot start; empty if no reason is known."""
    if pod.is_finished or pod.metadata.deletion_timestamp is not None:
        return ""
    for waiting in _waiting(pod):
        if waiting.reason in FAILED_STARTS:
            return f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason
    return ""


def _may_queue(pod: Pod, reason: str) -> bool:
    """Whether it is normal that a pod waits for room: it belongs to no service, or its quota is full."""
    ends = pod.spec.restart_policy is not RestartPolicy.ALWAYS
    return (
        ends
        or reason == NotScheduled.QUOTA_EXCEEDED
        or raw_priority_class(pod.metadata.labels, pod.spec.priority) in QUEUEING
    )


def _is_untried(pod: Pod, now_s: float) -> bool:
    """Whether a pod is pending and no scheduler has tried it."""
    if pod.spec.node_name or pod.is_finished or pod.metadata.deletion_timestamp is not None:
        return False
    tried = pod.status.condition(PodConditionType.SCHEDULED) is not None
    return not tried and _age_s(pod.metadata.creation_timestamp, now_s) > UNTRIED_S


def _age_s(when: str | None, now_s: float) -> float:
    """The age of a timestamp; infinite if it is missing or invalid."""
    try:
        return now_s - parse_timestamp(when or "")
    except TimestampError:
        return float("inf")


def parse_checks(text: str) -> tuple[Check, ...]:
    """The lines of `/readyz?verbose`: `[+]ping ok`, `[-]store failed: the disk is full`."""
    checks = []
    for line in text.splitlines():
        if line.startswith(("[+]", "[-]")):
            name, _, rest = line[3:].partition(" ")
            checks.append(Check(name, line.startswith("[+]"), rest.removeprefix("failed: ").removeprefix("ok").strip()))
    return tuple(checks)
