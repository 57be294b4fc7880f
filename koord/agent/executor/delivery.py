"""From wishes to the files of cgroups: where each target lies on this node.

A target that has no cgroup yet, and a setting that no file has (a variable of the environment), are passed over: they
are for whoever makes the container. A setting of processes goes to each process of its container. On cgroup v1 a
directory cannot have fewer CPUs than one below it, so what lies in a pod's directory without being told of (its
sandbox, containers that made it ready) goes along with it. On v2 those have none of their own, and follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from koord.agent import wish as targets
from koord.agent.executor.write import Write
from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.knobs import CPUSET_CPUS, Knob
from koord.agent.host.processes import process_of
from koord.agent.host_applications import directory_of
from koord.agent.state import NodeState
from koord.agent.wish import Level, Target, Wish
from koord.api.kubernetes.cgroup import qos_dir
from koord.api.kubernetes.words import KubeQoS


def places(state: NodeState) -> Mapping[Target, str]:
    """The directories of all that has one; the same until the state changes."""
    return state.once(_places)


def _places(state: NodeState) -> Mapping[Target, str]:
    found = {targets.NODE: ""}
    found |= {targets.band(qos): qos_dir(qos, state.driver) for qos in KubeQoS}
    for app in state.slo.host_applications if state.slo else ():
        found[targets.application(app.name)] = directory_of(app, state.driver)
    for uid, pod in state.pods.items():
        found[targets.pod(uid)] = pod.directory
        found |= {targets.container(uid, each.name): each.directory for each in pod.containers if each.directory}
    return found


def writes(wishes: Iterable[Wish], state: NodeState, cgroups: Cgroups) -> Iterator[Write]:
    """In the order of the wishes; of two on one file the later counts."""
    where, is_v1 = places(state), cgroups.version is Version.V1
    with_own: dict[str, list[str]] = {}
    wishes = list(wishes)
    told = {where.get(each.target) for each in wishes if each.setting is CPUSET_CPUS} if is_v1 else set()
    for wish in wishes:
        knob, target = wish.setting, wish.target
        directory = target.name if target.level is Level.CGROUP else where.get(target)
        if directory is None or not isinstance(knob, Knob):
            continue
        assert not isinstance(wish.value, str), "only a container to come has text set"
        if knob.is_of_processes:
            yield from _process_writes(wish, knob, directory, cgroups)
            continue
        yield Write(knob, directory, wish.value, wish.by, wish.why, own=wish.own, is_watched=wish.is_watched)
        if is_v1 and knob is CPUSET_CPUS and target.level is Level.POD:
            if directory not in with_own:
                with_own[directory] = [f"{directory}/{name}" for name in cgroups.children(directory, "cpuset")]
            for below in with_own[directory]:
                if below not in told:
                    yield Write(knob, below, wish.value, wish.by, wish.why)


def _process_writes(wish: Wish, knob: Knob, directory: str, cgroups: Cgroups) -> Iterator[Write]:
    assert isinstance(wish.value, int)
    try:
        pids = cgroups.processes(directory)
    except FileNotFoundError:
        return
    for pid in pids:
        process = process_of(cgroups.files, pid)
        if process is not None:
            # Processes come and go, and change their own.
            yield Write(knob, directory, wish.value, wish.by, wish.why, is_watched=True, process=process)
