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
        found = wanted(requests, _NOBODY)
    except InvalidRequest:
        return None
    gpu = None if found is None else found.of(GPU)
    cpu, memory = asked.get("cpu", 0), -(-asked.get("memory", 0) // MIB)
    if gpu is None:
        return PodShape(cpu, memory)
    each = gpu.amounts
    percent = max(each.get(CORE, 0), each.get(RATIO, 0))
    milli = percent * WHOLE // 100
    if MEMORY in each and device_bytes:
        milli = max(milli, -(-each[MEMORY] * WHOLE // device_bytes))
    return PodShape(cpu, memory, max(1, gpu.count), min(max(milli, 1), WHOLE), models_of(spec))


def models_of(spec: PodSpec) -> frozenset[str]:
    """The GPU models that a pod can be on; none: all."""
    chosen = spec.node_selector.get(names.LABEL_GPU_MODEL)
    found = frozenset() if chosen is None else frozenset({chosen})
    affinity = None if spec.affinity is None else spec.affinity.node_affinity
    required = None if affinity is None else affinity.required_during_scheduling_ignored_during_execution
    if required is None:
        return found
    by_term = []
    for term in required.node_selector_terms:
        listed = [
            frozenset(each.values)
            for each in term.match_expressions
            if each.key == names.LABEL_GPU_MODEL and each.operator == "In"
        ]
        if not listed:
            return found
        by_term.append(frozenset.intersection(*listed))
    models = frozenset[str]().union(*by_term)
    return models & found or found if found else models
