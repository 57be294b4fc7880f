"""GPU and RDMA totals of a node: the sum over the healthy devices that its Device object lists.

Without a healthy device the node shows none. A resource that no device lists is left unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from koord.api.configuration.slo_config import NodeSettings
from koord.api.kubernetes.resources import amounts
from koord.api.protocol import names
from koord.manager.figures import Term, figure
from koord.manager.node_state import GPU, RDMA, NodeState
from koord.manager.plugin import PluginOutcome

GPU_NAME: Final = "GPUDeviceResource"
RDMA_NAME: Final = "RDMADeviceResource"
PERCENT_PER_DEVICE: Final = 100
LABELS: Final = (names.LABEL_GPU_VENDOR, names.LABEL_GPU_MODEL, names.LABEL_GPU_DRIVER_VERSION)
_NVIDIA: Final = ("", "nvidia")
_COUNTED: Final = frozenset(GPU)


def gpu(*, shared: bool) -> Callable[[NodeState, NodeSettings, float], PluginOutcome]:
    """The plugin. `shared` also tells gpu.shared, by the gate EnableSyncGPUSharedResource."""

    def calculate(state: NodeState, settings: NodeSettings, now_s: float) -> PluginOutcome:
        device = state.device
        healthy = [info for info in device.devices if info.type == "gpu" and info.health] if device is not None else []
        if device is None or not healthy:
            return PluginOutcome(GPU_NAME, deleted=GPU, note="the node has no healthy GPU")
        totals: dict[str, int] = {}
        for gpu_device in healthy:
            for name, amount in amounts(gpu_device.resources).items():
                totals[name] = totals.get(name, 0) + amount
        if device.labels.get(names.LABEL_GPU_VENDOR, "") in _NVIDIA:
            totals[names.RESOURCE_GPU] = totals.get(names.RESOURCE_GPU_CORE, 0)
        if shared:
            totals[names.RESOURCE_GPU_SHARED] = PERCENT_PER_DEVICE * len(healthy)
        why = f"sum over {len(healthy)} healthy of {sum(info.type == 'gpu' for info in device.devices)}"
        return PluginOutcome(
            GPU_NAME,
            tuple(
                figure(name, (Term("start", "devices", totals[name], why),))
                for name in sorted(totals)
                if name in _COUNTED
            ),
            labels={label: device.labels[label] for label in LABELS if label in device.labels},
        )

    return calculate


def rdma(state: NodeState, settings: NodeSettings, now_s: float) -> PluginOutcome:
    devices = state.device.devices if state.device is not None else ()
    healthy = sum(device.type == "rdma" and device.health for device in devices)
    if not healthy:
        return PluginOutcome(RDMA_NAME, deleted=RDMA, note="the node has no healthy RDMA device")
    term = Term("start", "devices", PERCENT_PER_DEVICE * healthy, f"100 for each of {healthy} healthy")
    return PluginOutcome(RDMA_NAME, (figure(names.RESOURCE_RDMA, (term,)),))
