"""The shape of a pod, from its requests and the GPU models that its spec allows.

koordinator.sh/gpu-core: 30, gpu-memory-ratio: 50       500 milli of one device: the larger of the two
nvidia.com/gpu: 2                                       two whole devices
nodeSelector {node.koordinator.sh/gpu-model: A100}      that model alone; so does a required node affinity by `In`
"""

from __future__ import annotations

from typing import Final

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import PodSpec
from koord.api.protocol import names
from koord.scheduler.plugins.devices.requests import CORE, GPU, MEMORY, RATIO, InvalidRequest, wanted
from koord.scheduler.plugins.packing.shapes import WHOLE, PodShape
from koord.scheduler.state.pods import Amounts

MIB: Final = 1 << 20
_NOBODY: Final = ObjectMeta()


def shape_of(requests: Amounts, spec: PodSpec, device_bytes: int) -> PodShape | None:
    """None if the pod's device request is invalid. `device_bytes`: the memory of a usual GPU, which turns memory in
    bytes into a share."""
    asked = dict(requests)
    try:
        gpu_request = wanted(requests, _NOBODY)
    except InvalidRequest:
        return None
    gpu = None if gpu_request is None else gpu_request.of(GPU)
    cpu, memory = asked.get("cpu", 0), -(-asked.get("memory", 0) // MIB)
    if gpu is None:
        return PodShape(cpu, memory)
    per_device = gpu.amounts
    percent = max(per_device.get(CORE, 0), per_device.get(RATIO, 0))
    milli = percent * WHOLE // 100
    if MEMORY in per_device and device_bytes:
        milli = max(milli, -(-per_device[MEMORY] * WHOLE // device_bytes))
    return PodShape(cpu, memory, max(1, gpu.count), min(max(milli, 1), WHOLE), models_of(spec))


def models_of(spec: PodSpec) -> frozenset[str]:
    """The GPU models that a pod can be on; none: all."""
    chosen = spec.node_selector.get(names.LABEL_GPU_MODEL)
    allowed = frozenset() if chosen is None else frozenset({chosen})
    affinity = None if spec.affinity is None else spec.affinity.node_affinity
    required = None if affinity is None else affinity.required_during_scheduling_ignored_during_execution
    if required is None:
        return allowed
    by_term = []
    for term in required.node_selector_terms:
        listed = [
            frozenset(requirement.values)
            for requirement in term.match_expressions
            if requirement.key == names.LABEL_GPU_MODEL and requirement.operator == "In"
        ]
        if not listed:
            return allowed
        by_term.append(frozenset.intersection(*listed))
    models = frozenset[str]().union(*by_term)
    return models & allowed or allowed if allowed else models
