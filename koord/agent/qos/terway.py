"""Network by Terway: the node's bandwidth, that of each tier, and what pods may have, in files that Terway reads.

Terway counts in bytes a second, and knows three tiers by number: 0 the system, 1 services, 2 best effort. Whatever is
not said is 0, which is no limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from koord.agent import wish
from koord.agent.host import terway_knobs as knobs
from koord.agent.pods import AgentPod
from koord.agent.qos.decision import NOTHING, Problem, StrategyDecision
from koord.agent.qos.network_classes import bandwidth_bps, below_request, pod_limits, total_bps
from koord.agent.state import NodeState
from koord.agent.wish import Wish
from koord.api.kubernetes.words import KubeQoS
from koord.api.protocol.crd.resource_qos import ResourceQOS
from koord.api.protocol.priority import QoSClass

NAME: Final = "terway"
_DOING: Final = "tell Terway about bandwidth"
_TIERS: Final[Mapping[str, int]] = {
    QoSClass.SYSTEM: 0,
    QoSClass.LSE: 1,
    QoSClass.LSR: 1,
    QoSClass.LS: 1,
    QoSClass.BE: 2,
}
_NET_CLS: Final = "/sys/fs/cgroup/net_cls"


class PodBandwidth(msgspec.Struct, frozen=True, rename="camel"):
    """Bytes a second."""

    ingress_bandwidth: int
    egress_bandwidth: int


class TerwayPod(msgspec.Struct, frozen=True, rename="camel"):
    pod_name: str
    pod_namespace: str
    pod_uid: str = msgspec.field(name="podUID")
    prio: int
    cgroup_dir: str
    qos_config: PodBandwidth


class Unfit(Exception):
    """Bandwidth that cannot be given: more than the node has, or a limit below its request."""


def decide(state: NodeState, is_installed: bool) -> StrategyDecision | None:
    if state.slo is None:
        return None
    policies = state.qos.policies
    if state.is_colocation_off or policies is None or policies.net_qos_policy != "terway-qos":
        return NOTHING
    if not is_installed:
        why = f"netQOSPolicy is terway-qos, and Terway is not installed on this node: there is no /{knobs.HOME}"
        return StrategyDecision(problems=(Problem(_DOING, why),))
    try:
        of_node = node_text(state)
    except Unfit as error:
        return StrategyDecision(problems=(Problem(_DOING, str(error)),))
    why = "netQOSPolicy is terway-qos"
    return StrategyDecision(
        (
            Wish(wish.NODE, knobs.NODE, of_node, NAME, why),
            Wish(wish.NODE, knobs.PODS, state.once(pods_text), NAME, why),
        )
    )


def node_text(state: NodeState) -> str:
    """Raises Unfit for a class whose bandwidth cannot be given."""
    total = total_bps(state)
    lines = {"hw_tx_bps_max": total // 8, "hw_rx_bps_max": total // 8}
    for tier, name, settings in (("l1", "lsClass", state.qos.ls_class), ("l2", "beClass", state.qos.be_class)):
        lines |= {f"offline_{tier}_{what}": bytes_ for what, bytes_ in _tier(name, settings, total).items()}
    return "".join(f"{name} {value}\n" for name, value in lines.items())


def _tier(name: str, settings: ResourceQOS | None, total: int) -> dict[str, int]:
    own = settings.network_qos if settings is not None else None
    if own is None or not own.enable:
        return dict.fromkeys(("tx_bps_min", "tx_bps_max", "rx_bps_min", "rx_bps_max"), 0)
    if fault := below_request(name, own, "egress", total) or below_request(name, own, "ingress", total):
        raise Unfit(fault)
    asked = {
        "egressRequest": own.egress_request,
        "egressLimit": own.egress_limit,
        "ingressRequest": own.ingress_request,
        "ingressLimit": own.ingress_limit,
    }
    limits = []
    for field, value in asked.items():
        bps = bandwidth_bps(value, total)
        if bps > total:
            raise Unfit(f"{name}.networkQOS.{field} is {value}, and the node has {total} bit/s in all")
        limits.append(bps // 8)
    return dict(zip(("tx_bps_min", "tx_bps_max", "rx_bps_min", "rx_bps_max"), limits, strict=True))


def pods_text(state: NodeState) -> str:
    pods = {uid: _pod(pod) for uid, pod in sorted(state.pods.items()) if pod.is_present}
    return msgspec.json.encode(pods).decode()


def _pod(pod: AgentPod) -> TerwayPod:
    limits = pod_limits(pod)
    tier = _TIERS.get(pod.labelled_qos, 2 if pod.kube_qos is KubeQoS.BEST_EFFORT else 1)
    own = PodBandwidth(limits.ingress_bps // 8, limits.egress_bps // 8)
    return TerwayPod(pod.meta.name, pod.meta.namespace, pod.uid, tier, f"{_NET_CLS}/{pod.directory}", own)
