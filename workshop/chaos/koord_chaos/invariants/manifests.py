"""Reads manifests: the annotations, amounts and labels that promises are about."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, TypeAlias

Manifest: TypeAlias = Mapping[str, Any]
Objects: TypeAlias = Mapping[str, Sequence[Manifest]]
"""By kind, as in `kubectl get -o json`. A kind that is missing has no objects."""
Amounts: TypeAlias = dict[str, Fraction]
Place: TypeAlias = tuple[str, int]
"""A device of a node: its type and its minor number."""

QOS: Final = "koordinator.sh/qosClass"
RESOURCE_SPEC: Final = "scheduling.koordinator.sh/resource-spec"
RESOURCE_STATUS: Final = "scheduling.koordinator.sh/resource-status"
DEVICE_ALLOCATED: Final = "scheduling.koordinator.sh/device-allocated"
RESERVATION_ALLOCATED: Final = "scheduling.koordinator.sh/reservation-allocated"
RESERVATION_AFFINITY: Final = "scheduling.koordinator.sh/reservation-affinity"
CPU_TOPOLOGY: Final = "node.koordinator.sh/cpu-topology"
NUMA_POLICY: Final = "node.koordinator.sh/numa-topology-policy"
GANG: Final = "gang.scheduling.koordinator.sh/name"
GANG_LEAST: Final = "gang.scheduling.koordinator.sh/min-available"
GANG_GROUPS: Final = "gang.scheduling.koordinator.sh/groups"
POD_GROUP: Final = "pod-group.scheduling.sigs.k8s.io"
QUOTA: Final = "quota.scheduling.koordinator.sh/name"
QUOTA_PARENT: Final = "quota.scheduling.koordinator.sh/parent"
GPU_PARTITION: Final = "scheduling.koordinator.sh/gpu-partition-spec"
PARTITION_TABLE: Final = "scheduling.koordinator.sh/gpu-partitions"
JOINT: Final = "scheduling.koordinator.sh/device-joint-allocate"
GPU_SHARES: Final = ("koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio")
GPU_REQUESTS: Final = (*GPU_SHARES, "koordinator.sh/gpu", "koordinator.sh/gpu-memory", "nvidia.com/gpu")
LENT: Final = (
    "kubernetes.io/batch-cpu",
    "kubernetes.io/batch-memory",
    "kubernetes.io/mid-cpu",
    "kubernetes.io/mid-memory",
)
LOWER: Final = (range(3000, 4000), range(5000, 6000), range(7000, 8000))
"""Bands of priorities below prod: free, batch, mid."""
_SUFFIXES: Final = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "k": 10**3, "M": 10**6, "G": 10**9}


def quantity(text: str | int | float) -> Fraction:
    """`500m`, `2Gi`, `4`."""
    written = str(text)
    if written.endswith("m"):
        return Fraction(written[:-1]) / 1000
    for suffix, factor in _SUFFIXES.items():
        if written.endswith(suffix):
            return Fraction(written[: -len(suffix)]) * factor
    return Fraction(written)


def cpus_of(text: str) -> frozenset[int]:
    """`0-3,8`."""
    cpus: set[int] = set()
    for part in text.strip().split(",") if text.strip() else ():
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def meta(manifest: Manifest) -> Manifest:
    metadata: Manifest = manifest["metadata"]
    return metadata


def uid_of(manifest: Manifest) -> str:
    return str(meta(manifest).get("uid", ""))


def key_of(manifest: Manifest) -> str:
    """`namespace/name`, or the name."""
    metadata = meta(manifest)
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def annotation(manifest: Manifest, name: str) -> Any:
    """The JSON of an annotation; an empty object if it is missing."""
    return json.loads((meta(manifest).get("annotations") or {}).get(name) or "{}")


def label(manifest: Manifest, name: str) -> str:
    return str((meta(manifest).get("labels") or {}).get(name, ""))


def node_of(pod: Manifest) -> str:
    return str(pod["spec"].get("nodeName") or "")


def is_over(pod: Manifest) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def priority_of(pod: Manifest) -> int:
    return int(pod["spec"].get("priority") or 0)


def requests_of(spec: Manifest) -> Amounts:
    """What a pod requests: its containers and sidecars together, or more where an init container needs more."""
    amounts: Amounts = defaultdict(Fraction)
    for container in spec["containers"]:
        add(amounts, _requested(container))
    sidecars: Amounts = defaultdict(Fraction)
    most: Amounts = defaultdict(Fraction)
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            add(sidecars, _requested(container))
            continue
        for name, amount in _requested(container).items():
            most[name] = max(most[name], amount + sidecars[name])
    add(amounts, sidecars)
    for name, amount in most.items():
        amounts[name] = max(amounts[name], amount)
    add(amounts, {name: quantity(text) for name, text in (spec.get("overhead") or {}).items()})
    return amounts


def _requested(container: Manifest) -> Amounts:
    return {name: quantity(text) for name, text in (container.get("resources", {}).get("requests") or {}).items()}


def add(total: Amounts, more: Mapping[str, Fraction]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Fraction(0)) + amount


def exclusive_cpus(manifest: Manifest) -> frozenset[int]:
    return cpus_of(annotation(manifest, RESOURCE_STATUS).get("cpuset") or "")


def requests_exclusive_cpus(pod: Manifest) -> bool:
    """A priority outside of all bands counts as prod here."""
    return label(pod, QOS) in ("LSR", "LSE") and not any(priority_of(pod) in band for band in LOWER)


def devices(manifest: Manifest, *types: str) -> dict[Place, Amounts]:
    """What a pod or reservation has of devices."""
    allocated = annotation(manifest, DEVICE_ALLOCATED)
    return {
        (kind, device["minor"]): {name: quantity(text) for name, text in (device.get("resources") or {}).items()}
        for kind in types or allocated
        for device in allocated.get(kind) or ()
    }


def virtual_functions(manifest: Manifest) -> list[tuple[str, int, int]]:
    """Type, minor number of the card, and minor number of the function."""
    return [
        (kind, device["minor"], function.get("minor", 0))
        for kind, allocated in annotation(manifest, DEVICE_ALLOCATED).items()
        for device in allocated or ()
        for function in (device.get("extension") or {}).get("vfs") or ()
    ]


def gang_of(pod: Manifest) -> str:
    name = (meta(pod).get("annotations") or {}).get(GANG) or label(pod, POD_GROUP)
    return f"{meta(pod).get('namespace', '')}/{name}" if name else ""


def by_key(manifests: Iterable[Manifest]) -> dict[str, Manifest]:
    return {key_of(manifest): manifest for manifest in manifests}
