"""Core scheduling: whose tasks may run beside each other on the threads of a core.

Under policy coreSched, containers of one group have one cookie. Pods are one group, unless they say theirs by label
(`core-sched-group-id`) or want to be alone (`core-sched-policy: exclusive`, which wins over a group); those of a
class that expels (coreExpeller) are apart from the rest. A pod of policy none, of class SYSTEM, or of a class that is
off has no cookie, and no sandbox has. A class with schedIdle is in the idle class: its pods' directories have
`cpu.idle`, and no shares. Not the directory of all of them, where kubelet writes shares: the kernel would refuse
them, and kubelet not start.

Looked at every ten seconds and when something changes: a task born in between has its parent's cookie.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from koord.agent import wish
from koord.agent.executor.write import Spot
from koord.agent.hooks.group_identity import pod_settings
from koord.agent.host.core_sched import Cookies
from koord.agent.host.core_sched_knobs import CORE_COOKIE
from koord.agent.host.knobs import CPU_IDLE
from koord.agent.host.tasks import tasks_in
from koord.agent.pods import AgentContainer, AgentPod
from koord.agent.qos.decision import NOTHING, Problem, StrategyDecision
from koord.agent.qos.strategy import Reader, Sight, Strategy, Turn
from koord.agent.state import NodeState
from koord.agent.wish import Wish
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.words import KubeQoS
from koord.api.protocol.annotations import pod_qos
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.priority import QoSClass

NAME: Final = "core_sched"
EXPELLER: Final = "-expeller"

Groups = Mapping[str, tuple[tuple[AgentPod, AgentContainer], ...]]
"""By the group's name, its containers that run or did."""


def group_of(state: NodeState, pod: AgentPod) -> str | None:
    """None for a pod without a cookie."""
    settings = pod_settings(state, pod) if pod.labelled_qos is not QoSClass.SYSTEM else None
    if settings is None or settings.cpu_qos is None or not settings.cpu_qos.enable:
        return None
    policy = _policy(pod)
    if policy == "none":
        return None
    name = pod.uid if policy == "exclusive" else pod_qos.CORE_SCHED_GROUP_ID.read(pod.meta)
    return f"{name}{EXPELLER}" if settings.cpu_qos.core_expeller else name


def _policy(pod: AgentPod) -> str:
    """A policy that does not exist counts as none given: the pod's group still counts."""
    try:
        return pod_qos.CORE_SCHED_POLICY.read(pod.meta)
    except AnnotationError:
        return ""


def groups(state: NodeState) -> Groups:
    if not is_in_force(state):
        return {}
    members_of_group: dict[str, tuple[tuple[AgentPod, AgentContainer], ...]] = {}
    for pod in state.pods.values():
        name = group_of(state, pod) if pod.is_present else None
        if name is not None:
            members_of_group[name] = (
                *members_of_group.get(name, ()),
                *((pod, container) for container in pod.containers if container.directory),
            )
    return {name: members for name, members in members_of_group.items() if members}


def is_in_force(state: NodeState) -> bool:
    policies = state.qos.policies
    return policies is not None and policies.cpu_policy == "coreSched" and not state.is_colocation_off


def decide(state: NodeState, cookies: Mapping[str, int], absence: str) -> StrategyDecision:
    """`cookies`: by group. `absence`: why there are none."""
    wishes = [*_idle(state)]
    for name, members in state.once(groups).items():
        why = f"core scheduling group {name!r}"
        for pod, container in members if name in cookies else ():
            target = wish.container(pod.uid, container.name)
            wishes.append(Wish(target, CORE_COOKIE, str(cookies[name]), NAME, why, is_watched=True))
    problems = (Problem("keep pods apart on the threads of a core", absence),) if absence else ()
    return StrategyDecision(tuple(wishes), problems=problems)


def _idle(state: NodeState) -> Iterator[Wish]:
    """Never guaranteed pods."""
    for pod in state.pods.values():
        settings = pod_settings(state, pod) if pod.kube_qos is not KubeQoS.GUARANTEED and pod.is_present else None
        own = settings.cpu_qos if settings else None
        if own is not None and own.enable and own.sched_idle == 1:
            yield Wish(wish.pod(pod.uid), CPU_IDLE, 1, NAME, f"schedIdle of {pod.qos}")


class Memory(NamedTuple):
    state: NodeState | None = None
    cookies: Mapping[str, int] = MappingProxyType({})
    "By group."


class CookieReading(NamedTuple):
    cookies: Mapping[str, int] = MappingProxyType({})
    absence: str = ""
    is_due: bool = True


def _look(reader: Reader, memory: Memory) -> CookieReading:
    wanted = reader.state.once(groups)
    if not wanted:
        if memory.cookies:
            reader.cgroups.cookies.release(())
        return CookieReading()
    if memory.state is reader.state and not reader.is_thorough:
        return CookieReading(is_due=False)
    cookies = reader.cgroups.cookies
    if absence := cookies.absence():
        return CookieReading(absence=absence)
    chosen: dict[str, int] = {}
    for name in wanted:
        held = memory.cookies.get(name)
        if held is None or held not in cookies.held():
            held = _taken_over(reader, cookies, wanted[name], chosen) or cookies.make()
        chosen[name] = held
    cookies.release(chosen.values())
    return CookieReading(chosen)


def _taken_over(
    reader: Reader,
    cookies: Cookies,
    members: tuple[tuple[AgentPod, AgentContainer], ...],
    chosen: Mapping[str, int],
) -> int | None:
    """The cookie that an agent before this one gave the group; the first task that has one counts."""
    for _, container in members:
        entry = reader.ledger.get(Spot(CORE_COOKIE.name, container.directory)) if reader.ledger is not None else None
        if entry is None:
            continue
        try:
            tasks = list(tasks_in(reader.cgroups, container.directory))
        except FileNotFoundError:
            continue
        for task in tasks:
            cookie = cookies.of(task)
            if cookie and str(cookie) in entry.wrote and cookie not in chosen.values() and cookies.hold(cookie, task):
                return cookie
    return None


def _decide(sight: Sight, seen: CookieReading, memory: Memory) -> Turn[Memory]:
    state = sight.state
    if state.slo is None or not seen.is_due:
        return Turn(None, memory)
    if not is_in_force(state):
        return Turn(NOTHING, Memory(state))
    return Turn(decide(state, seen.cookies, seen.absence), Memory(state, seen.cookies))


STRATEGY: Final[Strategy[Memory, CookieReading]] = Strategy(NAME, (AgentGate.CORE_SCHED,), Memory(), _decide, _look)
