"""Cache and bandwidth: what each QoS class may use of the last-level cache and of memory bandwidth, and what pods may
that have a share of their own by annotation.

A class whose settings are on has a group of resctrl (`LSR`, `LS`, `BE`), and so has a pod with its own share
(`koordlet-UID`). All tasks of a pod are in its group, those of its sandbox too. Looked at every ten seconds and when
something changes; tasks that are born in between are where their parents are. A machine has few groups: classes come
first, then pods that have theirs already, then others by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from koord.agent import wish
from koord.agent.host import resctrl
from koord.agent.host.files import Files
from koord.agent.host.resctrl import OF_POD, Resctrl, Schemata, Unit
from koord.agent.host.resctrl_knobs import RESCTRL_TASKS, group
from koord.agent.pods import AgentPod
from koord.agent.qos import cache_shares
from koord.agent.qos.cache_shares import ShareError
from koord.agent.qos.decision import NOTHING, Problem, StrategyDecision
from koord.agent.qos.strategy import Reader, Sight, Strategy, Turn
from koord.agent.state import NodeState
from koord.agent.wish import Wish
from koord.api.configuration.features import AgentGate
from koord.api.protocol.annotations import pod_qos
from koord.api.protocol.annotations.pod_qos import PodResctrl
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.resource_qos import ResctrlQOSCfg
from koord.api.protocol.priority import QoSClass

NAME: Final = "resctrl"
_OF_CLASS: Final = {QoSClass.LSE: "LSR", QoSClass.LSR: "LSR", QoSClass.LS: "LS", QoSClass.BE: "BE"}
_DOING: Final = "share the cache and memory bandwidth"


class ResctrlSettings(NamedTuple):
    classes: Mapping[str, ResctrlQOSCfg]
    "By group, of those that are switched on."
    pods: Mapping[str, PodResctrl]
    "By uid, of those with a share of their own."


def asked(state: NodeState) -> ResctrlSettings:
    qos, classes = state.qos, dict[str, ResctrlQOSCfg]()
    if state.gates[AgentGate.RDT_RESCTRL]:
        for name, settings in (("LSR", qos.lsr_class), ("LS", qos.ls_class), ("BE", qos.be_class)):
            own = settings.resctrl_qos if settings else None
            if own is not None and own.enable:
                classes[name] = own
    return ResctrlSettings(classes, dict(_pods(state)) if state.gates[AgentGate.RESCTRL] else {})


def _pods(state: NodeState) -> Iterator[tuple[str, PodResctrl]]:
    for uid, pod in state.pods.items():
        if not pod.is_present or not resctrl.is_own(f"{OF_POD}{uid}"):
            continue
        try:
            own = pod_qos.RESCTRL.read(pod.meta)
        except AnnotationError:
            continue
        if own is not None:
            yield uid, own


def decide(state: NodeState, machine: Resctrl | None, absence: str) -> StrategyDecision:
    """`absence`: why there is no `machine`."""
    wanted = state.once(asked)
    if machine is None:
        return StrategyDecision(problems=(Problem(_DOING, absence),))
    shares: dict[str, Schemata] = {}
    problems = [*_unknown(machine, wanted)]
    for name, settings in wanted.classes.items():
        shares[name] = cache_shares.of_class(machine, settings)
    for uid, own in wanted.pods.items():
        for lack in cache_shares.not_had(machine, own):
            problems.append(Problem("give it its share", lack, state.pods[uid]))
        try:
            shares[f"{OF_POD}{uid}"] = cache_shares.of_pod(machine, own)
        except ShareError as error:
            problems.append(Problem("give it a share of the cache", str(error), state.pods[uid]))
    given, left = _room(machine, [name for name, share in shares.items() if share])
    for name in left:
        pod = state.pods.get(name.removeprefix(OF_POD))
        why = f"this machine has no more than {machine.most_groups} groups of resctrl, and all are in use"
        problems.append(Problem(f"make group {name}", why, pod))
    wishes = [*_groups(shares, given), *_members(state, given)]
    return StrategyDecision(tuple(wishes), problems=tuple(problems))


def _room(machine: Resctrl, wanted: Iterable[str]) -> tuple[list[str], list[str]]:
    """The groups that the machine has room for, and those that it has not. Others' groups are theirs; of the agent's
    own, unused groups are removed before new ones are made."""
    room = machine.most_groups - sum(not resctrl.is_own(name) for name in machine.groups)

    def rank(name: str) -> tuple[bool, bool, str]:
        return name.startswith(OF_POD), name not in machine.groups, name

    ranked = sorted(wanted, key=rank)
    return ranked[: max(room, 0)], ranked[max(room, 0) :]


def _unknown(machine: Resctrl, wanted: ResctrlSettings) -> Iterator[Problem]:
    """Of the classes' settings, what percentages cannot say of this machine."""
    bandwidth, classes = machine.bandwidth, wanted.classes.values()
    if machine.cache is None and any(_is_part(settings) for settings in classes):
        yield Problem("share the last-level cache", "this machine does not divide it")
    if any((settings.mba_percent or 100) < 100 for settings in classes):
        if bandwidth is None:
            yield Problem("share memory bandwidth", "this machine does not divide it")
        elif bandwidth.unit is Unit.MBPS:
            why = "resctrl is mounted with mba_MBps and counts MB/s: percentages need a mount without that option"
            yield Problem("share memory bandwidth", why)


def _is_part(settings: ResctrlQOSCfg) -> bool:
    return (settings.cat_range_start_percent, settings.cat_range_end_percent) not in ((None, None), (0, 100))


def _groups(shares: Mapping[str, Schemata], given: list[str]) -> Iterator[Wish]:
    for name in given:
        why = "the pod's annotation" if name.startswith(OF_POD) else f"cache and bandwidth of {name}"
        yield Wish(wish.NODE, group(name), resctrl.write(shares[name]), NAME, why)


def _members(state: NodeState, given: list[str]) -> Iterator[Wish]:
    for uid, pod in state.pods.items():
        name = _group_of(pod, given)
        if name and pod.is_present:
            yield Wish(wish.pod(uid), RESCTRL_TASKS, name, NAME, f"tasks of {pod.key}", is_watched=True)


def _group_of(pod: AgentPod, given: list[str]) -> str:
    for name in (f"{OF_POD}{pod.uid}", _OF_CLASS.get(pod.qos, "")):
        if name in given:
            return name
    return ""


def group_ahead(state: NodeState, pod: AgentPod, files: Files) -> tuple[Wish, ...]:
    """The group of a pod that is about to be made, where it has one of its own and there is room."""
    if pod.uid not in state.once(asked).pods or state.is_colocation_off:
        return ()
    machine, own = resctrl.read(files, state.topology.vendor), group(f"{OF_POD}{pod.uid}")
    return tuple(group_wish for group_wish in decide(state, machine, "").wishes if group_wish.setting is own)


def class_ahead(state: NodeState, pod: AgentPod, files: Files) -> str:
    """The group in which a pod's containers start; empty while the group does not exist, which runtimes refuse."""
    wanted = state.once(asked)
    if state.is_colocation_off or not (wanted.classes or wanted.pods):
        return ""
    name = _group_of(pod, [*wanted.classes, *(f"{OF_POD}{uid}" for uid in wanted.pods)])
    return name if name and files.exists(f"{resctrl.MOUNT}/{name}/schemata") else ""


class ResctrlReading(NamedTuple):
    machine: Resctrl | None = None
    absence: str = ""
    is_due: bool = True


def _look(reader: Reader, memory: NodeState | None) -> ResctrlReading:
    wanted = reader.state.once(asked)
    if not (wanted.classes or wanted.pods):
        return ResctrlReading()
    if memory is reader.state and not reader.is_thorough:
        return ResctrlReading(is_due=False)
    files = reader.cgroups.files
    return ResctrlReading(resctrl.read(files, reader.state.topology.vendor), resctrl.absence(files))


def _decide(sight: Sight, seen: ResctrlReading, memory: NodeState | None) -> Turn[NodeState | None]:
    state = sight.state
    if state.slo is None or not seen.is_due:
        return Turn(None, memory)
    wanted = state.once(asked)
    if state.is_colocation_off or not (wanted.classes or wanted.pods):
        return Turn(NOTHING, state)
    return Turn(decide(state, seen.machine, seen.absence), state)


STRATEGY: Final[Strategy[NodeState | None, ResctrlReading]] = Strategy(
    NAME, (AgentGate.RDT_RESCTRL, AgentGate.RESCTRL), None, _decide, _look
)
