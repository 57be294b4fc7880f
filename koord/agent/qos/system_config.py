"""Settings of the whole machine that the NodeSLO asks for: memory that is kept free, and features of the kernel.

A figure outside what the kernel takes is left out, and so is what this kernel does not have. Where the node is a part
of a machine, all of it is left to the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Final, NamedTuple

from koord.agent import wish
from koord.agent.host import system_knobs as knobs
from koord.agent.host.knobs import Knob
from koord.agent.qos.decision import NOTHING, Problem, StrategyDecision
from koord.agent.qos.strategy import Reader, Sight, Strategy, Turn
from koord.agent.state import NodeState
from koord.agent.wish import Wish
from koord.api.configuration.features import AgentGate
from koord.api.protocol.crd.node_slo import SystemStrategy

NAME: Final = "system_config"
_OF: Final = 10_000
_PART: Final = Problem(
    "apply system-config", "the node is a part of a machine, and these settings are the whole machine's"
)


def decide(state: NodeState, features: Set[str]) -> StrategyDecision | None:
    """`features`: those that the kernel's scheduler has."""
    if state.slo is None:
        return None
    strategy = None if state.is_colocation_off else state.slo.system_strategy
    return NOTHING if strategy is None else StrategyDecision(tuple(_wishes(state, strategy, features)))


def min_free_kbytes(memory_bytes: int, factor: int) -> int:
    return memory_bytes // 1024 * factor // _OF


def _wishes(state: NodeState, strategy: SystemStrategy, features: Set[str]) -> Iterator[Wish]:
    if (factor := strategy.min_free_kbytes_factor) is not None:
        why = f"{factor} ten-thousandths of the node's memory"
        yield from _wish(knobs.MIN_FREE_KBYTES, min_free_kbytes(state.capacity_memory_bytes, factor), why)
    asked = {
        knobs.WATERMARK_SCALE: strategy.watermark_scale_factor,
        knobs.REAP_IN_BACKGROUND: strategy.memcg_reap_back_ground,
        knobs.PAGE_CACHE_LIMITS: strategy.page_cache_limit_enabled,
        knobs.GROUP_IDENTITY_ON: strategy.sched_group_identity_enabled,
        knobs.IDLE_SAVER: strategy.sched_idle_saver_wmark,
    }
    for knob, value in asked.items():
        if value is not None:
            yield from _wish(knob, value, "the node's settings")
    for name, is_on in strategy.sched_features.items():
        for knob in knobs.scheduler_features(name) if name in features else ():
            yield from _wish(knob, int(is_on), "the node's settings")


def _wish(knob: Knob, value: int, why: str) -> Iterator[Wish]:
    if knob.fault(value) is None:
        yield Wish(wish.NODE, knob, value, NAME, why)


class SchedulerFeatures(NamedTuple):
    features: frozenset[str]
    is_part: bool
    "Whether the node is a part of a machine."


def _look(reader: Reader, memory: SchedulerFeatures | None) -> SchedulerFeatures:
    """The features that this kernel's scheduler has: it does not come by new ones."""
    if memory is not None:
        return memory
    return SchedulerFeatures(knobs.scheduler_feature_names(reader.cgroups.files), bool(reader.cgroups.root))


def _decide(sight: Sight, held: SchedulerFeatures, memory: SchedulerFeatures | None) -> Turn[SchedulerFeatures | None]:
    decision = decide(sight.state, held.features)
    if held.is_part and decision is not None and decision.wishes:
        decision = StrategyDecision(problems=(_PART,))
    return Turn(decision, held)


STRATEGY: Final[Strategy[SchedulerFeatures | None, SchedulerFeatures]] = Strategy(
    NAME, (AgentGate.SYSTEM_CONFIG,), None, _decide, _look
)
