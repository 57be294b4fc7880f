"""From wishes to the files of cgroups: where each target lies on this node.

A target that has no cgroup yet, and a setting that no file has (a variable of the environment), are passed over: they
are for the runtime that creates the container. A setting of processes goes to each process of its container.

On cgroup v1 a directory cannot have fewer CPUs, or a smaller quota, than one below it. So what lies in a pod's
directory and is not in the pod's status (its sandbox, init containers) gets the pod's CPUs. And kubelet and
runtimes, which write what a pod's spec says into containers, must find room for that above, or containers do not start:
a pod's quota stays at least as large as that of each container's spec, and beside kubelet's static CPU manager, which
gives containers CPUs by its own idea, only containers are kept to fewer. On v2 a directory may say more than it gets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from koord.agent import wish as targets
from koord.agent.executor.write import Write
from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.convert import UNLIMITED, quota_of_milli
from koord.agent.host.knobs import CPU_QUOTA, CPUSET_CPUS, OOM_SCORE_ADJ, Knob, Value
from koord.agent.host.processes import process_of
from koord.agent.host_applications import directory_of, host_applications
from koord.agent.pods import AgentPod
from koord.agent.state import NodeState
from koord.agent.wish import Level, Target, Wish
from koord.api.kubernetes.cgroup import qos_dir
from koord.api.kubernetes.words import KubeQoS


def places(state: NodeState) -> Mapping[Target, str]:
    """The directories of all that has one; the same until the state changes."""
    return state.once(_places)


def _places(state: NodeState) -> Mapping[Target, str]:
    directories = {targets.NODE: ""}
    directories |= {targets.band(qos): qos_dir(qos, state.driver) for qos in KubeQoS}
    for app in host_applications(state.slo):
        directories[targets.application(app.name)] = directory_of(app, state.driver)
    for uid, pod in state.pods.items():
        directories[targets.pod(uid)] = pod.directory
        directories |= {
            targets.container(uid, container.name): container.directory
            for container in pod.containers
            if container.directory
        }
    return directories


class Delivery:
    """Wishes come in tuples, and many stay the very same objects from round to round: then so do their writes."""

    def __init__(self, cgroups: Cgroups) -> None:
        self._cgroups = cgroups
        self._known: dict[int, tuple[object, list[Write]]] = {}
        "Of the round before, by identity of the wish or the tuple, which is kept so that nothing else can have it."
        self._known_for: NodeState | None = None

    def writes(self, wishes: Iterable[tuple[Wish, ...]], state: NodeState) -> list[Write]:
        """In the order of the wishes; of two on one file the later counts."""
        delivered = self._known if state is self._known_for else {}
        kept: dict[int, tuple[object, list[Write]]] = {}
        writes: list[Write] = []
        for together in wishes:
            before = delivered.get(id(together))
            if before is not None and before[0] is together:
                kept[id(together)] = before
                writes += before[1]
            else:
                writes += self._anew(together, state, delivered, kept)
        self._known, self._known_for = kept, state
        return writes

    def _anew(
        self,
        wishes: tuple[Wish, ...],
        state: NodeState,
        delivered: Mapping[int, tuple[object, list[Write]]],
        kept: dict[int, tuple[object, list[Write]]],
    ) -> list[Write]:
        writes: list[Write] = []
        stays = True
        for wish in wishes:
            before = delivered.get(id(wish))
            if before is None or before[0] is not wish:
                before = (wish, self._writes(wish, state))
            setting = wish.setting
            # Where these go changes without the state: to processes, and to what lies in a pod's directory.
            if setting is CPUSET_CPUS or setting is OOM_SCORE_ADJ:
                stays = False
            else:
                kept[id(wish)] = before
            writes += before[1]
        if stays:
            kept[id(wishes)] = (wishes, writes)
        return writes

    def _writes(self, wish: Wish, state: NodeState) -> list[Write]:
        knob, target, where = wish.setting, wish.target, places(state)
        directory = target.name if target.level is Level.CGROUP else where.get(target)
        if directory is None or not isinstance(knob, Knob):
            return []
        if knob.is_of_processes:
            return list(self._of_processes(wish, knob, directory))
        own = Write(knob, directory, wish.value, wish.by, wish.why, own=wish.own, is_watched=wish.is_watched)
        if self._cgroups.version is Version.V2:
            return [own]
        if knob.name == CPU_QUOTA.name and target.level is Level.POD:
            return [replace(own, value=_with_room(own.value, state.pods[target.name]))]
        if knob is not CPUSET_CPUS:
            return [own]
        if state.kubelet.cpu_policy == "static" and _holds_containers(directory, target, state):
            return []
        if target.level is not Level.POD:
            return [own]
        wished = {*where.values()}
        below = [f"{directory}/{name}" for name in self._cgroups.children(directory, "cpuset")]
        return [own, *(replace(own, directory=directory) for directory in below if directory not in wished)]

    def _of_processes(self, wish: Wish, knob: Knob, directory: str) -> Iterator[Write]:
        assert isinstance(wish.value, int)
        try:
            pids = self._cgroups.processes(directory)
        except FileNotFoundError:
            return
        for pid in pids:
            process = process_of(self._cgroups.files, pid)
            if process is not None:
                # Processes come and go, and change their own.
                yield Write(knob, directory, wish.value, wish.by, wish.why, is_watched=True, process=process)


def _with_room(quota: Value, pod: AgentPod) -> Value:
    """A pod's quota, at least that of the container that may have most by its spec."""
    if not isinstance(quota, int) or quota == UNLIMITED:
        return quota
    return max(quota, quota_of_milli(pod.largest_cpu_limit))


def _holds_containers(directory: str, target: Target, state: NodeState) -> bool:
    """Whether it is a pod's, or that of a QoS class."""
    if target.level is not Level.CGROUP:
        return target.level in (Level.BAND, Level.POD)
    return directory.rpartition("/")[0] == qos_dir(KubeQoS.BEST_EFFORT, state.driver)
