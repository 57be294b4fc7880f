"""Block I/O: the share of each disk that best effort may use, what single pods may, and when a disk counts as busy.

Best effort as a whole has limits and weights. A pod that is labelled with a QoS class can have its own, by annotation.
The cost model and latency goals of a disk are set on the root cgroup, for all pods. Settings that are not configured
are not touched, and settings that no longer are return to their previous values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from koord.agent import wish
from koord.agent.host import disks
from koord.agent.host.files import Files
from koord.agent.host.io_knobs import AUTO, MOST, USUAL_WEIGHT, io_cost_model, io_cost_qos, io_limit, io_weight
from koord.agent.pods import AgentPod
from koord.agent.qos.decision import NOTHING, Problem, StrategyDecision
from koord.agent.qos.strategy import Reader, Sight, Strategy, Turn
from koord.agent.state import NodeState
from koord.agent.wish import Target, Wish
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.words import KubeQoS
from koord.api.protocol.annotations import pod_qos
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.resource_qos import BlkIOQOS, BlockCfg, IOCfg, ResourceQOS
from koord.api.protocol.priority import QoSClass

NAME: Final = "block_io"
USUAL_LATENCY_US: Final = 3000
USUAL_PERCENT: Final = 95


class Block(NamedTuple):
    """A disk, by the name in the configuration."""

    kind: str
    name: str
    pod: str = ""
    "The pod that the volume belongs to."


Disks = Mapping[Block, tuple[str, ...]]
"""The numbers of the disks that are meant; those that are not there are missing."""


def decide(state: NodeState, disks_of: Disks) -> StrategyDecision | None:
    if state.slo is None:
        return None
    if state.is_colocation_off or not any(_asked(state)):
        return NOTHING
    return StrategyDecision(tuple(_wishes(state, disks_of)), problems=tuple(_unknown(state, disks_of)))


def _unknown(state: NodeState, disks_of: Disks) -> Iterator[Problem]:
    """Disks that are not there. A volume is, once its pod runs."""
    for settings in (*_of_class(state.qos.be_class), *_of_class(state.qos.cgroup_root)):
        yield from (_missing(block) for block in settings.blocks if _block(block, "") not in disks_of)
    for pod, settings in _pods(state):
        if any(container.is_running for container in pod.containers):
            missing = (block for block in settings.blocks if _block(block, pod.uid) not in disks_of)
            yield from (_missing(block, pod) for block in missing)


def _missing(block: BlockCfg, pod: AgentPod | None = None) -> Problem:
    words = {"volumegroup": "volume group", "podvolume": "volume of the pod on a disk"}
    kind = words.get(block.type or "", "block device")
    return Problem(f"limit I/O of {block.name!r}", f"this node has no such {kind}", pod)


def _wishes(state: NodeState, disks_of: Disks) -> Iterator[Wish]:
    for settings in _of_class(state.qos.be_class):
        yield from _limits(wish.band(KubeQoS.BEST_EFFORT), settings, disks_of, "block I/O of best effort")
    for pod, settings in _pods(state):
        yield from _limits(wish.pod(pod.uid), settings, disks_of, "the pod's annotation", pod.uid)
    for settings in _of_class(state.qos.cgroup_root):
        for block, disk in _each(settings, disks_of):
            why = "how the node's disks are measured"
            yield Wish(wish.NODE, io_cost_qos(disk), cost_qos(block.io_cfg), NAME, why)
            yield Wish(wish.NODE, io_cost_model(disk), cost_model(block.io_cfg), NAME, why)


def cost_qos(settings: IOCfg) -> str:
    """As the kernel wants it: how many percent of reads and writes must be how fast."""
    read_percent, write_percent = settings.read_latency_percent, settings.write_latency_percent
    return (
        f"enable=1 ctrl=user"
        f" rpct={USUAL_PERCENT if read_percent is None else read_percent}"
        f" rlat={settings.read_latency or USUAL_LATENCY_US}"
        f" wpct={USUAL_PERCENT if write_percent is None else write_percent}"
        f" wlat={settings.write_latency or USUAL_LATENCY_US}"
    )


def cost_model(settings: IOCfg) -> str:
    """The user's own where it is whole; the kernel's otherwise."""
    own = {
        "rbps": settings.model_read_bps,
        "rseqiops": settings.model_read_seq_iops,
        "rrandiops": settings.model_read_rand_iops,
        "wbps": settings.model_write_bps,
        "wseqiops": settings.model_write_seq_iops,
        "wrandiops": settings.model_write_rand_iops,
    }
    if not settings.enable_user_model or None in own.values():
        return AUTO
    return f"ctrl=user model=linear {' '.join(f'{key}={value}' for key, value in own.items())}"


def _limits(target: Target, settings: BlkIOQOS, disks_of: Disks, why: str, pod: str = "") -> Iterator[Wish]:
    for block, disk in _each(settings, disks_of, pod):
        own = block.io_cfg
        amounts = {"rbps": own.read_bps, "wbps": own.write_bps, "riops": own.read_iops, "wiops": own.write_iops}
        for what, amount in amounts.items():
            # What is more than the kernel counts to is no limit to it, either.
            if amount and amount < MOST[what]:
                yield Wish(target, io_limit(what, disk), amount, NAME, why)
        weight = own.io_weight_percent
        if weight is not None and weight != USUAL_WEIGHT:
            yield Wish(target, io_weight(disk), weight, NAME, why)


def _each(settings: BlkIOQOS, disks_of: Disks, pod: str = "") -> Iterator[tuple[BlockCfg, str]]:
    for block in settings.blocks:
        for disk in disks_of.get(_block(block, pod), ()):
            yield block, disk


def _block(block: BlockCfg, pod: str) -> Block:
    kind = block.type or "device"
    return Block(kind, block.name, pod if kind == "podvolume" else "")


def _of_class(settings: ResourceQOS | None) -> Iterator[BlkIOQOS]:
    own = settings.blkio_qos if settings else None
    if own is not None and own.enable:
        yield own


def _pods(state: NodeState) -> Iterator[tuple[AgentPod, BlkIOQOS]]:
    for pod in state.pods.values():
        if not pod.is_active or pod.labelled_qos is QoSClass.NONE:
            continue
        try:
            own = pod_qos.BLKIO_QOS.read(pod.meta)
        except AnnotationError:
            continue
        if own is not None:
            yield pod, own


def _asked(state: NodeState) -> Iterator[Block]:
    settings: list[tuple[BlkIOQOS, str]] = [(own, "") for own in _of_class(state.qos.be_class)]
    settings += [(own, "") for own in _of_class(state.qos.cgroup_root)]
    settings += [(own, pod.uid) for pod, own in _pods(state)]
    for own, pod in settings:
        yield from (_block(block, pod) for block in own.blocks)


def resolved(files: Files, asked: Iterable[Block]) -> Disks:
    numbers_of: dict[Block, tuple[str, ...]] = {}
    for block in asked:
        if block.kind == "podvolume":
            numbers = disks.of_pod_volume(files, block.pod, block.name) if block.pod else ()
        elif block.kind == "volumegroup":
            numbers = disks.of_group(files, block.name)
        else:
            numbers = disks.of_device(files, block.name)
        if numbers:
            numbers_of[block] = numbers
    return numbers_of


class Memory(NamedTuple):
    state: NodeState | None = None
    disks: Disks = MappingProxyType({})


def _look(reader: Reader, memory: Memory) -> Disks:
    """Disks come and go seldom: they are looked for when something was changed, and now and then."""
    if memory.state is reader.state and not reader.is_thorough:
        return memory.disks
    return resolved(reader.cgroups.files, _asked(reader.state))


def _decide(sight: Sight, held: Disks, memory: Memory) -> Turn[Memory]:
    return Turn(decide(sight.state, held), Memory(sight.state, held))


STRATEGY: Final[Strategy[Memory, Disks]] = Strategy(NAME, (AgentGate.BLKIO_RECONCILE,), Memory(), _decide, _look)
