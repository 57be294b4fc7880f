"""What pods wait for memory: direct reclaim, allocation stalls, major faults; and what they use of memory and disks.

Collected every ten seconds. Mainline kernels count how many pages the tasks of a cgroup had to scan themselves (v2) and
how often they read a page back from disk; only Anolis kernels report how long allocations took, in buckets. A missing
kernel file is checked for once in a while, and costs nothing else.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from koord.agent.collect.round import Round
from koord.agent.collect.task_sums import Sum
from koord.agent.host import usage
from koord.agent.host.cgroups import Version
from koord.agent.pods import AgentPod
from koord.agent.series import names
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import qos_dir
from koord.api.kubernetes.words import KubeQoS

GATES: Final = (AgentGate.MEMORY_DELAY_COLLECTOR, AgentGate.INTERFERENCE_DETECTION, AgentGate.INTERFERENCE_CONTROL)


def collect(this: Round) -> None:
    if not this.is_thorough or not any(this.state.gates[gate] for gate in GATES):
        return
    items = _items(this)
    sums = this.waitings.limit_hits
    for uid in [uid for uid in sums if uid not in this.state.pods]:
        del sums[uid]
    for uid, pod in this.state.pods.items():
        _delays(this, pod)
        try:
            this.put_slowly(names.pod_charged_bytes(uid), usage.memory_charged(this.cgroups, pod.directory))
            this.put_slowly(names.pod_io_bytes(uid), usage.io_bytes(this.cgroups, pod.directory))
        except FileNotFoundError:
            pass
        for item in items:
            _stalls(this, uid, pod.directory, item)


def _delays(this: Round, pod: AgentPod) -> None:
    uid = pod.uid
    try:
        delays = usage.memory_delays(this.cgroups, pod.directory)
    except FileNotFoundError:
        return
    hits = {pod.directory: delays.limit_hits, **_inside(this, pod)}
    this.put_slowly(names.pod_major_faults(uid), delays.major_faults)
    this.put_slowly(names.pod_memory_limit_hits(uid), this.waitings.limit_hits.setdefault(uid, Sum()).add(hits))
    if delays.direct_reclaim is not None:
        this.put_slowly(names.pod_direct_reclaim(uid), delays.direct_reclaim)


def _inside(this: Round, pod: AgentPod) -> dict[str, int]:
    """How often what is inside of a pod met a limit of its own: on v2 the pod's events have that. On v1 a limit is
    counted where it is met, and containers meet theirs."""
    hits = dict[str, int]()
    if this.cgroups.version is Version.V1:
        for container in pod.containers:
            if container.directory:
                for below in (container.directory, *this.cgroups.below(container.directory, "memory")):
                    with suppress(FileNotFoundError):
                        hits[below] = usage.limit_hits(this.cgroups, below)
    return hits


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
        counts = usage.stalls(this.cgroups, directory, item)
    except FileNotFoundError:
        return
    for bucket, count in counts.items():
        this.put_slowly(names.pod_stalls(uid, item, bucket), count)
