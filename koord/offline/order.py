"""Whether thresholds in a set of manifests are in order: those of the scheduler, of agents, of nodes
themselves, and of the descheduler."""

from __future__ import annotations

from collections.abc import Sequence

from koord.api import kinds
from koord.api.configuration.descheduler_config import DeschedulerConfiguration
from koord.api.configuration.descheduler_order import of_descheduler, strategies_of
from koord.api.configuration.scheduler_config import SchedulerConfiguration
from koord.api.configuration.threshold_order import Findings, load_limits, of_nodes
from koord.api.configuration.thresholds import LoadLimits
from koord.api.machinery.faults import Fault, Invalid
from koord.api.text.manifest import Manifests
from koord.manager.config_in_force import STORED
from koord.offline.node_resources import slo_config


def require_order(
    manifests: Manifests, scheduler: SchedulerConfiguration, *, before: Manifests | None = None
) -> tuple[str, ...]:
    """The corrections, in words. Raises `Invalid` if users set thresholds out of order, naming both fields.

    `before`: the cluster that the manifests change. What is already out of order there is only reported.
    """
    findings = _judged(manifests, load_limits(scheduler))
    old = frozenset[Fault]() if before is None else frozenset(_judged(before, ()).faults)
    new = [fault for fault in findings.faults if fault not in old]
    if new:
        raise Invalid("thresholds of usage", new)
    return (*(f"already in the cluster: {fault}" for fault in findings.faults), *findings.warnings)


def _judged(manifests: Manifests, load: Sequence[LoadLimits]) -> Findings:
    has_config = any(config_map.metadata.key == STORED for config_map in manifests.of(kinds.CONFIG_MAPS))
    slos = {node_slo.metadata.name: node_slo.spec for node_slo in manifests.of(kinds.NODE_SLOS)}
    return of_nodes(
        [node.metadata for node in manifests.of(kinds.NODES)],
        load,
        slos,
        slo_config(manifests).config if has_config else None,
    )


def require_no_fight(
    manifests: Manifests, descheduler: DeschedulerConfiguration, scheduler: SchedulerConfiguration
) -> tuple[str, ...]:
    """What could loop, in words, where a default is part of it. Raises `Invalid` where people set a descheduler's marks
    so that scheduler or agents work against it, naming both fields."""
    has_config = any(config_map.metadata.key == STORED for config_map in manifests.of(kinds.CONFIG_MAPS))
    strategies = strategies_of(slo_config(manifests).config) if has_config else ()
    findings = of_descheduler(descheduler, load_limits(scheduler), strategies)
    if findings.faults:
        raise Invalid("thresholds of usage", findings.faults)
    return findings.warnings
