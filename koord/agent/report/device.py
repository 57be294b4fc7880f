"""The Device of this node: its GPUs and RDMA cards, which the scheduler allocates to pods.

Labels and annotations of other writers are not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import msgspec

from koord.agent.devices.device_infos import device_annotations, device_infos, device_labels
from koord.agent.devices.pci import place_of
from koord.agent.report.report import Facts, Report
from koord.api.configuration.features import AgentGate
from koord.api.kinds import DEVICES
from koord.api.kubernetes.meta import OwnerReference
from koord.api.protocol import names
from koord.api.protocol.annotations.device import GPU_PARTITION_POLICY, GPU_PARTITIONS
from koord.api.protocol.crd.device import Device

EVERY_S: Final = 3.0
_LABELS: Final = (
    names.LABEL_GPU_VENDOR,
    names.LABEL_GPU_MODEL,
    names.LABEL_GPU_DRIVER_VERSION,
)
_ANNOTATIONS: Final = (GPU_PARTITIONS.key,)


def _change(facts: Facts, stored: Device | None) -> Mapping[str, Any] | None:
    inventory = facts.state.devices
    if inventory is None:
        return None
    before = stored.spec.devices if stored else ()
    place = partial(place_of, facts.files, facts.state.topology)
    devices = device_infos(inventory, place, before, facts.at)
    if stored is None and not devices:
        return None
    labels = device_labels(inventory)
    spec = {"devices": msgspec.to_builtins(devices)}
    if stored is None:
        owner = facts.state.node.metadata
        owners = [OwnerReference("v1", "Node", owner.name, owner.uid, controller=True, block_owner_deletion=True)]
        meta = {
            "labels": labels,
            "annotations": device_annotations(inventory),
            "ownerReferences": msgspec.to_builtins(owners),
        }
        return {"metadata": meta, "spec": spec}
    new_labels = _difference(labels, stored.metadata.labels, (*_LABELS, *_own_policy(labels)))
    new_annotations = _difference(device_annotations(inventory), stored.metadata.annotations, _ANNOTATIONS)
    if devices == before and not new_labels and not new_annotations:
        return None
    return {"metadata": {"labels": new_labels, "annotations": new_annotations}, "spec": spec}


def _own_policy(labels: Mapping[str, str]) -> tuple[str, ...]:
    """The policy's key if a vendor's file defines it; otherwise the policy belongs to the administrator."""
    return (GPU_PARTITION_POLICY.key,) if GPU_PARTITION_POLICY.key in labels else ()


def _difference(labels: Mapping[str, str], has: Mapping[str, str], own: tuple[str, ...]) -> dict[str, str | None]:
    return {key: labels.get(key) for key in own if labels.get(key) != has.get(key)}


REPORT: Final = Report(
    "devices",
    DEVICES,
    _change,
    every_s=lambda stored: EVERY_S,
    idle_s=EVERY_S,
    gates=(AgentGate.ACCELERATORS, AgentGate.RDMA_DEVICES),
)
