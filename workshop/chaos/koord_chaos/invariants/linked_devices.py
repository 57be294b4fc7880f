"""Devices that belong together: GPUs that are linked, and network cards close to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from koord_chaos.invariants.invariant import Invariant
from koord_chaos.invariants.manifests import (
    GPU_PARTITION,
    JOINT,
    PARTITION_TABLE,
    Manifest,
    annotation,
    by_key,
    devices,
    key_of,
    node_of,
)
from koord_chaos.invariants.moment import Moment


def _torn_gpus(moment: Moment) -> Iterator[str]:
    reports = by_key(moment.objects.get("Device", ()))
    for pod in moment.new_pods:
        minors = sorted(minor for _, minor in devices(pod, "gpu"))
        if not minors or annotation(pod, GPU_PARTITION).get("allocatePolicy") != "Restricted":
            continue
        report = reports.get(node_of(pod))
        table = annotation(report, PARTITION_TABLE) if report is not None else {}
        linked = [sorted(partition["minors"]) for partition in table.get(str(len(minors))) or ()]
        if table and minors not in linked:
            yield f"{key_of(pod)} requires linked GPUs and has {minors} of {node_of(pod)}, which links {linked}"


def _distant_cards(moment: Moment) -> Iterator[str]:
    reports = by_key(moment.objects.get("Device", ()))
    for pod in moment.new_pods:
        joint = annotation(pod, JOINT)
        report = reports.get(node_of(pod))
        if report is None or joint.get("requiredScope") != "SamePCIe":
            continue
        switches = _switches(report)
        leading, *others = joint["deviceTypes"]
        wanted = {switches.get(place) for place in devices(pod, leading)}
        for kind in others:
            there = {switches.get(place) for place in devices(pod, kind)}
            if there and wanted != there:
                yield f"{key_of(pod)} has {leading} and {kind} devices on different PCIe switches of {node_of(pod)}"


def _switches(report: Manifest) -> dict[tuple[str, int], Any]:
    """The PCIe switch of each device."""
    return {
        (unit["type"], unit["minor"]): (unit.get("topology") or {}).get("pcieID")
        for unit in report["spec"].get("devices") or ()
    }


LINKED_DEVICES: Final[tuple[Invariant[Moment], ...]] = (
    Invariant("linked-gpus", "A pod that requires linked GPUs gets a set from the table of its node.", _torn_gpus),
    Invariant(
        "near-devices",
        "A pod that requires its GPUs and network cards on the same PCIe switch gets them so.",
        _distant_cards,
    ),
)
