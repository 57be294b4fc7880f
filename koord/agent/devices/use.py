"""What processes use of GPUs, summed up: by device, and by pod and device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koord.agent.devices.nvml import Use
from koord.agent.host.files import Files
from koord.agent.pods import AgentPod
from koord.agent.series import names
from koord.agent.series.samples import Samples


def put(
    samples: Samples,
    uses: Iterable[Use],
    minors: Iterable[int],
    pods: Mapping[str, AgentPod],
    files: Files,
    now_s: float,
) -> None:
    """One sample for each device and for each pod that uses one. An unused device has a sample too."""
    core: dict[tuple[str, int], float] = {("", minor): 0.0 for minor in minors}
    memory: dict[tuple[str, int], float] = dict(core)
    untold: set[int] = set()
    for use in uses:
        owner = owner_of(use.pid, pods, files)
        for key in {("", use.minor), (owner, use.minor)}:
            memory[key] = memory.get(key, 0.0) + use.memory_bytes
            core[key] = core.get(key, 0.0) + (use.sm_percent or 0.0)
        if use.sm_percent is None:
            untold.add(use.minor)
    for (owner, minor), percent in core.items():
        if minor not in untold:
            samples.add(names.gpu_core(minor, owner), now_s, percent)
        samples.add(names.gpu_memory(minor, owner), now_s, memory[owner, minor])


def owner_of(pid: int, pods: Mapping[str, AgentPod], files: Files) -> str:
    """The uid of the pod that a process belongs to, by its cgroup; empty where it is none of ours."""
    try:
        text = files.once(f"proc/{pid}/cgroup").decode(errors="replace")
    except OSError:
        return ""
    for line in text.splitlines():
        path = f"{line.rpartition(':')[2]}/"
        for uid, pod in pods.items():
            if f"/{pod.directory}/" in path:
                return uid
    return ""
