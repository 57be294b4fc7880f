"""What vendors' own device plugins want to read on a pod that gets GPUs, by the gate DevicePluginAdaption.

Every pod says when it was bound and which GPUs it has. Shares that HAMi isolates name their node. The vendor, as the
Device object's label has it, decides the rest: Huawei's plugin reads NPUs or a template, Cambricon's one profile of a
single card, MetaX's a list of cards with compute and memory.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.protocol import names
from koord.scheduler.framework.exact_check import Objection
from koord.scheduler.plugins.devices.grants import Grant, Granted
from koord.scheduler.plugins.devices.inventory import Machine
from koord.scheduler.plugins.devices.requests import CORE, GPU, MEMORY

HAMI: Final = "HAMi-core"
_ASCEND_310P_DUO: Final = "Ascend-310P3-300I-DUO"
_PROFILE_UNIT: Final = 256 << 20
"""Cambricon's plugin counts memory in these."""
_MI: Final = 1 << 20
_LEAST_MEMORY: Final = {"cambricon": _PROFILE_UNIT, "metax": _MI}
"""By vendor, what its plugin can give out of a card."""


def annotated(granted: Granted, machine: Machine, now_s: float) -> dict[str, str]:
    """For a pod with these devices."""
    gpus = granted.of(GPU)
    if not gpus:
        return {}
    now_ns = str(int(now_s * 1e9))
    minors = ",".join(str(grant.minor) for grant in gpus)
    said: dict[str, str] = {names.ANNOTATION_BIND_TIMESTAMP: now_ns, names.ANNOTATION_GPU_MINORS: minors}
    match machine.labels.get(names.LABEL_GPU_VENDOR, ""):
        case "huawei":
            said |= _huawei(gpus, machine, now_ns)
        case "cambricon":
            said |= _cambricon(gpus)
        case "metax":
            cards = [{"uuid": gpu.id, "compute": _of(gpu, CORE), "vRam": _of(gpu, MEMORY) // _MI} for gpu in gpus]
            said[names.ANNOTATION_METAX_GPU_DEVICES_ALLOCATED] = json.dumps([cards], separators=(",", ":"))
    return said


def cannot_tell(gpus: Sequence[Grant], machine: Machine) -> Objection | None:
    """Why these GPUs cannot be expressed to a vendor's device plugin; None if they can."""
    vendor = machine.labels.get(names.LABEL_GPU_VENDOR, "")
    least = _LEAST_MEMORY.get(vendor)
    if least is None or not gpus:
        return None
    if vendor == "cambricon" and len(gpus) > 1:
        return Objection(f"node(s) with the device plugin of {vendor}, which gives a pod one card", resolvable=False)
    if not all(_of(gpu, CORE) for gpu in gpus):
        return Objection(f"node(s) with the device plugin of {vendor}, which needs {CORE}", resolvable=False)
    if any(_of(gpu, MEMORY) < least for gpu in gpus):
        least_memory = f"{least // _MI}Mi of {MEMORY}"
        return Objection(
            f"node(s) with the device plugin of {vendor}, which gives at least {least_memory}", resolvable=False
        )
    return None


def labelled(pod: ObjectMeta, node: str) -> dict[str, str]:
    """For a pod that gets GPUs of a node."""
    isolated = pod.labels.get(names.LABEL_GPU_ISOLATION_PROVIDER) == HAMI
    return {names.LABEL_HAMI_VGPU_NODE: node} if isolated else {}


def _huawei(gpus: tuple[Grant, ...], machine: Machine, now_ns: str) -> dict[str, str]:
    said: dict[str, str] = {names.ANNOTATION_PREDICATE_TIME: now_ns}
    if machine.labels.get(names.LABEL_GPU_MODEL) == _ASCEND_310P_DUO:
        said[names.ANNOTATION_HUAWEI_ASCEND_310P] = ",".join(f"Ascend310P-{grant.minor}" for grant in gpus)
        return said
    one = gpus[0]
    minors = ",".join(str(grant.minor) for grant in gpus)
    said[names.ANNOTATION_HUAWEI_NPU_CORE] = f"{one.minor}-{one.template}" if one.template else minors
    return said


def _cambricon(gpus: tuple[Grant, ...]) -> dict[str, str]:
    """Its plugin knows profiles of one card alone."""
    (one,) = gpus
    profile = f"{one.minor}_{_of(one, CORE)}_{_of(one, MEMORY) // _PROFILE_UNIT}"
    return {names.ANNOTATION_CAMBRICON_DSMLU_ASSIGNED: "false", names.ANNOTATION_CAMBRICON_DSMLU_PROFILE: profile}


def _of(grant: Grant, name: str) -> int:
    return dict(grant.amounts).get(name, 0)
