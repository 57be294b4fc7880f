"""Whether a cluster is ready for koord, feature by feature: what works, what is off and why, what is missing and how to
get it. A pure function of observed facts; `koord check` gathers them and prints the result."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from koord.api.configuration.features import AgentGate, Gate
from koord.api.configuration.slo_config import SloConfig
from koord.api.protocol import names
from koord.api.protocol.announcements import is_announcement
from koord.api.protocol.lease_holders import is_koords, process_of
from koord.api.text.counted import counted
from koord.api.text.whole_number import whole_number
from koord.operate.install import versions
from koord.operate.install.others import Neighbour
from koord.operate.install.settings import AGENT, COMPONENTS, Component, Settings

State = Literal["works", "partly", "off", "missing", "broken"]
"""Off: not requested. Missing: requested or needed, but something does not exist. Broken: it should work."""


class Finding(msgspec.Struct, frozen=True, rename="camel"):
    area: str
    feature: str
    state: State
    why: str = ""
    how: str = ""
    "How to enable or fix the feature."


@dataclass(frozen=True, slots=True)
class NodeFacts:
    name: str
    kernel: str
    lends: bool = False
    "Whether the node has batch resources."
    other_writers: tuple[str, ...] = ()
    "Other components that write batch resources on the node."
    kubelet: str = ""
    "The version that kubelet reports."


@dataclass(frozen=True, slots=True)
class LeaseState:
    """A lease."""

    holder: str
    fresh: bool


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    server: tuple[int, int]
    server_text: str
    settings: Settings | None = None
    "Settings of the installation; None if koord is not installed."
    lacking: Sequence[str] = ()
    "Rights that the caller needs to install and does not have."
    missing_kinds: Sequence[str] = ()
    missing_classes: Sequence[str] = ()
    missing_webhooks: Sequence[str] = ()
    webhook_failure: str = ""
    leases: Mapping[str, LeaseState] = field(default_factory=dict)
    workloads: Mapping[str, str] = field(default_factory=dict)
    "What is wrong with each component, by name; empty if nothing is."
    others: Sequence[Neighbour] = ()
    "Other systems on the cluster."
    nodes: Sequence[NodeFacts] = ()
    silent: Sequence[str] = ()
    "Nodes whose agent does not report."
    agents: int = 0
    "Nodes whose usage koord's agent reports, however it was started."
    config: SloConfig | None = None
    config_problems: Sequence[str] = ()
    topologies: int = 0
    devices: int = 0
    unread: Sequence[str] = ()
    conflicts: Sequence[tuple[str, str]] = ()
    "Conflicts of schedulers that decide at the same time, and how to fix them."


_KERNEL: Final = re.compile(r"(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class KernelFeature:
    name: str
    since: tuple[int, int]
    instead: str


KERNEL_FEATURES: Final = (
    KernelFeature("pressure of nodes and pods (PSI)", (4, 20), "throttling and load tell less, and later"),
    KernelFeature("CPU burst by saved quota", (5, 14), "quotas are raised while a service is throttled"),
)
"""For mainline kernels. cgroup v2 depends on the host: `koord agent --features` on a node queries the kernel itself."""


def findings(seen: ClusterFacts) -> list[Finding]:
    return [*_cluster(seen), *_others(seen), *_components(seen), *_features(seen), *_kernels(seen)]


def is_ready(listed: Sequence[Finding]) -> bool:
    return not any(finding.state in ("missing", "broken") for finding in listed)


def _cluster(seen: ClusterFacts) -> Iterator[Finding]:
    area = "cluster"
    if seen.server >= versions.OLDEST_SERVER:
        newer = seen.server > versions.NEWEST_SERVER
        untried = f"; the newest that koord is tried with is {versions.said(versions.NEWEST_SERVER)}" if newer else ""
        yield Finding(area, "API server", "works", seen.server_text + untried)
    else:
        least = versions.said(versions.OLDEST_SERVER)
        yield Finding(area, "API server", "broken", f"{seen.server_text} is too old", f"upgrade to {least} or newer")
    yield from _versions(seen)
    if seen.lacking:
        shown = "; ".join(seen.lacking[:4]) + (f" and {len(seen.lacking) - 4} more" if len(seen.lacking) > 4 else "")
        yield Finding(area, "your rights to install", "missing", shown, "ask an administrator, or install as one")
    else:
        yield Finding(area, "your rights to install", "works")
    installed = seen.settings is not None
    yield _there(area, "kinds", seen.missing_kinds, installed)
    yield _there(area, "priority classes", seen.missing_classes, installed)
    for problem in seen.unread:
        yield Finding(area, "reading the cluster", "broken", problem, "ask for the right to read it")


def _versions(seen: ClusterFacts) -> Iterator[Finding]:
    """Features that this API server and these kubelets do not support."""
    area = "versions"
    for feature in versions.SERVER_FEATURES:
        if seen.server < feature.since:
            why = f"it needs Kubernetes {versions.said(feature.since)}; {feature.instead}"
            yield Finding(area, feature.name, "off", why, "upgrade Kubernetes")
    kubelets = [(node.name, node.kubelet) for node in seen.nodes]
    if odd := versions.out_of_skew(seen.server, kubelets):
        behind = versions.KUBELETS_BEHIND
        why = f"{_some(odd)}; kubelets may be up to {behind} minor versions older than the API server, and not newer"
        yield Finding(area, "kubelets", "partly", why, "upgrade these kubelets, or the API server first")
    old = versions.has_old_kubelets(seen.server, (kubelet for _, kubelet in kubelets))
    if seen.settings is not None and _has(seen, AGENT.name) and old and not seen.settings.old_kubelets:
        least = versions.said(versions.FINE_KUBELET_RIGHTS)
        why = f"there are kubelets before {least}, and agents may not ask them for pods and settings"
        yield Finding(area, "rights of agents", "broken", why, "koord upgrade")


def _some(listed: Sequence[str]) -> str:
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")


def _there(area: str, feature: str, absent: Sequence[str], installed: bool) -> Finding:
    if not absent:
        return Finding(area, feature, "works")
    why = f"{len(absent)} are not there: {', '.join(absent[:3])}" + (" ..." if len(absent) > 3 else "")
    return Finding(area, feature, "broken" if installed else "missing", why, "koord install")


def _others(seen: ClusterFacts) -> Iterator[Finding]:
    """Two systems that write the same names undo each other's work."""
    area = "beside others"
    writers: dict[str, int] = {}
    for node in seen.nodes:
        for manager in node.other_writers:
            writers[manager] = writers.get(manager, 0) + 1
    for writer, number in sorted(writers.items()):
        why = f"{writer} writes {names.RESOURCE_BATCH_CPU} on {counted(number, 'node')} too"
        yield Finding(area, "batch resources", "broken", why, f"take {writer} off these nodes, or keep koord off them")
    for other in seen.others:
        system = other.system
        # `koord install` refuses a system that clashes with components not installed yet.
        harmless = system.relation == "beside" or (
            system.relation == "clashes"
            and seen.settings is not None
            and not any(_has(seen, component) for component in system.clashes_with)
        )
        yield Finding(area, str(other), "works" if harmless else "broken", system.why, system.how)
    if not writers and all(neighbour.system.relation == "beside" for neighbour in seen.others):
        yield Finding(area, "other co-location systems", "works", "none found")


def _components(seen: ClusterFacts) -> Iterator[Finding]:
    area = "components"
    yield from (Finding(area, "one scheduler at a time", "broken", why, how) for why, how in seen.conflicts)
    if seen.settings is None and not _outside(seen):
        yield Finding(area, "koord", "missing", "it is not installed", "koord install")
        return
    if seen.settings is None:
        for name, where in _outside(seen).items():
            yield Finding(area, name, "works", where)
        yield Finding(area, "installation", "off", "nothing of koord runs in the cluster itself", "koord install")
    else:
        for component in COMPONENTS:
            yield _component(component, seen, seen.settings)
    if not _has(seen, "manager"):
        return
    if seen.missing_webhooks or seen.webhook_failure:
        why = seen.webhook_failure or f"not registered: {', '.join(seen.missing_webhooks)}"
        yield Finding(area, "webhooks", "broken", why, "look at the logs of koord-manager")
    else:
        yield Finding(area, "webhooks", "works", "a pod was tried by dry run")


_LEASES: Final = {
    "manager": names.LEASE_MANAGER,
    "scheduler": names.LEASE_SCHEDULER,
    "descheduler": names.LEASE_DESCHEDULER,
}


def _outside(seen: ClusterFacts) -> dict[str, str]:
    """koord's components that run without an installation, and where: started by `koord up` or by hand."""
    holders = {name: held.holder for name, held in seen.leases.items() if held.fresh and is_koords(held.holder)}
    # A scheduler without election still announces its scheduler names.
    announced = next((holder for name, holder in holders.items() if is_announcement(name)), "")
    running = {component: holders.get(lease, "") for component, lease in _LEASES.items()}
    running["scheduler"] = running["scheduler"] or announced
    outside = {
        component: f"outside of the cluster, on {process_of(holder)}" for component, holder in running.items() if holder
    }
    if seen.agents:
        outside[AGENT.name] = f"outside of the cluster, for {seen.agents} of {counted(len(seen.nodes), 'node')}"
    return outside


def _component(component: Component, seen: ClusterFacts, settings: Settings) -> Finding:
    area, name = "components", component.name
    if not settings.has(component):
        return Finding(area, name, "off", "it is not among the installed components", "koord upgrade --components")
    if fault := seen.workloads.get(name, "its workload does not exist"):
        how = f"kubectl -n {settings.namespace} get pods; koord install makes what is missing"
        return Finding(area, name, "broken", fault, how)
    lease = seen.leases.get(_LEASES.get(name, ""))
    if name in _LEASES and (lease is None or not lease.fresh):
        return Finding(
            area,
            name,
            "broken",
            f"no process holds the lease {_LEASES[name]}",
            f"look at its logs in {settings.namespace}",
        )
    if component is AGENT and seen.silent:
        shown = ", ".join(seen.silent[:3])
        return Finding(
            area, name, "partly", f"no report from {counted(len(seen.silent), 'node')}: {shown}", "look at their logs"
        )
    return Finding(area, name, "works", f"led by {lease.holder}" if lease is not None else "")


def _features(seen: ClusterFacts) -> Iterator[Finding]:
    area = "features"
    for problem in seen.config_problems:
        yield Finding(area, "configuration", "broken", problem, f"edit ConfigMap {names.CONFIGMAP_SLO_CONTROLLER}")
    yield _lending(seen)
    config = seen.config or SloConfig()
    spec = config.for_node({}, {}).node_slo
    threshold, burst = spec.resource_used_threshold_with_be, spec.cpu_burst_strategy
    held_back = bool(threshold is not None and threshold.enable)
    yield _strategy(
        seen, "hold best effort back (CPU suppress)", held_back, AgentGate.BE_CPU_SUPPRESS, "resource-threshold-config"
    )
    yield _strategy(
        seen, "evict best effort for memory", held_back, AgentGate.BE_MEMORY_EVICT, "resource-threshold-config"
    )
    bursts = burst is not None and burst.policy not in (None, "", "none")
    yield _strategy(seen, "let throttled services burst", bursts, AgentGate.CPU_BURST, "cpu-burst-config")
    yield _counted(seen, "own CPUs and NUMA nodes", seen.topologies, "NodeResourceTopologies of agents")
    yield _counted(seen, "GPUs and RDMA cards", seen.devices, "Devices of agents (gates Accelerators, RDMADevices)")
    for name, component in (("gangs, quotas, reservations", "scheduler"), ("moves of pods", "descheduler")):
        yield _by_component(seen, name, component)


def _lending(seen: ClusterFacts) -> Finding:
    area, feature = "features", "batch resources"
    lending = sum(node.lends for node in seen.nodes)
    if seen.settings is None and lending and _has(seen, "manager"):
        # Nodes may also be modelled, without an agent.
        return Finding(area, feature, "works", f"lent by {lending} of {counted(len(seen.nodes), 'node')}")
    for needed in ("manager", "agent"):
        if not _has(seen, needed):
            return _needs(seen, feature, needed)
    if seen.config is None or not seen.config.is_colocation_enabled:
        return Finding(area, feature, "off", "co-location is off in slo-controller-config", "koord colocation on")
    if lending == len(seen.nodes):
        return Finding(area, feature, "works", f"lent by {counted(lending, 'node')}")
    how = "koord explain node/NAME"
    return Finding(area, feature, "partly", f"lent by {lending} of {counted(len(seen.nodes), 'node')}", how)


def _needs(seen: ClusterFacts, feature: str, component: str) -> Finding:
    """The finding for a feature whose component does not run."""
    outside = seen.settings is None and _outside(seen)
    how = f"run koord {component} too, or koord install" if outside else "koord install"
    return Finding("features", feature, "off", f"needs the {component}", how)


def _strategy(seen: ClusterFacts, feature: str, on: bool, gate: Gate, section: str) -> Finding:
    area = "features"
    if not _has(seen, "agent"):
        return _needs(seen, feature, "agent")
    if seen.settings is not None and not seen.settings.is_on(gate):
        how = f"koord upgrade --feature-gates agent:{gate}=true"
        return Finding(area, feature, "off", f"the agent's gate {gate} is off", how)
    if not on:
        return Finding(area, feature, "off", "no strategy asks for it", f"set {section} in slo-controller-config")
    return Finding(area, feature, "works", "" if seen.settings is not None else f"with the agents' gate {gate}")


def _counted(seen: ClusterFacts, feature: str, number: int, what: str) -> Finding:
    if not _has(seen, "scheduler"):
        return _needs(seen, feature, "scheduler")
    if not number:
        return Finding("features", feature, "off", f"there are no {what}")
    return Finding("features", feature, "works", f"reported by {counted(number, 'node')}")


def _by_component(seen: ClusterFacts, feature: str, component: str) -> Finding:
    if not _has(seen, component):
        return _needs(seen, feature, component)
    if fault := seen.workloads.get(component):
        return Finding("features", feature, "broken", f"the {component}: {fault}")
    return Finding("features", feature, "works")


def _has(seen: ClusterFacts, component: str) -> bool:
    """Whether a component is installed, or runs without an installation."""
    return component in (seen.settings.components if seen.settings is not None else _outside(seen))


def _kernels(seen: ClusterFacts) -> Iterator[Finding]:
    area = "kernels"
    if not seen.nodes:
        yield Finding(area, "nodes", "off", "there are none")
        return
    for feature in KERNEL_FEATURES:
        old = [node for node in seen.nodes if (version := kernel(node.kernel)) is None or version < feature.since]
        if not old:
            yield Finding(area, feature.name, "works")
            continue
        least = ".".join(map(str, feature.since))
        shown = ", ".join(f"{node.name} ({node.kernel or 'unknown'})" for node in old[:3])
        state: State = "off" if len(old) == len(seen.nodes) else "partly"
        why = f"{len(old)} of {len(seen.nodes)} nodes have kernels before {least}: {shown}; {feature.instead}"
        yield Finding(area, feature.name, state, why, f"boot a kernel from {least} on")


def kernel(text: str) -> tuple[int, int] | None:
    """5.14.0-427.el9.x86_64 is (5, 14)."""
    match = _KERNEL.match(text)
    return (whole_number(match[1]), whole_number(match[2])) if match else None
