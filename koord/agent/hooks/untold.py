"""Directories in a pod's that its status does not tell of: its sandbox, and containers that made it ready.

On cgroup v1 a directory cannot have fewer CPUs than one below it, so these have to have their pod's. On v2 they have
none of their own, and follow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from koord.agent.executor.write import Write
from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.knobs import CPUSET_CPUS
from koord.agent.state import NodeState


def cpus_of_untold(cgroups: Cgroups, state: NodeState, writes: Collection[Write]) -> Iterator[Write]:
    """What goes along with the CPUs that pods are to have."""
    if cgroups.version is Version.V2:
        return
    told = {write.directory: write for write in writes if write.knob is CPUSET_CPUS}
    for pod in state.pods.values():
        if (of_pod := told.get(pod.directory)) is None:
            continue
        for name in cgroups.children(pod.directory, "cpuset"):
            directory = f"{pod.directory}/{name}"
            if directory not in told:
                yield replace(of_pod, directory=directory)
