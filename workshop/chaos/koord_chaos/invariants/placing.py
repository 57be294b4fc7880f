"""What must be true of API objects, whatever a scheduler did: judged by nothing but the objects.

    checker = Checker()
    faults = checker.look(objects)          after item change; `objects`: manifests by kind, as `kubectl get -o json`
    faults = checker.at_rest(objects)       the same where the scheduler has nothing to do: gangs are whole, too

What is more than there is (a node that shrank, a max that was lowered) is no fault. So amounts are judged where
a pod was bound since the last look. Nothing here knows how a scheduler works, and all of it is read again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, TypeAlias

Manifest: TypeAlias = Mapping[str, Any]
Objects: TypeAlias = Mapping[str, Sequence[Manifest]]
"""By kind. A kind that is not there has no objects."""
Amounts: TypeAlias = dict[str, Fraction]

QOS: Final = "koordinator.sh/qosClass"
RESOURCE_SPEC: Final = "scheduling.koordinator.sh/resource-spec"
RESOURCE_STATUS: Final = "scheduling.koordinator.sh/resource-status"
DEVICE_ALLOCATED: Final = "scheduling.koordinator.sh/device-allocated"
RESERVATION_ALLOCATED: Final = "scheduling.koordinator.sh/reservation-allocated"
CPU_TOPOLOGY: Final = "node.koordinator.sh/cpu-topology"
NUMA_POLICY: Final = "node.koordinator.sh/numa-topology-policy"
GANG: Final = "gang.scheduling.koordinator.sh/name"
GANG_LEAST: Final = "gang.scheduling.koordinator.sh/min-available"
POD_GROUP: Final = "pod-group.scheduling.sigs.k8s.io"
QUOTA: Final = "quota.scheduling.koordinator.sh/name"
QUOTA_PARENT: Final = "quota.scheduling.koordinator.sh/parent"
GPU_RESOURCES: Final = ("koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio")
GPU_ASKED_BY: Final = (*GPU_RESOURCES, "koordinator.sh/gpu", "koordinator.sh/gpu-memory", "nvidia.com/gpu")
WHOLE_GPU: Final = 100
PROD: Final = range(9000, 10000)
_SUFFIXES: Final = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "k": 10**3, "M": 10**6, "G": 10**9}


def quantity(text: str | int | float) -> Fraction:
    """`500m`, `2Gi`, `4`."""
    said = str(text)
    if said.endswith("m"):
        return Fraction(said[:-1]) / 1000
    for suffix, factor in _SUFFIXES.items():
        if said.endswith(suffix):
            return Fraction(said[: -len(suffix)]) * factor
    return Fraction(said)


def cpus_of(text: str) -> frozenset[int]:
    """`0-3,8`."""
    result: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        result.update(range(int(first), int(last or first) + 1))
    return frozenset(result)


def _meta(thing: Manifest) -> Manifest:
    result: Manifest = thing["metadata"]
    return result


def key_of(thing: Manifest) -> str:
    meta = _meta(thing)
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _said(thing: Manifest, annotation: str) -> Any:
    """What an annotation says in JSON; an empty object where it is not there."""
    return json.loads(_meta(thing).get("annotations", {}).get(annotation) or "{}")


def _label(thing: Manifest, label: str) -> str:
    return str(_meta(thing).get("labels", {}).get(label, ""))


def node_of(pod: Manifest) -> str:
    return str(pod["spec"].get("nodeName", ""))


def is_over(pod: Manifest) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def requests_of(spec: Manifest) -> Amounts:
    """Of a pod's containers together; stories have no init containers and no overhead."""
    result: Amounts = defaultdict(Fraction)
    for container in spec["containers"]:
        for name, text in container.get("resources", {}).get("requests", {}).items():
            result[name] += quantity(text)
    return result


def _add(into: Amounts, more: Mapping[str, Fraction]) -> None:
    for name, amount in more.items():
        into[name] = into.get(name, Fraction(0)) + amount


@dataclass(frozen=True)
class Reserved:
    """A reservation that holds room on a node."""

    manifest: Manifest
    node: str
    amounts: Amounts
    owners: tuple[Manifest, ...]
    "Pods that came out of it, and are there."

    @property
    def name(self) -> str:
        return str(_meta(self.manifest)["name"])

    @property
    def used(self) -> Amounts:
        result: Amounts = {}
        for pod in self.owners:
            _add(result, requests_of(pod["spec"]))
        return result

    @property
    def left(self) -> Amounts:
        used = self.used
        return {name: max(Fraction(0), amount - used.get(name, 0)) for name, amount in self.amounts.items()}


class Cluster:
    """Objects of one moment, by what they have to do with each other."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.nodes = {key_of(node): node for node in objects.get("Node", ())}
        self.pods = [pod for pod in objects.get("Pod", ()) if not is_over(pod)]
        self.bound = [pod for pod in self.pods if node_of(pod)]
        self.on: dict[str, list[Manifest]] = defaultdict(list)
        for pod in self.bound:
            self.on[node_of(pod)].append(pod)
        inside: dict[str, list[Manifest]] = defaultdict(list)
        for pod in self.bound:
            inside[_said(pod, RESERVATION_ALLOCATED).get("uid", "")].append(pod)
        self.reservations = [
            Reserved(
                item,
                item["status"]["nodeName"],
                {name: quantity(text) for name, text in item["status"].get("allocatable", {}).items()},
                tuple(inside.get(_meta(item).get("uid", "-"), ())),
            )
            for item in objects.get("Reservation", ())
            if item.get("status", {}).get("phase") == "Available"
        ]

    def reserved_on(self, node: str) -> list[Reserved]:
        return [reservation for reservation in self.reservations if reservation.node == node]


@dataclass
class Checker:
    """Judges one story, look after look. `left_out`: names of rules that are not asked."""

    left_out: frozenset[str] = frozenset()
    _bound: set[str] = field(default_factory=set)
    "Uids that had a node at the last look, of pods and reservations."
    _unbound: dict[str, str] = field(default_factory=dict)
    "Pods of gangs that had none, by uid, with their gangs."
    _nodes: set[str] = field(default_factory=set)
    _of_gang: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    "By gang, the uids of all pods that ever had a node."
    _disturbed: set[str] = field(default_factory=set)
    "Gangs that lost a member, or a node, while they had no place."

    def look(self, objects: Objects) -> list[str]:
        return self._judge(objects, at_rest=False)

    def at_rest(self, objects: Objects) -> list[str]:
        return self._judge(objects, at_rest=True)

    def _judge(self, objects: Objects, *, at_rest: bool) -> list[str]:
        cluster = Cluster(objects)
        new = {_meta(pod)["uid"] for pod in cluster.bound} - self._bound
        new |= {_meta(reservation.manifest)["uid"] for reservation in cluster.reservations} - self._bound
        self._remember(cluster)
        rules = {**RULES, **({"reservation owners are told": owners_are_told} if at_rest else {})}
        faults = [
            f"{name}: {fault}"
            for name, rule in rules.items()
            if name not in self.left_out
            for fault in rule(cluster, new)
        ]
        if at_rest and "gangs are whole" not in self.left_out:
            faults += [f"gangs are whole: {fault}" for fault in self._gangs(cluster)]
        return faults

    def _remember(self, cluster: Cluster) -> None:
        self._bound = {_meta(pod)["uid"] for pod in cluster.bound}
        self._bound |= {_meta(reservation.manifest)["uid"] for reservation in cluster.reservations}
        there = {_meta(pod)["uid"] for pod in cluster.objects.get("Pod", ())}
        if self._nodes - cluster.nodes.keys():
            self._disturbed.update(self._unbound.values())
        self._disturbed.update(gang for uid, gang in self._unbound.items() if uid not in there)
        self._nodes = set(cluster.nodes)
        self._unbound = {}
        for pod in cluster.objects.get("Pod", ()):
            gang = gang_of(pod)
            if gang and node_of(pod):
                self._of_gang[gang].add(_meta(pod)["uid"])
            elif gang:
                self._unbound[_meta(pod)["uid"]] = gang

    def _gangs(self, cluster: Cluster) -> Iterator[str]:
        """No gang ever had some of the places that it needs, and not all."""
        least = {key_of(item): item["spec"].get("minMember", 1) for item in cluster.objects.get("PodGroup", ())}
        for pod in cluster.objects.get("Pod", ()):
            gang = gang_of(pod)
            if gang and _meta(pod).get("annotations", {}).get(GANG_LEAST):
                least[gang] = int(_meta(pod)["annotations"][GANG_LEAST])
        for gang, bound in self._of_gang.items():
            if gang not in self._disturbed and len(bound) < least.get(gang, 0):
                yield f"{gang} needs {least[gang]} pods at once, and {len(bound)} were bound"


def gang_of(pod: Manifest) -> str:
    meta = _meta(pod)
    name = meta.get("annotations", {}).get(GANG) or meta.get("labels", {}).get(POD_GROUP, "")
    return f"{meta.get('namespace', '')}/{name}" if name else ""


Rule: TypeAlias = Callable[[Cluster, set[str]], Iterable[str]]
"""Faults in words; the uids are of pods that have a node since the last look."""


def cpus_belong_to_one_pod(cluster: Cluster, new: set[str]) -> Iterator[str]:
    for node in cluster.nodes:
        holders = [(key_of(pod), cpus_of(_said(pod, RESOURCE_STATUS).get("cpuset", ""))) for pod in cluster.on[node]]
        for reserved in cluster.reserved_on(node):
            mine = cpus_of(_said(reserved.manifest, RESOURCE_STATUS).get("cpuset", ""))
            for owner in reserved.owners:
                mine -= cpus_of(_said(owner, RESOURCE_STATUS).get("cpuset", ""))
            holders.append((f"reservation {reserved.name}", mine))
        taken: dict[int, str] = {}
        for who, cpus in holders:
            for cpu in sorted(cpus):
                if cpu in taken:
                    yield f"CPU {cpu} of {node} belongs to {taken[cpu]} and to {who}"
                    break
                taken[cpu] = who


def cpus_go_to_whoever_asked(cluster: Cluster, new: set[str]) -> Iterator[str]:
    topologies = {key_of(item): item for item in cluster.objects.get("NodeResourceTopology", ())}
    for pod in cluster.bound:
        if _meta(pod)["uid"] not in new:
            continue
        cpus, asks = cpus_of(_said(pod, RESOURCE_STATUS).get("cpuset", "")), asks_for_cpus(pod)
        if cpus and not asks:
            yield f"{key_of(pod)} did not ask for CPUs of its own and has {sorted(cpus)}"
        topology = topologies.get(node_of(pod))
        if topology is None or not asks:
            continue
        if len(cpus) != requests_of(pod["spec"])["cpu"]:
            yield f"{key_of(pod)} asks for {requests_of(pod['spec'])['cpu']} CPUs of its own and has {sorted(cpus)}"
        details = _said(topology, CPU_TOPOLOGY)["detail"]
        if not cpus <= {detail["id"] for detail in details}:
            yield f"{key_of(pod)} has CPUs that {node_of(pod)} has not: {sorted(cpus)}"
        if _said(pod, RESOURCE_SPEC).get("requiredCPUBindPolicy") == "FullPCPUs":
            cores = {(detail["socket"], detail["node"], detail["core"]) for detail in details if detail["id"] in cpus}
            whole = {detail["id"] for detail in details if (detail["socket"], detail["node"], detail["core"]) in cores}
            if whole != cpus:
                yield f"{key_of(pod)} asks for whole cores and has {sorted(cpus)}"


def asks_for_cpus(pod: Manifest) -> bool:
    return _label(pod, QOS) in ("LSR", "LSE") and (pod["spec"].get("priority") or 0) in PROD


def a_numa_policy_is_kept(cluster: Cluster, new: set[str]) -> Iterator[str]:
    for pod in cluster.bound:
        node = cluster.nodes.get(node_of(pod))
        if node is None or _meta(pod)["uid"] not in new or _label(node, NUMA_POLICY) != "SingleNUMANode":
            continue
        zones = {item["node"] for item in _said(pod, RESOURCE_STATUS).get("numaNodeResources", ())}
        if len(zones) > 1:
            yield f"{key_of(pod)} is on NUMA nodes {sorted(zones)} of {node_of(pod)}, which allows one"


def numa_nodes_have_what_is_given(cluster: Cluster, new: set[str]) -> Iterator[str]:
    """CPUs of NUMA nodes: what pods got there by amounts, and what they got as CPUs of their own."""
    for topology in cluster.objects.get("NodeResourceTopology", ()):
        node = key_of(topology)
        here = cluster.on[node]
        if not any(_meta(pod)["uid"] in new for pod in here):
            continue
        zone_of = {item["id"]: item["node"] for item in _said(topology, CPU_TOPOLOGY)["detail"]}
        has: Amounts = {
            item["name"].removeprefix("node-"): quantity(resource["allocatable"])
            for item in topology.get("zones", ())
            for resource in item.get("resources", ())
            if resource["name"] == "cpu"
        }
        taken: Amounts = defaultdict(Fraction)
        for pod in here:
            status = _said(pod, RESOURCE_STATUS)
            if status.get("numaNodeResources"):
                for item in status["numaNodeResources"]:
                    taken[str(item["node"])] += quantity(item.get("resources", {}).get("cpu", 0))
            else:
                for cpu in cpus_of(status.get("cpuset", "")):
                    taken[str(zone_of[cpu])] += 1
        for zone, amount in taken.items():
            if amount > has.get(zone, 0):
                yield f"{float(amount)} CPUs of NUMA node {zone} of {node} are given, which has {float(has[zone])}"


def gpus_are_given_once(cluster: Cluster, new: set[str]) -> Iterator[str]:
    for node in cluster.nodes:
        taken: dict[tuple[str, int], Amounts] = defaultdict(dict)
        for pod in cluster.on[node]:
            for place, amounts in _gpus(pod).items():
                _add(taken[place], amounts)
        for reserved in cluster.reserved_on(node):
            left = {place: dict(amounts) for place, amounts in _gpus(reserved.manifest).items()}
            for owner in reserved.owners:
                for place, amounts in _gpus(owner).items():
                    for name, amount in amounts.items():
                        if name in left.get(place, {}):
                            left[place][name] = max(Fraction(0), left[place][name] - amount)
            for place, amounts in left.items():
                _add(taken[place], amounts)
        for (kind, minor), amounts in taken.items():
            for name in GPU_RESOURCES:
                if amounts.get(name, 0) > WHOLE_GPU:
                    yield f"{float(amounts[name])} of {name} of {kind} {minor} of {node} are given"


def _gpus(thing: Manifest) -> dict[tuple[str, int], Amounts]:
    return {
        ("gpu", item["minor"]): {name: quantity(text) for name, text in item.get("resources", {}).items()}
        for item in _said(thing, DEVICE_ALLOCATED).get("gpu", ())
    }


def gpus_go_to_whoever_asked(cluster: Cluster, new: set[str]) -> Iterator[str]:
    devices = {key_of(item): item for item in cluster.objects.get("Device", ())}
    for pod in cluster.bound:
        if _meta(pod)["uid"] not in new:
            continue
        given, asked = _gpus(pod), requests_of(pod["spec"])
        if not any(asked.get(name) for name in GPU_ASKED_BY):
            if given:
                yield f"{key_of(pod)} did not ask for GPUs and has {sorted(given)}"
            continue
        core = asked.get(GPU_RESOURCES[0], Fraction(0))
        number = max(1, int(core // WHOLE_GPU)) if core else int(asked.get("nvidia.com/gpu", 0))
        if len(given) != number:
            yield f"{key_of(pod)} asks for {number} GPUs and has {sorted(given)}"
        device = devices.get(node_of(pod), {})
        usable = {item["minor"] for item in device.get("spec", {}).get("devices", ()) if item.get("health")}
        if not {minor for _, minor in given} <= usable:
            yield f"{key_of(pod)} has GPUs {sorted(given)} of {node_of(pod)}, which can give {sorted(usable)}"
        for name in GPU_RESOURCES:
            total = sum((amounts.get(name, Fraction(0)) for amounts in given.values()), Fraction(0))
            if asked.get(name, 0) and total != asked[name]:
                yield f"{key_of(pod)} asks for {float(asked[name])} of {name} and has {float(total)}"


def nodes_have_what_is_given(cluster: Cluster, new: set[str]) -> Iterator[str]:
    for name, node in cluster.nodes.items():
        came = _came(cluster, name, new)
        if not came:
            continue
        given: Amounts = {}
        for pod in cluster.on[name]:
            _add(given, {**requests_of(pod["spec"]), "pods": Fraction(1)})
        for reserved in cluster.reserved_on(name):
            _add(given, reserved.left)
        has = node.get("status", {}).get("allocatable", {})
        for resource, amount in given.items():
            if came.get(resource, 0) and amount > quantity(has.get(resource, 0)):
                yield f"{float(amount)} of {resource} are given on {name}, which has {has.get(resource, 0)}"


def _came(cluster: Cluster, node: str, new: set[str]) -> Amounts:
    """What new pods since the last look take beside the others: pods that came out of no reservation."""
    result: Amounts = {}
    for pod in cluster.on[node]:
        if _meta(pod)["uid"] in new and not _said(pod, RESERVATION_ALLOCATED):
            _add(result, {**requests_of(pod["spec"]), "pods": Fraction(1)})
    for reserved in cluster.reserved_on(node):
        if _meta(reserved.manifest)["uid"] in new:
            _add(result, reserved.amounts)
    return result


def quotas_keep_their_max(cluster: Cluster, new: set[str]) -> Iterator[str]:
    for quota in cluster.objects.get("ElasticQuota", ()):
        name = _meta(quota)["name"]
        mine = [pod for pod in cluster.bound if _label(pod, QUOTA) == name]
        yield from _beyond_max(quota, mine, new)


def quotas_above_keep_their_max(cluster: Cluster, new: set[str]) -> Iterator[str]:
    """Where parents are checked."""
    quotas = {_meta(item)["name"]: item for item in cluster.objects.get("ElasticQuota", ())}
    below: dict[str, set[str]] = defaultdict(set)
    for name, quota in quotas.items():
        parent = _label(quota, QUOTA_PARENT)
        while parent in quotas and name not in below[parent]:
            below[parent].add(name)
            parent = _label(quotas[parent], QUOTA_PARENT)
    for name, those in below.items():
        if name in quotas:
            yield from _beyond_max(quotas[name], [pod for pod in cluster.bound if _label(pod, QUOTA) in those], new)


def _beyond_max(quota: Manifest, pods: Sequence[Manifest], new: set[str]) -> Iterator[str]:
    used: Amounts = {}
    came: Amounts = {}
    for pod in pods:
        _add(used, requests_of(pod["spec"]))
        if _meta(pod)["uid"] in new and not _said(pod, RESERVATION_ALLOCATED):
            _add(came, requests_of(pod["spec"]))
    for resource, text in quota.get("spec", {}).get("max", {}).items():
        if came.get(resource, 0) and used[resource] > quantity(text):
            yield f"pods of quota {_meta(quota)['name']} have {float(used[resource])} of {resource}, its max is {text}"


def reservations_keep_their_terms(cluster: Cluster, new: set[str]) -> Iterator[str]:
    by_uid = {_meta(item).get("uid", ""): item for item in cluster.objects.get("Reservation", ())}
    ended: dict[str, list[Manifest]] = defaultdict(list)
    for pod in cluster.bound:
        said = _said(pod, RESERVATION_ALLOCATED)
        if not said or _meta(pod)["uid"] not in new:
            continue
        reservation = by_uid.get(said["uid"])
        if reservation is None:
            yield f"{key_of(pod)} came out of reservation {said['name']}, which does not exist"
            continue
        ended[said["uid"]].append(pod)
        if reservation["status"].get("nodeName") != node_of(pod):
            yield f"{key_of(pod)} is on {node_of(pod)}, not where its reservation {said['name']} is"
        if not any(_owns(owner, pod) for owner in reservation["spec"].get("owners", ())):
            yield f"{key_of(pod)} came out of reservation {said['name']}, which is not for it"
        if reservation["spec"].get("allocateOnce", True) and len(ended[said["uid"]]) > 1:
            yield f"reservation {said['name']} is for one pod, and several came out of it"
    for reserved in cluster.reservations:
        came = [pod for pod in reserved.owners if _meta(pod)["uid"] in new]
        if not came or reserved.manifest["spec"].get("allocatePolicy") != "Restricted":
            continue
        used = reserved.used
        for resource, amount in reserved.amounts.items():
            if used.get(resource, 0) > amount and any(requests_of(pod["spec"]).get(resource) for pod in came):
                yield f"owners have {float(used[resource])} of {resource} of reservation {reserved.name}"


def _owns(owner: Manifest, pod: Manifest) -> bool:
    """Stories have owners by labels alone."""
    labels = _meta(pod).get("labels", {})
    wanted = owner.get("labelSelector", {}).get("matchLabels", {})
    return bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())


def owners_are_told(cluster: Cluster, new: set[str]) -> Iterator[str]:
    for reserved in cluster.reservations:
        listed = {item.get("uid") for item in reserved.manifest["status"].get("currentOwners", ())}
        there = {_meta(pod)["uid"] for pod in reserved.owners}
        if listed != there:
            yield f"reservation {reserved.name} tells of owners {sorted(listed)}, and has {sorted(there)}"


RULES: Final[Mapping[str, Rule]] = {
    "a CPU belongs to one pod": cpus_belong_to_one_pod,
    "CPUs go to pods that asked": cpus_go_to_whoever_asked,
    "a NUMA policy is kept": a_numa_policy_is_kept,
    "NUMA nodes have what is given": numa_nodes_have_what_is_given,
    "GPUs are given once": gpus_are_given_once,
    "GPUs go to pods that asked": gpus_go_to_whoever_asked,
    "nodes have what is given": nodes_have_what_is_given,
    "quotas keep their max": quotas_keep_their_max,
    "quotas above keep their max": quotas_above_keep_their_max,
    "reservations keep their terms": reservations_keep_their_terms,
}
"""By name; besides, at rest: `gangs are whole`, `reservation owners are told`."""
