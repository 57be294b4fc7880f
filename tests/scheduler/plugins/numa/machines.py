"""Machines for tests: sockets x NUMA nodes per socket x cores per NUMA node x threads per core."""

import json
from typing import Any

from msgspec.structs import replace

from koord.api.configuration.scheduler_args import NodeNUMAResourceArgs
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.annotations import cpu
from koord.api.protocol.annotations.cpu import RESOURCE_STATUS, CPUInfo, ResourceStatus
from koord.api.protocol.crd.node_resource_topology import NodeResourceTopology
from koord.api.text.cpuset import CPUSet
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Profile
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord.scheduler.plugins.numa.node_numa_resource import NodeNUMAResource
from koord.scheduler.plugins.numa.topology import Topology, topology_of
from koord.scheduler.state.cluster import Cluster


def details(shape: str, *, siblings_apart: bool = False) -> tuple[CPUInfo, ...]:
    """CPUs are numbered core by core, or with `siblings_apart` all first threads before all second ones."""
    sockets, nodes, cores, threads = (int(each) for each in shape.split("x"))
    total = sockets * nodes * cores
    found = []
    for core in range(total):
        node = core // cores
        for thread in range(threads):
            id_ = core + thread * total if siblings_apart else core * threads + thread
            found.append(CPUInfo(id=id_, core=core % (nodes * cores), socket=node // nodes, node=node))
    return tuple(found)


def machine(shape: str, *, siblings_apart: bool = False) -> Topology:
    found = topology_of(details(shape, siblings_apart=siblings_apart))
    assert found is not None
    return found


def mask(cpus: str) -> int:
    return CPUSet.parse(cpus).mask


def told(cpus: int | None) -> str | None:
    return None if cpus is None else str(CPUSet.from_mask(cpus))


def report(
    name: str,
    shape: str = "1x2x6x2",
    *,
    memory: str = "48Gi",
    kubelet: str = "",
    reserved: str = "",
    options: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> NodeResourceTopology:
    """A NodeResourceTopology: CPUs as in `machine`, memory for each NUMA node."""
    cpus = details(shape)
    zones = []
    for number in sorted({each.node for each in cpus}):
        amount = str(sum(1 for each in cpus if each.node == number))
        resources = [
            {"name": what, "capacity": has, "allocatable": has, "available": has}
            for what, has in (("cpu", amount), ("memory", memory))
        ]
        zones.append({"name": f"node-{number}", "type": "Node", "resources": resources})
    policy = cpu.KubeletCPUManagerPolicy("static" if options or reserved else "none", options or {}, reserved)
    told = {
        cpu.CPU_TOPOLOGY.key: cpu.CPU_TOPOLOGY.render(cpu.CPUTopology(cpus)),
        cpu.CPU_MANAGER_POLICY.key: cpu.CPU_MANAGER_POLICY.render(policy),
        **(annotations or {}),
    }
    data = {
        "metadata": {"name": name, "annotations": told},
        "topologyPolicies": [kubelet] if kubelet else [],
        "zones": zones,
    }
    return convert(NodeResourceTopology, data)


def bound(name: str, cpus: str = "4", *, qos: str = "LSR", priority: int = 9500, **said: Any) -> Ask:
    """A pod that gets CPUs of its own."""
    return pod(name, cpus, labels={"koordinator.sh/qosClass": qos}, priority=priority, **said)


def pod(
    name: str,
    cpus: str = "4",
    memory: str = "1Gi",
    *,
    labels: dict[str, str] | None = None,
    priority: int | None = None,
    spec: dict[str, str] | None = None,
    numa: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    extended: dict[str, str] | None = None,
) -> Ask:
    told = dict(annotations or {})
    if spec is not None:
        told[cpu.RESOURCE_SPEC.key] = json.dumps(spec)
    if numa is not None:
        told[cpu.NUMA_TOPOLOGY_SPEC.key] = json.dumps(numa)
    requests = {"cpu": cpus, "memory": memory, **(extended or {})}
    data = {
        "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": labels or {}, "annotations": told},
        "spec": {"priority": priority, "containers": [{"name": "c", "resources": {"requests": requests}}]},
    }
    return Ask(convert(Pod, data))


class World:
    """A cluster with one profile, and what it writes on pods."""

    def __init__(self, args: NodeNUMAResourceArgs | None = None, plugins: tuple[Plugin, ...] = ()) -> None:
        self.cluster = Cluster()
        self.numa = NodeNUMAResource(args)
        weights = {"NodeNUMAResource": 1}
        self.engine = Engine(
            self.cluster, Profile("koord-scheduler", (NodeResourcesFit(), self.numa, *plugins), weights)
        )
        (taking,) = self.numa.takes()
        self.put_report, self.remove_report = taking.put, taking.remove

    def put(self, node: Node, topology: NodeResourceTopology | None = None) -> None:
        self.cluster.put_node(node)
        if topology is not None:
            self.put_report(topology)

    def place(self, ask: Ask) -> ResourceStatus:
        """What the pod got: it fits somewhere."""
        placement = self.engine.place(ask)
        assert placement.node is not None, placement.rejections
        return self.status(ask)

    def status(self, ask: Ask) -> ResourceStatus:
        return RESOURCE_STATUS.read(ObjectMeta(annotations=self.written(ask)))

    def written(self, ask: Ask) -> dict[str, str]:
        """The annotations that are written on a placed pod."""
        _, row = self.cluster.pods[ask.key]
        patch = self.engine.plan(ask, row).patch
        return {} if patch is None else dict(patch.body["metadata"]["annotations"])

    def bound_pod(self, ask: Ask) -> Pod:
        """The pod as the API has it once it is bound."""
        _, row = self.cluster.pods[ask.key]
        meta = replace(ask.meta, annotations={**ask.meta.annotations, **self.written(ask)})
        spec = replace(ask.pod.spec, node_name=self.cluster.table.names[row])
        return replace(ask.pod, metadata=meta, spec=spec)

    def why_not(self, ask: Ask) -> dict[str, int]:
        placement = self.engine.place(ask)
        assert placement.node is None, placement.node
        return dict(placement.rejections) or {placement.refusal: len(self.cluster.nodes)}


def big(name: str, cpus: str = "24", memory: str = "96Gi", **said: Any) -> Node:
    """A node with labels and annotations."""
    data = {
        "metadata": {"name": name, "labels": said.get("labels", {}), "annotations": said.get("annotations", {})},
        "status": {"allocatable": {"cpu": cpus, "memory": memory, "pods": "110", **said.get("extended", {})}},
    }
    return convert(Node, data)
