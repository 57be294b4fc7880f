"""Pods that come and go: how much GPU they wait for, in koord's simulator.

The trace's days are brought to some hours and repeated until pods would use the share of all GPUs that the load says.
The scheduler's core places them under a policy of its plugin DeviceShare. A pod that fits nowhere waits, as in a
cluster.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from koord.sim.jobs import policies_of
from koord.sim.minutes import NodeColumns
from koord.sim.mix import build
from koord.sim.outcome import Totals
from koord.sim.packing import MIB
from koord.sim.run import run
from koord.sim.scenario import from_data
from koord.sim.traces import trace as traces
from koord_bench.gpu_packing.traces import Trace

HOURS: Final = 12
QUICK_HOURS: Final = 3
WARM_UP: Final = 3
"""The part of the hours that no figure counts: a third."""


def totals_of(trace: Trace, packing: str, load: float, hours: int) -> Totals:
    """The same pods come at the same times under every policy."""
    scenario = from_data(
        {
            "name": trace.name,
            "duration": f"{hours}h",
            "warmUp": f"{hours // WARM_UP}h",
            "policy": "none",
            "packing": packing,
            "batch": {"trace": "openb", "load": load, "start": "0s"},
        },
        "gpu-packing",
    )
    cluster = build(scenario, [], _simulated(trace), trace.seed)
    return run(scenario, cluster, policies_of(scenario), seed=trace.seed).totals


def _simulated(trace: Trace) -> traces.Trace:
    """The trace as the simulator reads it."""
    nodes = NodeColumns(
        names=tuple(node.name for node in trace.nodes),
        cpu_milli=np.array([node.cpu_milli for node in trace.nodes], np.int64),
        memory_bytes=np.array([node.memory_mib * MIB for node in trace.nodes], np.int64),
        pool=("",) * len(trace.nodes),
    )
    pods = tuple(traces.GpuPod(pod.name, *pod.shape, pod.begins_s, pod.ends_s) for pod in trace.pods)
    return traces.Trace(nodes=nodes, gpu_nodes=tuple(trace.nodes), gpu_pods=pods)
