"""Whether thresholds in a set of manifests are in order: those of the scheduler, of agents, of nodes themselves."""

from __future__ import annotations

from koord.api import kinds
from koord.api.faults import Invalid
from koord.api.manifest import Manifests
from koord.api.scheduler_config import SchedulerConfiguration
from koord.api.threshold_order import load_limits, of_nodes
from koord.offline.node_resources import CONFIG_KEY, slo_config


def require_order(manifests: Manifests, scheduler: SchedulerConfiguration) -> tuple[str, ...]:
    """What is mended, in words. Raises `Invalid` where people set thresholds out of order, naming both fields."""
    has_config = any(each.metadata.key == CONFIG_KEY for each in manifests.of(kinds.CONFIG_MAPS))
    slos = {each.metadata.name: each.spec for each in manifests.of(kinds.NODE_SLOS)}
    findings = of_nodes(
        [each.metadata for each in manifests.of(kinds.NODES)],
        load_limits(scheduler),
        slos,
        slo_config(manifests).config if has_config else None,
    )
    if findings.faults:
        raise Invalid("thresholds of usage", findings.faults)
    return findings.warnings
