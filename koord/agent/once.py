"""One round of the agent on manifests: what it writes on a host, or would write, and which pods it would evict.

The host may be a real one or a composed tree. Usage is measured between two looks, a second apart; or it is what a
NodeMetric among the manifests says, so that it also works for a host that does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from koord.agent.collect.registry import collect
from koord.agent.collect.round import Round
from koord.agent.core import Agent
from koord.agent.executor.executor import Executor
from koord.agent.executor.ledger import Ledger
from koord.agent.host.cgroups import Cgroups
from koord.agent.host.files import Files
from koord.agent.host.topology import topology
from koord.agent.pods import AgentPod, pods_of
from koord.agent.qos.decision import Problem
from koord.agent.report.node_metric import node_metric_status
from koord.agent.series import names
from koord.agent.series.samples import Samples, Series
from koord.agent.state import Kubelet, NodeState
from koord.agent.view import capacity_of, driver_in, state_of
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import qos_dir
from koord.api.kubernetes.node import Node, NodeStatus
from koord.api.kubernetes.resources import amounts
from koord.api.kubernetes.runnable import RunnablePod
from koord.api.kubernetes.words import KubeQoS
from koord.api.machinery.faults import BadInput
from koord.api.protocol.crd.node_metric import NodeMetric, ResourceMap
from koord.api.protocol.crd.node_slo import NodeSLOSpec
from koord.api.protocol.report_policy import ReportPolicy
from koord.api.text.quantity import render


class OnceError(BadInput):
    """Manifests that do not say what one round on one node needs."""


class OnceWrite(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    file: str
    "Below the host root."
    value: str
    old: str
    by: str
    why: str
    is_restore: bool = False
    "Nothing wants it any more: what was there before the agent is put back."


class WouldEvict(msgspec.Struct, frozen=True):
    """One round evicts no pod: an agent that sees the effect does."""

    pod: str
    by: str
    why: str


class AbsentPod(msgspec.Struct, frozen=True):
    pod: str
    why: str


class Once(msgspec.Struct, frozen=True, rename="camel"):
    writes: tuple[OnceWrite, ...]
    evictions: tuple[WouldEvict, ...]
    refused: tuple[str, ...] = ()
    node_metric: Any = None
    dry_run: bool = True
    "Whether nothing was written."
    pods: int = 0
    "How many of the pods are on this host."
    absent: tuple[AbsentPod, ...] = ()


def once(
    host_root: str,
    cgroup_root: str,
    node: Node | None,
    slo: NodeSLOSpec | None,
    pods: list[RunnablePod],
    metric: NodeMetric | None,
    gates: Mapping[AgentGate, bool],
    *,
    now_s: float,
    update_time: str,
    wait: Callable[[float], None],
    ledger: Ledger | None = None,
    save: Callable[[bytes], None] = lambda text: None,
) -> Once:
    """`wait` lets time pass between the two looks. Without a `ledger` nothing is written; `save` keeps it, before the
    first write."""
    files = Files(host_root)
    try:
        cgroups = Cgroups.of(files, cgroup_root)
        driver = driver_in(cgroups)
        cgroups.look_for_pods_in(qos_dir(KubeQoS.GUARANTEED, driver))
        shape = topology(files)
        here = pods_of([pod for pod in pods if node is None or _is_here(pod, node)], driver)
        shown = node or _this_host(cgroups)
        state = state_of(cgroups, shape, driver, shown, slo, here, Kubelet(), gates)
        executor = Executor(cgroups, ledger or Ledger(), save, dry_run=ledger is None)
        agent = Agent(cgroups, executor, started_s=float("-inf"))
        if metric is not None:
            _fill(agent.samples, metric, state, now_s)
        else:
            collect(Round(cgroups, state, agent.samples, agent.rates, now_s, cold=agent.cold))
            wait(1.0)
            now_s += 1.0
            collect(Round(cgroups, state, agent.samples, agent.rates, now_s, cold=agent.cold))
        done = agent.decide(state, now_s)
        status = node_metric_status(state, agent.samples, ReportPolicy(), now_s, update_time)
        absent = (*_elsewhere(pods, node), *_without_cgroup(here.values(), cgroups))
        return Once(
            writes=tuple(
                OnceWrite(
                    agent.executor.file(done_write.write),
                    done_write.text,
                    done_write.old,
                    done_write.write.by,
                    done_write.write.why,
                    done_write.write.text is not None,
                )
                for done_write in done.outcome.done
            ),
            evictions=tuple(WouldEvict(eviction.pod.key, eviction.by, eviction.why) for eviction in done.evictions),
            refused=(
                *(
                    f"{refused.write.knob.name} in {refused.write.directory}: {refused.error}"
                    for refused in done.outcome.refused
                ),
                *(_told(problem) for problem in done.problems),
            ),
            node_metric=None if status is None else msgspec.to_builtins(status),
            dry_run=ledger is None,
            pods=len(pods) - len(absent),
            absent=absent,
        )
    finally:
        files.close()


def _elsewhere(pods: Iterable[RunnablePod], node: Node | None) -> Iterator[AbsentPod]:
    for pod in pods:
        if node is not None and not _is_here(pod, node):
            yield AbsentPod(pod.metadata.key, f"its node is {pod.spec.node_name}, not {node.metadata.name}")


def _without_cgroup(pods: Iterable[AgentPod], cgroups: Cgroups) -> Iterator[AbsentPod]:
    """Pods that should run here and do not: nothing can be wanted of them. Those that have ended have none."""
    for pod in pods:
        if pod.is_present and not cgroups.files.exists(cgroups.name("cpu", pod.directory)):
            yield AbsentPod(pod.key, f"this host has no cgroup {pod.directory}")


def _told(problem: Problem) -> str:
    whose = "" if problem.pod is None else f"pod {problem.pod.key}: "
    return f"{whose}cannot {problem.doing}: {problem.why}"


def _is_here(pod: RunnablePod, node: Node) -> bool:
    return pod.spec.node_name in ("", node.metadata.name)


def _this_host(cgroups: Cgroups) -> Node:
    """Where no Node is given, one that is as large as the host."""
    cpu_milli, memory_bytes = capacity_of(cgroups, topology(cgroups.files))
    own = {"cpu": render("cpu", cpu_milli), "memory": render("memory", memory_bytes)}
    return Node(status=NodeStatus(capacity=own, allocatable=own))


def _fill(samples: Samples, metric: NodeMetric, state: NodeState, now_s: float) -> None:
    """A report's averages stand for the present."""
    info = metric.status.node_metric
    if info is None:
        raise OnceError(f"NodeMetric {metric.metadata.name}: status.nodeMetric is missing, so no usage is known")
    _add(samples, names.NODE_CPU, names.NODE_MEMORY, info.node_usage, now_s)
    _add(samples, names.SYSTEM_CPU, names.SYSTEM_MEMORY, info.system_usage, now_s)
    by_key: dict[str, AgentPod] = {pod.key: pod for pod in state.pods.values()}
    for metric_of_pod in metric.status.pods_metric:
        pod = by_key.get(f"{metric_of_pod.namespace}/{metric_of_pod.name}")
        owner = pod.uid if pod else f"{metric_of_pod.namespace}/{metric_of_pod.name}"
        _add(samples, names.pod_cpu(owner), names.pod_memory(owner), metric_of_pod.pod_usage, now_s)
    for app in metric.status.host_application_metric:
        cpu, memory = names.host_application_cpu(app.name), names.host_application_memory(app.name)
        _add(samples, cpu, memory, app.usage, now_s)


def _add(samples: Samples, cpu: Series, memory: Series, usage: ResourceMap, now_s: float) -> None:
    used = amounts(usage.resources)
    samples.add(cpu, now_s, used.get("cpu", 0))
    samples.add(memory, now_s, used.get("memory", 0))
