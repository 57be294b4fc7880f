"""What pods are given on nodes: nothing twice, nothing that is not there, and only to pods that requested it.

More than there is (a node that shrank, a max that was lowered) is no violation by itself. So amounts are judged
where a pod was bound since the last look.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final

from koord_chaos.invariants.invariant import Invariant
from koord_chaos.invariants.linked_devices import LINKED_DEVICES
from koord_chaos.invariants.manifests import (
    CPU_TOPOLOGY,
    GPU_REQUESTS,
    GPU_SHARES,
    LENT,
    NUMA_POLICY,
    QUOTA,
    QUOTA_PARENT,
    RESERVATION_AFFINITY,
    RESERVATION_ALLOCATED,
    RESOURCE_SPEC,
    RESOURCE_STATUS,
    Amounts,
    Manifest,
    Place,
    add,
    annotation,
    by_key,
    devices,
    exclusive_cpus,
    key_of,
    label,
    meta,
    node_of,
    quantity,
    requests_exclusive_cpus,
    requests_of,
    uid_of,
    virtual_functions,
)
from koord_chaos.invariants.moment import Moment
from koord_chaos.invariants.neighbours import NEIGHBOURS

WHOLE: Final = 100
"""Of a device: its shares are percentages."""
SHARES: Final = (*GPU_SHARES, "koordinator.sh/rdma", "koordinator.sh/fpga")
CARDS: Final = "koordinator.sh/gpu.shared"
"""Counts cards in a request. Nodes have it only by the gate EnableSyncGPUSharedResource; the devices decide."""


def _shared_cpus(moment: Moment) -> Iterator[str]:
    for node in moment.nodes:
        holders = [(key_of(pod), exclusive_cpus(pod)) for pod in moment.on[node]]
        for reserved in moment.reserved_on(node):
            left = exclusive_cpus(reserved.manifest)
            for owner in reserved.owners:
                left -= exclusive_cpus(owner)
            holders.append((f"reservation {reserved.name}", left))
        holder_of: dict[int, str] = {}
        for holder, cpus in holders:
            if shared := sorted(cpus & holder_of.keys()):
                yield f"CPU {shared[0]} of {node} belongs to {holder_of[shared[0]]} and to {holder}"
            holder_of |= dict.fromkeys(cpus, holder)


def _wrong_cpus(moment: Moment) -> Iterator[str]:
    topologies = by_key(moment.objects.get("NodeResourceTopology", ()))
    for pod in moment.new_pods:
        cpus, wanted = exclusive_cpus(pod), requests_exclusive_cpus(pod)
        if cpus and not wanted:
            yield f"{key_of(pod)} did not request exclusive CPUs and has {sorted(cpus)}"
        topology = topologies.get(node_of(pod))
        if topology is None or not wanted:
            continue
        if len(cpus) != requests_of(pod["spec"])["cpu"]:
            yield f"{key_of(pod)} requests {requests_of(pod['spec'])['cpu']} exclusive CPUs and has {sorted(cpus)}"
        details = annotation(topology, CPU_TOPOLOGY)["detail"]
        if not cpus <= {detail["id"] for detail in details}:
            yield f"{key_of(pod)} has CPUs that {node_of(pod)} does not have: {sorted(cpus)}"
        if annotation(pod, RESOURCE_SPEC).get("requiredCPUBindPolicy") == "FullPCPUs":
            core_of = {detail["id"]: (detail["socket"], detail["node"], detail["core"]) for detail in details}
            cores = {core_of.get(cpu) for cpu in cpus}
            if {cpu for cpu, core in core_of.items() if core in cores} != cpus:
                yield f"{key_of(pod)} requires whole cores and has {sorted(cpus)}"


def _broken_numa_policies(moment: Moment) -> Iterator[str]:
    for pod in moment.new_pods:
        node = moment.nodes.get(node_of(pod))
        if node is None or label(node, NUMA_POLICY) != "SingleNUMANode":
            continue
        zones = {zone["node"] for zone in annotation(pod, RESOURCE_STATUS).get("numaNodeResources") or ()}
        if len(zones) > 1:
            yield f"{key_of(pod)} is on NUMA nodes {sorted(zones)} of {node_of(pod)}, which allows one"


def _overfull_numa_nodes(moment: Moment) -> Iterator[str]:
    """CPUs of NUMA nodes: amounts of pods, and exclusive CPUs."""
    for topology in moment.objects.get("NodeResourceTopology", ()):
        node = key_of(topology)
        pods = moment.on[node]
        if not any(moment.is_new(pod) for pod in pods):
            continue
        zone_of = {detail["id"]: detail["node"] for detail in annotation(topology, CPU_TOPOLOGY)["detail"]}
        capacity: Amounts = {
            zone["name"].removeprefix("node-"): quantity(resource["allocatable"])
            for zone in topology.get("zones", ())
            for resource in zone.get("resources", ())
            if resource["name"] == "cpu"
        }
        given: Amounts = defaultdict(Fraction)
        for pod in pods:
            zones = annotation(pod, RESOURCE_STATUS).get("numaNodeResources") or ()
            for zone in zones:
                given[str(zone["node"])] += quantity(zone.get("resources", {}).get("cpu", 0))
            if not zones:
                for cpu in exclusive_cpus(pod) & zone_of.keys():
                    given[str(zone_of[cpu])] += 1
        for name, amount in given.items():
            if amount > capacity.get(name, 0):
                yield f"{float(amount)} CPUs of NUMA node {name} of {node} are given of {capacity.get(name, 0)}"


def _overfull_devices(moment: Moment) -> Iterator[str]:
    for node in moment.nodes:
        given: dict[Place, Amounts] = defaultdict(dict)
        for pod in moment.on[node]:
            for place, amounts in devices(pod).items():
                add(given[place], amounts)
        for reserved in moment.reserved_on(node):
            left = {place: dict(amounts) for place, amounts in devices(reserved.manifest).items()}
            for owner in reserved.owners:
                for place, amounts in devices(owner).items():
                    for name in amounts.keys() & left.get(place, {}).keys():
                        left[place][name] = max(Fraction(0), left[place][name] - amounts[name])
            for place, amounts in left.items():
                add(given[place], amounts)
        for (kind, minor), amounts in given.items():
            for name in SHARES:
                if amounts.get(name, 0) > WHOLE:
                    yield f"{float(amounts[name])} of {name} of {kind} {minor} of {node} are given"


def _wrong_devices(moment: Moment) -> Iterator[str]:
    reports = by_key(moment.objects.get("Device", ()))
    for pod in moment.new_pods:
        gpus, requested = devices(pod, "gpu"), requests_of(pod["spec"])
        if not any(requested.get(name) for name in GPU_REQUESTS):
            if gpus:
                yield f"{key_of(pod)} did not request GPUs and has {sorted(gpus)}"
        else:
            number = _number_of_gpus(requested)
            if len(gpus) != number:
                yield f"{key_of(pod)} requests {number} GPUs and has {sorted(gpus)}"
            for name in GPU_SHARES:
                total = sum((amounts.get(name, Fraction(0)) for amounts in gpus.values()), Fraction(0))
                if requested.get(name, 0) and total != requested[name]:
                    yield f"{key_of(pod)} requests {float(requested[name])} of {name} and has {float(total)}"
        for kind in ("rdma", "fpga"):
            cards = devices(pod, kind)
            if cards and not requested.get(f"koordinator.sh/{kind}"):
                yield f"{key_of(pod)} did not request {kind} and has {sorted(cards)}"
            if not cards and requested.get(f"koordinator.sh/{kind}"):
                yield f"{key_of(pod)} requests {kind} and has none"
        report = reports.get(node_of(pod), {})
        listed = report.get("spec", {}).get("devices") or ()
        healthy = {(device["type"], device["minor"]) for device in listed if device.get("health")}
        if not devices(pod).keys() <= healthy:
            yield f"{key_of(pod)} has {sorted(devices(pod))} of {node_of(pod)}, which can give {sorted(healthy)}"


def _number_of_gpus(requested: Amounts) -> int:
    if shared := requested.get("koordinator.sh/gpu.shared"):
        return int(shared)
    if whole := requested.get("nvidia.com/gpu"):
        return int(whole)
    share = requested.get(GPU_SHARES[0]) or requested.get("koordinator.sh/gpu") or Fraction(0)
    return max(1, int(share // WHOLE))


def _shared_functions(moment: Moment) -> Iterator[str]:
    for node in moment.nodes:
        holder_of: dict[tuple[str, int, int], str] = {}
        for pod in moment.on[node]:
            for function in virtual_functions(pod):
                if function in holder_of:
                    kind, card, number = function
                    yield (
                        f"virtual function {number} of {kind} {card} of {node} belongs to "
                        f"{holder_of[function]} and to {key_of(pod)}"
                    )
                holder_of[function] = key_of(pod)


def _bound_twice(moment: Moment) -> Iterator[str]:
    for pod in moment.bound:
        earlier = moment.earlier.get(uid_of(pod))
        if earlier is not None and earlier != node_of(pod):
            yield f"{key_of(pod)} was bound to {earlier}, and then to {node_of(pod)}"


def _wrong_nodes(moment: Moment) -> Iterator[str]:
    for pod in moment.new_pods:
        node = moment.nodes.get(node_of(pod))
        if node is None:
            yield f"{key_of(pod)} is bound to {node_of(pod)}, which does not exist"
            continue
        lacking = {
            name: value for name, value in (pod["spec"].get("nodeSelector") or {}).items() if label(node, name) != value
        }
        if lacking:
            yield f"{key_of(pod)} selects nodes with {lacking}, and is on {node_of(pod)}"


def _overfull_nodes(moment: Moment) -> Iterator[str]:
    for node, resource, given, there in _overcommitted(moment):
        if resource not in LENT:
            yield f"{float(given)} of {resource} are given on {node}, which has {there}"


def _overlent_nodes(moment: Moment) -> Iterator[str]:
    for node, resource, given, there in _overcommitted(moment):
        if resource in LENT:
            yield f"{float(given)} of {resource} are given on {node}, which lends {there}"


def _overcommitted(moment: Moment) -> Iterator[tuple[str, str, Fraction, str]]:
    for name, node in moment.nodes.items():
        came = _came(moment, name)
        if not came:
            continue
        given: Amounts = {}
        for pod in moment.on[name]:
            add(given, {**requests_of(pod["spec"]), "pods": Fraction(1)})
        for reserved in moment.reserved_on(name):
            add(given, reserved.left)
        there = node.get("status", {}).get("allocatable", {})
        for resource, amount in given.items():
            if resource == CARDS and resource not in there:
                continue
            if came.get(resource, 0) and amount > quantity(there.get(resource, 0)):
                yield name, resource, amount, str(there.get(resource, 0))


def _came(moment: Moment, node: str) -> Amounts:
    """What new pods and reservations take; pods allocated from a reservation take nothing more."""
    amounts: Amounts = {}
    for pod in moment.on[node]:
        if moment.is_new(pod) and not annotation(pod, RESERVATION_ALLOCATED):
            add(amounts, {**requests_of(pod["spec"]), "pods": Fraction(1)})
    for reserved in moment.reserved_on(node):
        if moment.is_new(reserved.manifest):
            add(amounts, reserved.amounts)
    return amounts


def _lenders_in_debt(moment: Moment) -> Iterator[str]:
    for name, node in moment.nodes.items():
        status = node.get("status", {})
        lent, capacity = status.get("allocatable", {}), status.get("capacity", {})
        for resource in LENT:
            own = resource.rpartition("-")[2]
            unit = Fraction(1, 1000) if own == "cpu" else Fraction(1)
            if quantity(lent.get(resource, 0)) * unit > quantity(capacity.get(own, 0)):
                yield f"{name} lends {lent[resource]} of {resource}, and has {capacity.get(own, 0)} of {own}"


def _exceeded_quotas(moment: Moment) -> Iterator[str]:
    pods: dict[str, list[Manifest]] = defaultdict(list)
    for pod in moment.bound:
        pods[label(pod, QUOTA)].append(pod)
    for quota in moment.objects.get("ElasticQuota", ()):
        yield from _beyond_max(quota, pods[meta(quota)["name"]], moment)


def _exceeded_parents(moment: Moment) -> Iterator[str]:
    quotas = {meta(quota)["name"]: quota for quota in moment.objects.get("ElasticQuota", ())}
    below: dict[str, set[str]] = defaultdict(set)
    for name, quota in quotas.items():
        parent = label(quota, QUOTA_PARENT)
        while parent in quotas and name not in below[parent]:
            below[parent].add(name)
            parent = label(quotas[parent], QUOTA_PARENT)
    for name, children in below.items():
        if name in quotas:
            pods = [pod for pod in moment.bound if label(pod, QUOTA) in children]
            yield from _beyond_max(quotas[name], pods, moment)


def _beyond_max(quota: Manifest, pods: Sequence[Manifest], moment: Moment) -> Iterator[str]:
    used: Amounts = {}
    came: Amounts = {}
    for pod in pods:
        add(used, requests_of(pod["spec"]))
        if moment.is_new(pod) and not annotation(pod, RESERVATION_ALLOCATED):
            add(came, requests_of(pod["spec"]))
    for resource, text in (quota.get("spec", {}).get("max") or {}).items():
        if came.get(resource, 0) and used[resource] > quantity(text):
            yield f"pods of quota {meta(quota)['name']} have {float(used[resource])} of {resource}; its max is {text}"


def _broken_reservations(moment: Moment) -> Iterator[str]:
    by_uid = {uid_of(reservation): reservation for reservation in moment.objects.get("Reservation", ())}
    owners: dict[str, list[Manifest]] = defaultdict(list)
    for pod in moment.new_pods:
        allocated = annotation(pod, RESERVATION_ALLOCATED)
        if not allocated:
            continue
        name, reservation = allocated.get("name"), by_uid.get(allocated["uid"])
        if reservation is None:
            yield f"{key_of(pod)} was allocated from reservation {name}, which does not exist"
            continue
        owners[allocated["uid"]].append(pod)
        if reservation.get("status", {}).get("nodeName") != node_of(pod):
            yield f"{key_of(pod)} is on {node_of(pod)}, and its reservation {name} is not"
        if not any(_owns(owner, pod) for owner in reservation["spec"].get("owners", ())):
            yield f"{key_of(pod)} was allocated from reservation {name}, which has other owners"
        if reservation["spec"].get("allocateOnce", True) and len(owners[allocated["uid"]]) > 1:
            yield f"reservation {name} is for one pod, and several were allocated from it"
    for reserved in moment.reservations:
        came = [pod for pod in reserved.owners if moment.is_new(pod)]
        if not came or reserved.manifest["spec"].get("allocatePolicy") != "Restricted":
            continue
        used = reserved.used
        for resource, amount in reserved.amounts.items():
            if used.get(resource, 0) > amount and any(requests_of(pod["spec"]).get(resource) for pod in came):
                yield f"owners have {float(used[resource])} of {resource} of reservation {reserved.name}"


def _unselected_reservations(moment: Moment) -> Iterator[str]:
    by_uid = {uid_of(reservation): reservation for reservation in moment.objects.get("Reservation", ())}
    for pod in moment.new_pods:
        selector = annotation(pod, RESERVATION_AFFINITY).get("reservationSelector")
        if not selector:
            continue
        allocated = annotation(pod, RESERVATION_ALLOCATED)
        reservation = by_uid.get(allocated.get("uid", ""))
        if not allocated:
            yield f"{key_of(pod)} requires a reservation, and was bound without one"
        elif reservation is not None and any(label(reservation, name) != value for name, value in selector.items()):
            yield f"{key_of(pod)} requires a reservation with {selector}, and has {allocated.get('name')}"


def _owns(owner: Manifest, pod: Manifest) -> bool:
    reference, controller = owner.get("object"), owner.get("controller")
    selected: Mapping[str, str] = (owner.get("labelSelector") or {}).get("matchLabels") or {}
    if reference and reference.get("name") not in (None, meta(pod)["name"]):
        return False
    if controller:
        references = meta(pod).get("ownerReferences") or ()
        if not any(reference.get("name") == controller.get("name") for reference in references):
            return False
    return bool(reference or controller or selected) and all(
        label(pod, name) == value for name, value in selected.items()
    )


PARENT_QUOTAS: Final = Invariant(
    "parent-quotas",
    "Where parents are checked (`enableCheckParentQuota`), pods of all quotas below a quota together stay within its "
    "max.",
    _exceeded_parents,
)
PLACING: Final[tuple[Invariant[Moment], ...]] = (
    Invariant("one-binding", "A pod is bound once, and never to a second node.", _bound_twice),
    Invariant("node-selectors", "A pod is bound only to an existing node that it selects.", _wrong_nodes),
    *NEIGHBOURS,
    Invariant(
        "node-capacity",
        "Pods and reservations on a node together request no more than it had when the last of them came.",
        _overfull_nodes,
    ),
    Invariant("lent-once", "What a node lends to batch and mid pods is given once.", _overlent_nodes),
    Invariant("lent-within-capacity", "A node never lends more than it has.", _lenders_in_debt),
    Invariant("exclusive-cpus", "An exclusive CPU belongs to one pod, or to one reservation.", _shared_cpus),
    Invariant(
        "requested-cpus",
        "A pod has exclusive CPUs only if it requests them, as many as it requests, and whole cores if it requires "
        "them.",
        _wrong_cpus,
    ),
    Invariant(
        "numa-policy", "A pod on a node with the policy SingleNUMANode is on one NUMA node.", _broken_numa_policies
    ),
    Invariant("numa-capacity", "Pods on a NUMA node have no more CPUs than it has.", _overfull_numa_nodes),
    Invariant("device-shares", "Shares of a GPU, RDMA card or FPGA together are at most the whole.", _overfull_devices),
    Invariant(
        "requested-devices",
        "A pod has devices only if it requests them, as many as it requests, and only healthy ones.",
        _wrong_devices,
    ),
    Invariant("virtual-functions", "A virtual function of a card belongs to one pod.", _shared_functions),
    *LINKED_DEVICES,
    Invariant("quotas", "Pods of a quota together stay within its max.", _exceeded_quotas),
    PARENT_QUOTAS,
    Invariant(
        "reservations",
        "Only owners are allocated from a reservation, on its node, one of them if it is for one, and within its "
        "amounts if it is restricted.",
        _broken_reservations,
    ),
    Invariant(
        "reservation-affinity",
        "A pod that requires a reservation is allocated from one that it selects.",
        _unselected_reservations,
    ),
)
