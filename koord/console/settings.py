"""What acts change: thresholds and policies of a pool or the cluster, and roll-outs with their limits.

Pure: the configuration and the table of nodes come in, `Settings` and `Rollouts` come out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from koord.api.configuration.lending_policies import ADAPTIVE, policies_of
from koord.api.configuration.slo_config import RATIO_LABELS, NodeSettings, SloConfig
from koord.api.protocol.annotations.colocation import COLOCATION_STRATEGY
from koord.api.text.counted import counted
from koord.api.text.selector import LabelMatcher
from koord.console.rows import POOL_LABELS, NodeRow
from koord.console.shapes import (
    ActName,
    PolicyInForce,
    PoolChoice,
    RolloutLimit,
    Rollouts,
    RolloutState,
    Settings,
    Threshold,
)
from koord.console.table import ClusterTable
from koord.manager.colocation_settings import set_in
from koord.manager.colocation_switch import selector_of
from koord.manager.rollout.features import FEATURES, Feature
from koord.manager.rollout.state import DEFAULT_EVERY_S, DEFAULT_STEPS, Limits, Rollout
from koord.manager.threshold_switch import THRESHOLDS, in_force, own_thresholds

MOST_EXAMPLES: Final = 5
MOST_POOLS: Final = 200


def settings_of(
    table: ClusterTable,
    config: SloConfig,
    data: Mapping[str, str],
    matcher: LabelMatcher | None,
    faults: tuple[str, ...],
) -> Settings:
    """`data`: slo-controller-config as stored."""
    nodes = [node for node in table.nodes.values() if matcher is None or matcher.matches(node.labels)]
    own = own_thresholds(data, None if matcher is None else selector_of(matcher))
    by_settings = _settings_of(config, nodes) or [(config.for_node({}, {}), 0)]
    thresholds = []
    for threshold in THRESHOLDS:
        values = {in_force(settings, threshold) for settings, _ in by_settings}
        number, where = next(iter(values)) if len(values) == 1 else (None, "several places")
        least, most = threshold.bounds
        thresholds.append(
            Threshold(
                name=threshold.name,
                section=threshold.section,
                title=threshold.title,
                unit=threshold.unit,
                minimum=least,
                maximum=most,
                value=number,
                own=own.get(threshold.name),
                set_in=where,
            )
        )
    pool = "" if matcher is None else str(matcher)
    return Settings(
        pool=pool,
        lending_on=sum(node.key not in table.why_off for node in nodes),
        nodes=len(nodes),
        pools=pools_of(table),
        thresholds=tuple(thresholds),
        policies=_policies(by_settings),
        policy_choices={resource: tuple(policies_of(resource)) for resource in ("cpu", "memory")},
        faults=faults,
        command="koord colocation thresholds" + (f" -l {pool}" if pool else ""),
    )


def _settings_of(config: SloConfig, nodes: list[NodeRow]) -> list[tuple[NodeSettings, int]]:
    """Nodes with the same labels and strategy have the same settings: each once, with their number. Labels that no
    selector names do not matter."""
    named = _named_labels(config)
    kinds: Counter[tuple[tuple[tuple[str, str], ...], str]] = Counter()
    for node in nodes:
        labels = tuple((key, value) for key, value in sorted(node.labels.items()) if key in named)
        kinds[labels, node.strategy] += 1
    return [
        (config.for_node(dict(labels), {COLOCATION_STRATEGY.key: strategy} if strategy else {}), count)
        for (labels, strategy), count in kinds.items()
    ]


def _named_labels(config: SloConfig) -> frozenset[str]:
    """Labels that selectors name, and koord's own labels with ratios."""
    keys: set[str] = {str(label.key) for label, _ in RATIO_LABELS}
    for section in (config.colocation, config.resource_threshold):
        for item in section.items:
            if item.node_selector is not None:
                keys |= set(item.node_selector.match_labels)
                keys |= {requirement.key for requirement in item.node_selector.match_expressions}
    return frozenset(keys)


def _policies(by_settings: list[tuple[NodeSettings, int]]) -> tuple[PolicyInForce, ...]:
    groups: Counter[tuple[str, str, int | None, str]] = Counter()
    for settings, count in by_settings:
        lending = settings.colocation
        cpu, memory = lending.cpu_calculate_policy or "", lending.memory_calculate_policy or ""
        mark = lending.cpu_safety_mark_percent if cpu == ADAPTIVE else None
        groups[cpu, memory, mark, set_in("cpu_calculate_policy", settings.colocation_layers)] += count
    return tuple(
        PolicyInForce(cpu=cpu, memory=memory, mark_percent=mark, set_in=where, nodes=count)
        for (cpu, memory, mark, where), count in groups.most_common()
    )


def pools_of(table: ClusterTable) -> tuple[PoolChoice, ...]:
    """The groups of the map by pool, as selectors."""
    counts: Counter[tuple[str, str]] = Counter()
    for node in table.nodes.values():
        label = next((label for label in POOL_LABELS if node.labels.get(label)), None)
        if label is not None:
            counts[node.labels[label], f"{label}={node.labels[label]}"] += 1
    return tuple(
        PoolChoice(name=name, selector=selector, nodes=count)
        for (name, selector), count in sorted(counts.items())[:MOST_POOLS]
    )


def rollouts_of(
    table: ClusterTable,
    stored: Mapping[str, Rollout],
    faults: tuple[str, ...],
    may_list: Callable[[str], bool],
) -> Rollouts:
    return Rollouts(
        rollouts=tuple(_state(table, feature, stored.get(feature.name), may_list) for feature in FEATURES),
        faults=faults,
        command="koord colocation rollout status",
    )


def _state(
    table: ClusterTable, feature: Feature, rollout: Rollout | None, may_list: Callable[[str], bool]
) -> RolloutState:
    inside = sum(feature.label in node.labels for node in table.nodes.values())
    if rollout is None:
        return RolloutState(
            feature=feature.name,
            about=feature.about,
            state="none",
            sentence=f"There is no roll-out of {feature.name}.",
            steps=DEFAULT_STEPS,
            step=0,
            percent=0,
            nodes=inside,
            pool=len(table.nodes),
            selector="",
            since_at_s=None,
            every_s=DEFAULT_EVERY_S,
            next_at_s=None,
            reason="",
            limits=_limits(Limits(), None, may_list),
            taken_back=(),
            on_stop="back",
            acts=("rollout-start",),
        )
    matcher = rollout.matcher
    pool = sum(matcher is None or matcher.matches(node.labels) for node in table.nodes.values())
    goes_on = rollout.state == "running" and rollout.step < len(rollout.steps)
    can: tuple[ActName, ...] = ("rollout-stop",) if rollout.state == "running" else ()
    can = ("rollout-resume",) if rollout.state == "stopped" else can
    return RolloutState(
        feature=feature.name,
        about=feature.about,
        state=rollout.state,
        sentence=_sentence(feature, rollout, inside, pool),
        steps=rollout.steps,
        step=rollout.step,
        percent=rollout.percent,
        nodes=inside,
        pool=pool,
        selector=rollout.selector,
        since_at_s=rollout.since_s,
        every_s=rollout.every_seconds,
        next_at_s=rollout.since_s + rollout.every_seconds if goes_on else None,
        reason=rollout.reason,
        limits=_limits(rollout.limits, rollout, may_list),
        taken_back=rollout.taken_back,
        on_stop=rollout.on_stop,
        acts=(*can, "rollout-undo"),
    )


def _sentence(feature: Feature, rollout: Rollout, inside: int, pool: int) -> str:
    has = f"{inside:,} of {counted(pool, 'node')} {'has' if inside == 1 else 'have'} it"
    if rollout.state == "stopped":
        return f"The roll-out of {feature.name} stopped at {rollout.percent}%: {rollout.reason}; {has}."
    if rollout.state == "complete":
        return f"The roll-out of {feature.name} is complete at {rollout.percent}%: {has}."
    return f"The roll-out of {feature.name} is at {rollout.percent}%: {has}."


def _limits(limits: Limits, rollout: Rollout | None, may_list: Callable[[str], bool]) -> tuple[RolloutLimit, ...]:
    unready = rollout.found.unready if rollout is not None else ()
    slowed = rollout.found.slowed if rollout is not None else ()
    evictions = rollout.found.evictions if rollout is not None else 0

    def seen(services: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in services if may_list(name.partition("/")[0]))[:MOST_EXAMPLES]

    return (
        RolloutLimit(name="unready", count=len(unready), limit=limits.unready, examples=seen(unready)),
        RolloutLimit(name="slowed", count=len(slowed), limit=limits.slowed, examples=seen(slowed)),
        RolloutLimit(name="evicted", count=evictions, limit=limits.evictions, examples=()),
    )
