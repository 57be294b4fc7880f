"""How a node measures its usage and reports it: the spec of its NodeMetric.

It follows the node's co-location strategy where that is on, and the defaults where it is off. While the configuration
cannot be read, an existing spec stays unchanged.
"""

from __future__ import annotations

from koord.api.configuration.slo_config import SloConfig
from koord.api.configuration.slo_config_types import COLOCATION_DEFAULTS, ColocationStrategy
from koord.api.protocol.crd.node_metric import NodeMetricCollectPolicy, NodeMetricSpec


def wanted_spec(config: SloConfig, strategy: ColocationStrategy, present: NodeMetricSpec | None) -> NodeMetricSpec:
    """The spec of a node's NodeMetric. `strategy` is the node's, `present` the existing spec."""
    if present is not None and config.colocation_state != "current":
        return present
    return spec_of(strategy if strategy.enable else COLOCATION_DEFAULTS)


def spec_of(strategy: ColocationStrategy) -> NodeMetricSpec:
    return NodeMetricSpec(
        NodeMetricCollectPolicy(
            strategy.metric_aggregate_duration_seconds,
            strategy.metric_report_interval_seconds,
            strategy.metric_aggregate_policy,
            strategy.metric_memory_collect_policy,
        )
    )
