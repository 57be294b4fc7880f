"""One round of the agent on manifests: what it would write on a host, and whom it would evict.

The host may be a real one or a composed tree. Usage is measured between two looks, a second apart; or it is what a
NodeMetric among the manifests says, so that a question can be asked of a host that is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


class WouldWrite(msgspec.Struct, frozen=True):
    file: str
    "Below the host root."
    value: str
    old: str
    by: str
    why: str


class WouldEvict(msgspec.Struct, frozen=True):
    pod: str
    by: str
    why: str


class Once(msgspec.Struct, frozen=True, rename="camel"):
    writes: tuple[WouldWrite, ...]
    evictions: tuple[WouldEvict, ...]
    refused: tuple[str, ...] = ()
    node_metric: Any = None


def once(
    host_root: str,
    cgroup_root: str,
    node: Node | None,
    slo: NodeSLOSpec | None,
    pods: list[RunnablePod],
    metric: NodeMetric | None,
    gates: Mapping[AgentGate, bool],
    *,
    dry_run: bool,
    now_s: float,
    update_time: str,
    wait: Callable[[float], None],
) -> Once:
    """`wait` lets time pass between the two looks."""
    files = Files(host_root)
    try:
        cgroups = Cgroups.of(files, cgroup_root)
        driver = driver_in(cgroups)
        cgroups.look_for_pods_in(qos_dir(KubeQoS.GUARANTEED, driver))
        shape = topology(files)
        here = pods_of([pod for pod in pods if node is None or _is_here(pod, node)], driver)
        shown = node or _this_host(cgroups)
        state = state_of(cgroups, shape, driver, shown, slo, here, Kubelet(), gates)
        agent = Agent(cgroups, Executor(cgroups, Ledger(), dry_run=dry_run), started_s=float("-inf"))
        if metric is not None:
            _fill(agent.samples, metric, state, now_s)
        else:
            collect(Round(cgroups, state, agent.samples, agent.rates, now_s, cold=agent.cold))
            wait(1.0)
            now_s += 1.0
            collect(Round(cgroups, state, agent.samples, agent.rates, now_s, cold=agent.cold))
        done = agent.decide(state, now_s)
        status = node_metric_status(state, agent.samples, ReportPolicy(), now_s, update_time)
        return Once(
            writes=tuple(
                WouldWrite(
                    agent.executor.file(each.write),
                    each.text,
                    each.old,
                    each.write.by,
                    each.write.why,
                )
                for each in done.outcome.done
            ),
            evictions=tuple(WouldEvict(each.pod.key, each.by, each.why) for each in done.evictions),
            refused=(
                *(f"{each.write.knob.name} in {each.write.directory}: {each.error}" for each in done.outcome.refused),
                *(_told(each) for each in done.problems),
            ),
            node_metric=None if status is None else msgspec.to_builtins(status),
        )
    finally:
        files.close()


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
    for each in metric.status.pods_metric:
        pod = by_key.get(f"{each.namespace}/{each.name}")
        owner = pod.uid if pod else f"{each.namespace}/{each.name}"
        _add(samples, names.pod_cpu(owner), names.pod_memory(owner), each.pod_usage, now_s)
    for app in metric.status.host_application_metric:
        cpu, memory = names.host_application_cpu(app.name), names.host_application_memory(app.name)
        _add(samples, cpu, memory, app.usage, now_s)


def _add(samples: Samples, cpu: Series, memory: Series, usage: ResourceMap, now_s: float) -> None:
    used = amounts(usage.resources)
    samples.add(cpu, now_s, used.get("cpu", 0))
    samples.add(memory, now_s, used.get("memory", 0))
