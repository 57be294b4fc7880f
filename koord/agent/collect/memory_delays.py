"""What pods wait for memory: direct reclaim, allocation stalls, major faults; and what they use of memory and disks.

Every ten seconds. Mainline tells of a cgroup how many pages its tasks had to look at themselves (v2) and how often they
read a page back from disk; how long allocations took, in buckets, is told by Anolis kernels alone. What the kernel
lacks is asked for once in a while, and costs nothing else.
"""

from __future__ import annotations

from typing import Final

from koord.agent.collect.round import Round
from koord.agent.host import usage
from koord.agent.series import names
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import qos_dir
from koord.api.kubernetes.words import KubeQoS

GATES: Final = (AgentGate.MEMORY_DELAY_COLLECTOR, AgentGate.INTERFERENCE_DETECTION, AgentGate.INTERFERENCE_CONTROL)


def collect(this: Round) -> None:
    if not this.is_thorough or not any(this.state.gates[gate] for gate in GATES):
        return
    items = _items(this)
    for uid, pod in this.state.pods.items():
        _delays(this, uid, pod.directory)
        try:
            this.put_slowly(names.pod_charged_bytes(uid), usage.memory_charged(this.cgroups, pod.directory))
            this.put_slowly(names.pod_io_bytes(uid), usage.io_bytes(this.cgroups, pod.directory))
        except FileNotFoundError:
            pass
        for item in items:
            _stalls(this, uid, pod.directory, item)


def _delays(this: Round, uid: str, directory: str) -> None:
    try:
        found = usage.memory_delays(this.cgroups, directory)
    except FileNotFoundError:
        return
    this.put_slowly(names.pod_major_faults(uid), found.major_faults)
    this.put_slowly(names.pod_memory_limit_hits(uid), found.limit_hits)
    if found.direct_reclaim is not None:
        this.put_slowly(names.pod_direct_reclaim(uid), found.direct_reclaim)


def _items(this: Round) -> tuple[str, ...]:
    """The histograms that this kernel keeps."""
    pods = qos_dir(KubeQoS.GUARANTEED, this.state.driver)
    return tuple(
        item
        for item in usage.STALL_ITEMS
        if this.cgroups.files.exists(this.cgroups.name("memory", pods, f"memory.{item}_latency"))
    )


def _stalls(this: Round, uid: str, directory: str, item: str) -> None:
    try:
        found = usage.stalls(this.cgroups, directory, item)
    except FileNotFoundError:
        return
    for bucket, count in found.items():
        this.put_slowly(names.pod_stalls(uid, item, bucket), count)
