"""Whether descheduler, scheduler and node agent could fight over nodes: the descheduler's part of the threshold model.

For every dimension, in percent of a node's usage, where a pool of LowNodeLoad has a mark for it (`thresholds`):

    schedule_max <= high          what the descheduler calls hot, the scheduler does not fill
    high < evict                  a node is relieved before its agent evicts; and no target is filled up to there

For prod pods the marks for their usage alone count, where there are any. What two *set* fields put out of order is
refused, naming both; where one of them is a default, it is told. Marks by deviation follow the mean, and are not
judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from koord.api.configuration.descheduler_args import LowNodeLoadArgs, NodePool
from koord.api.configuration.descheduler_config import DeschedulerConfiguration
from koord.api.configuration.layer import Layer
from koord.api.configuration.slo_config import SloConfig
from koord.api.configuration.threshold_order import Findings, kinds_of_nodes
from koord.api.configuration.threshold_rungs import DIMENSIONS, Dimension, Rung, Setting, agent_rungs
from koord.api.configuration.thresholds import LoadLimits, schedule_max
from koord.api.machinery.faults import Fault
from koord.api.protocol.priority import BANDS, PriorityClass

LOW_NODE_LOAD: Final = "LowNodeLoad"


def of_descheduler(
    config: DeschedulerConfiguration, load: Sequence[LoadLimits] = (), strategies: Sequence[Sequence[Layer]] = ()
) -> Findings:
    """Judges a configuration beside the scheduler's limits (one for each of its profiles) and the agents' strategies
    (one for each kind of node that they tell apart, see `strategies_of`)."""
    faults: dict[Fault, None] = {}
    warnings: dict[str, None] = {}
    for pool, where in _pools(config):
        for dimension in DIMENSIONS:
            for band in BANDS:
                high = _high(pool, where, dimension, band)
                if high is None:
                    continue
                for fight in _fights(high, load, strategies, dimension, band):
                    if isinstance(fight, Fault):
                        faults[fight] = None
                    else:
                        warnings[fight] = None
    return Findings(tuple(faults), tuple(warnings))


def strategies_of(config: SloConfig) -> tuple[tuple[Layer, ...], ...]:
    """The strategies of agents, for each kind of node that a slo-controller-config tells apart."""
    return tuple(config.for_node(labels, {}).threshold_layers for labels in kinds_of_nodes(config))


def _pools(config: DeschedulerConfiguration) -> Iterator[tuple[NodePool, str]]:
    for profile in config.profiles:
        if LOW_NODE_LOAD not in profile.resolved()["balance"]:
            continue
        args = profile.args_of(LOW_NODE_LOAD, LowNodeLoadArgs)
        where = f"{LOW_NODE_LOAD}Args of profile {profile.name}"
        if args.paused or args.dry_run:
            continue
        yield args.as_pool(), where
        for i, pool in enumerate(args.node_pools):
            yield pool, f"{where}.nodePools[{i}]"


def _high(pool: NodePool, where: str, dimension: Dimension, band: PriorityClass) -> Setting | None:
    if pool.use_deviation_thresholds:
        return None
    of_prod = band is PriorityClass.PROD and dimension in pool.prod_high_thresholds
    marks, name = (pool.prod_high_thresholds, "prodHighThresholds") if of_prod else (
        pool.high_thresholds, "highThresholds")  # fmt: skip
    if dimension not in marks:
        return None
    return Setting(int(marks[dimension]), f"{where}.{name}.{dimension}", is_set=True)


def _fights(
    high: Setting,
    load: Sequence[LoadLimits],
    strategies: Sequence[Sequence[Layer]],
    dimension: Dimension,
    band: PriorityClass,
) -> Iterator[Fault | str]:
    for limits in load:
        fills = schedule_max((limits,), dimension, band)
        if fills is not None and fills.percent > high.percent:
            yield _told(
                fills, f"must not be above {high}", "the scheduler would fill nodes that the descheduler empties"
            )
    for strategy in strategies or ((),):
        rungs = agent_rungs(strategy, dimension, band)
        evict: Rung | None = next((rung for rung in rungs if rung.name == "evict"), None)
        if evict is None or high.percent < evict.setting.percent:
            continue
        why = "agents would evict from nodes that the descheduler takes for targets"
        if evict.setting.is_set:
            yield Fault(high.source, f"must be below {evict.setting}, not {high.percent}: {why}")
        else:
            yield f"{high} should be below {evict.setting}: {why}"


def _told(setting: Setting, rule: str, why: str) -> Fault | str:
    if setting.is_set:
        return Fault(setting.source, f"{rule}, not {setting.percent}: {why}")
    return f"{setting} {rule}: {why}"
