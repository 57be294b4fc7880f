"""Network: how much of the node's bandwidth each tier may send, and what single pods may send and get.

    class  who                    priority  at least                   at most
    1:1    all                              totalNetworkBandwidth      the same
    1:2    the system, all else   1         what is left               all
    1:3    LSE, LSR, LS pods      2         lsClass egressRequest      lsClass egressLimit
    1:4    BE pods                3         beClass egressRequest      beClass egressLimit
    1:N    a pod by annotation    its tier  its egressLimit            the same

on the interface of the default route. A pod's packets are known by its address, those of a pod on the host's network by
its cgroup. A pod's own limits hold in its network namespace as well, so also for what stays on the node. Classes are
about what is sent: there is no holding back of what others send to the node.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple
from zlib import crc32

from koord.agent import wish
from koord.agent.host.cgroups import Cgroups
from koord.agent.host.knobs import NET_CLASS
from koord.agent.host.network.knobs import (
    EGRESS_LIMIT,
    INGRESS_LIMIT,
    OURS,
    ROOT,
    address_of,
    class_of,
    class_text,
    is_free,
    limit_text,
    root_of,
)
from koord.agent.host.network.look import NetworkSeen, Ports, look
from koord.agent.host.network.queues import handle_of
from koord.agent.pods import AgentPod
from koord.agent.qos.decision import NOTHING, Problem, StrategyDecision
from koord.agent.state import NodeState
from koord.agent.wish import Wish
from koord.api.protocol.annotations import pod_qos
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.resource_qos import NetworkQOSCfg, ResourceQOS
from koord.api.protocol.priority import QoSClass
from koord.api.text.quantity import QuantityError
from koord.api.text.quantity import value as quantity_value
from koord.api.text.whole_number import natural_number

NAME: Final = "network"
ALL, SYSTEM, SERVICES, BEST_EFFORT = "1:1", "1:2", "1:3", "1:4"
_PRIORITY: Final = {SYSTEM: 1, SERVICES: 2, BEST_EFFORT: 3}
_TIERS: Final = {
    QoSClass.SYSTEM: SYSTEM,
    QoSClass.LSE: SERVICES,
    QoSClass.LSR: SERVICES,
    QoSClass.LS: SERVICES,
    QoSClass.BE: BEST_EFFORT,
}
LEAST_BPS: Final = 8000
"""A class must have some bandwidth of its own, were it next to none."""
_FIRST_OWN, _OWN = 0x100, 0xFE00
"""The first minor number of pods' own classes, and their count."""


class PodLimits(NamedTuple):
    """Bit/s; 0 is no limit."""

    ingress_bps: int = 0
    egress_bps: int = 0


class Tier(NamedTuple):
    rate_bps: int
    ceil_bps: int


def bandwidth_bps(value: int | str | None, total_bps: int) -> int:
    """A number, or a text with a percent sign, is a share of all; another text bit/s. What is neither is nothing."""
    if value is None:
        return 0
    text = str(value)
    if isinstance(value, int) or (text.endswith("%") and text[:-1].isdigit()):
        return total_bps * (natural_number(text.removesuffix("%"), 100) or 0) // 100
    try:
        return max(quantity_value(value), 0)
    except QuantityError:
        return 0


def tiers(services: NetworkQOSCfg | None, best_effort: NetworkQOSCfg | None, total_bps: int) -> Mapping[str, Tier]:
    """What each class has at least and at most. What is asked for beyond the total is cut: services go first."""
    least_services = min(_least(services, total_bps), total_bps)
    least_best_effort = min(_least(best_effort, total_bps), total_bps - least_services)
    rest = total_bps - least_services - least_best_effort
    return {
        ALL: Tier(total_bps, total_bps),
        SYSTEM: Tier(max(rest, LEAST_BPS), total_bps),
        SERVICES: _tier(services, least_services, total_bps),
        BEST_EFFORT: _tier(best_effort, least_best_effort, total_bps),
    }


def below_request(name: str, settings: NetworkQOSCfg | None, way: Literal["egress", "ingress"], total_bps: int) -> str:
    """The fault of a class whose limit is below its request; empty if it is valid. 0 is no limit."""
    if settings is None:
        return ""
    is_sent = way == "egress"
    request = settings.egress_request if is_sent else settings.ingress_request
    limit = settings.egress_limit if is_sent else settings.ingress_limit
    if not 0 < bandwidth_bps(limit, total_bps) < min(bandwidth_bps(request, total_bps), total_bps):
        return ""
    return f"{name}.networkQOS.{way}Limit is {limit}, below {way}Request ({request}); valid is at least as much"


def _least(settings: NetworkQOSCfg | None, total_bps: int) -> int:
    return bandwidth_bps(settings.egress_request, total_bps) if settings is not None else 0


def _tier(settings: NetworkQOSCfg | None, least_bps: int, total_bps: int) -> Tier:
    most = bandwidth_bps(settings.egress_limit, total_bps) if settings is not None else 0
    rate = max(least_bps, LEAST_BPS)
    return Tier(rate, max(min(most or total_bps, total_bps), rate))


def pod_limits(pod: AgentPod) -> PodLimits:
    try:
        own = pod_qos.NETWORK_QOS.read(pod.meta)
    except AnnotationError:
        own = None
    if own is None:
        return PodLimits()
    return PodLimits(_bps(own.ingress_limit), _bps(own.egress_limit))


def _bps(quantity: str | float | None) -> int:
    try:
        return 0 if quantity is None else max(quantity_value(quantity), 0)
    except QuantityError:
        return 0


def limited(state: NodeState) -> Mapping[str, PodLimits]:
    """By uid, pods that have limits of their own."""
    limits_of_pods = {uid: pod_limits(pod) for uid, pod in state.pods.items() if pod.is_present}
    return {uid: limits_of_pod for uid, limits_of_pod in limits_of_pods.items() if limits_of_pod != PodLimits()}


def own_classes(uids: Mapping[str, PodLimits]) -> Mapping[str, str]:
    """A class for each pod with a limit on what it sends: by its uid, so that it has the same one after a restart."""
    taken: set[int] = set()
    classes = {}
    for uid in sorted(uid for uid, limits_of_pod in uids.items() if limits_of_pod.egress_bps):
        minor = crc32(uid.encode()) % _OWN
        while minor in taken:
            minor = (minor + 1) % _OWN
        taken.add(minor)
        classes[uid] = f"1:{_FIRST_OWN + minor:x}"
    return classes


def is_asked(state: NodeState) -> bool:
    policies = state.qos.policies
    return policies is None or policies.net_qos_policy in (None, "tc")


def _enabled(settings: ResourceQOS | None) -> NetworkQOSCfg | None:
    own = settings.network_qos if settings is not None else None
    return own if own is not None and own.enable else None


def decide(state: NodeState, seen: NetworkSeen) -> StrategyDecision | None:
    if state.slo is None:
        return None
    if state.is_colocation_off or not is_asked(state):
        return NOTHING
    wishes: list[Wish] = []
    problems: list[Problem] = []
    services, best_effort = _enabled(state.qos.ls_class), _enabled(state.qos.be_class)
    own = state.once(limited)
    if services is not None or best_effort is not None:
        fault = _fault(state, seen, services, best_effort)
        if fault:
            problems.append(Problem("divide the network by class", fault))
        else:
            total = total_bps(state)
            wishes += _classes(seen.interface, tiers(services, best_effort, total))
            wishes += _pods(state, seen, own, total)
    for uid, limits in own.items():
        _limit(state.pods[uid], limits, seen.ports.get(uid), wishes, problems)
    return StrategyDecision(tuple(wishes), problems=tuple(problems))


def _fault(
    state: NodeState, seen: NetworkSeen, services: NetworkQOSCfg | None, best_effort: NetworkQOSCfg | None
) -> str:
    total = total_bps(state)
    if total < LEAST_BPS:
        return "system-config has no totalNetworkBandwidth for this node; valid is bit/s, such as 10G"
    if not seen.interface:
        return seen.why
    if not is_free(seen.queue):
        return f"{seen.interface} has a root queue of another program ({seen.queue}), which is not changed"
    of_classes = (("lsClass", services), ("beClass", best_effort))
    return next(filter(None, (below_request(name, settings, "egress", total) for name, settings in of_classes)), "")


def total_bps(state: NodeState) -> int:
    """The node's bandwidth; 0 if it is not configured."""
    strategy = state.slo.system_strategy if state.slo is not None else None
    return _bps(strategy.total_network_bandwidth) if strategy is not None else 0


def _classes(interface: str, wanted: Mapping[str, Tier]) -> Iterator[Wish]:
    why = "the network of each class"
    yield Wish(wish.NODE, root_of(interface), OURS, NAME, why)
    for name, tier in wanted.items():
        parent, priority = (ROOT, 0) if name == ALL else (ALL, _PRIORITY[name])
        text = class_text(parent, priority, tier.rate_bps, tier.ceil_bps)
        yield Wish(wish.NODE, class_of(interface, name), text, NAME, why)


def _pods(state: NodeState, seen: NetworkSeen, own: Mapping[str, PodLimits], total_bps: int) -> Iterator[Wish]:
    mine = own_classes(own)
    tiers_of = {uid: _TIERS.get(pod.labelled_qos) for uid, pod in state.pods.items() if pod.is_present}
    if any(tier is not None and state.pods[uid].is_on_host_network for uid, tier in tiers_of.items()):
        for address in seen.by_cgroup:
            yield Wish(wish.NODE, address_of(address), SYSTEM, NAME, "packets of pods on the host's network")
    for uid, tier in tiers_of.items():
        if tier is None:
            continue
        pod, name = state.pods[uid], tier
        if uid in mine:
            name, rate = mine[uid], min(max(own[uid].egress_bps, LEAST_BPS), total_bps)
            text = class_text(ALL, _PRIORITY[tier], rate, rate)
            yield Wish(wish.NODE, class_of(seen.interface, name), text, NAME, f"the annotation of {pod.key}")
        if not pod.is_on_host_network and _is_address(pod.address):
            yield Wish(wish.NODE, address_of(pod.address), name, NAME, f"packets of {pod.key}")
        yield Wish(wish.pod(uid), NET_CLASS, handle_of(name), NAME, f"packets of {pod.key}")
        for container in pod.containers:
            yield Wish(wish.container(uid, container.name), NET_CLASS, handle_of(name), NAME, f"packets of {pod.key}")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _limit(pod: AgentPod, limits: PodLimits, ports: Ports | None, wishes: list[Wish], problems: list[Problem]) -> None:
    if ports is None or not any(container.is_running for container in pod.containers):
        return
    for what, knob, bps, port in (
        ("sends", EGRESS_LIMIT, limits.egress_bps, ports.egress),
        ("gets", INGRESS_LIMIT, limits.ingress_bps, ports.ingress),
    ):
        doing = f"limit what it {what}"
        if not bps:
            continue
        if not port.queue:
            problems.append(Problem(doing, port.why, pod))
        elif not is_free(port.queue):
            why = f"its interface has a root queue of another program ({port.queue}), which is not changed"
            problems.append(Problem(doing, why, pod))
        else:
            wishes.append(Wish(wish.pod(pod.uid), knob, limit_text(bps), NAME, "the pod's annotation"))


def look_at(cgroups: Cgroups, state: NodeState, before: NetworkSeen, now_s: float) -> NetworkSeen:
    if state.slo is None or not is_asked(state):
        return NetworkSeen()
    return look(cgroups, {uid: state.pods[uid].directory for uid in state.once(limited)}, before.ports, now_s)
