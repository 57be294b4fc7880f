"""Settings of the components in the demo: the usual ones, with shorter intervals, since a person is watching.

Nodes report every few seconds, overloaded nodes are relieved after two checks, and borrowed quota is reclaimed soon.
The load's day lasts four minutes, and each day a backup, outside of pods, uses half of one node for a third of the day.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from koord.api.configuration.component_config import PluginConfig, PluginRef, PluginSet
from koord.api.configuration.descheduler_args import (
    AnomalyCondition,
    LowNodeLoadArgs,
    MigrationControllerArgs,
    ObjectLimiter,
)
from koord.api.configuration.descheduler_config import DeschedulerConfiguration, DeschedulerProfile, Plugins
from koord.api.configuration.scheduler_args import ElasticQuotaArgs
from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration
from koord.api.configuration.slo_config import SloConfig
from koord.api.configuration.slo_config_types import ColocationConfig, ResourceThresholdConfig
from koord.api.protocol import names
from koord.api.protocol.crd.node_metric import AggregatePolicy
from koord.api.protocol.crd.node_slo import ResourceThresholdStrategy
from koord_minicluster.demo.scenario import Scenario
from koord_minicluster.hollow.load_model import DAY_S

LOAD_SPEED: Final = 360
"""Times the clock: a day in four minutes."""
FIRST_S: Final = 3 * 3600.0
"""The time of day at which it begins: at night, so that there are gaps to be filled."""
REPORT_S: Final = 5
WINDOW_S: Final = 10
LEND_PERCENT: Final = 65
HOLD_PERCENT: Final = 72
HOT_PERCENT: Final = 75
COOL_PERCENT: Final = 70
HOT_NODE: Final = 6
"""Counted from 0."""
HOT_SHARE: Final = "52%"
BACKUP_S: Final = DAY_S / 3
"""The backup begins after a third of the day, and takes as long."""


def hot_node(scenario: Scenario) -> str:
    return scenario.node_names()[HOT_NODE]


def load(scenario: Scenario) -> str:
    """A recording of a day: the backup on one node. What it does not name follows the seeded model."""
    rows = ((0.0, "2%"), (BACKUP_S, HOT_SHARE), (2 * BACKUP_S, "2%"))
    lines = [f"{time_s:.0f},node:{hot_node(scenario)},{cpu},4%" for time_s, cpu in rows]
    return "\n".join(["time_s,target,cpu,memory", *lines]) + "\n"


def colocation() -> SloConfig:
    return SloConfig(
        colocation=ColocationConfig(
            enable=True,
            metric_report_interval_seconds=REPORT_S,
            metric_aggregate_duration_seconds=WINDOW_S,
            metric_aggregate_policy=AggregatePolicy(durations=("5m",)),
            cpu_reclaim_threshold_percent=LEND_PERCENT,
        ),
        resource_threshold=ResourceThresholdConfig(
            cluster_strategy=ResourceThresholdStrategy(
                enable=True,
                cpu_suppress_threshold_percent=HOLD_PERCENT,
                cpu_suppress_policy="cfsQuota",
                cpu_evict_be_satisfaction_lower_percent=40,
                cpu_evict_be_satisfaction_upper_percent=60,
                cpu_evict_time_window_seconds=WINDOW_S,
            )
        ),
    )


def scheduler() -> dict[str, Any]:
    (profile,) = SHIPPED.profiles
    quotas = ElasticQuotaArgs(
        quota_group_namespace=names.NAMESPACE_KOORDINATOR, monitor_all_quotas=True, delay_evict_time="30s"
    )
    configs = tuple(
        PluginConfig(plugin.name, quotas if plugin.name == "ElasticQuota" else plugin.args)
        for plugin in profile.plugin_config
    )
    config: SchedulerConfiguration = replace(SHIPPED, profiles=(replace(profile, plugin_config=configs),))
    return config.manifest()


def descheduler() -> dict[str, Any]:
    low_load = LowNodeLoadArgs(
        low_thresholds={"cpu": COOL_PERCENT, "memory": 80.0},
        high_thresholds={"cpu": HOT_PERCENT, "memory": 90.0},
        anomaly_condition=AnomalyCondition("1m", 2, 1),
    )
    # One workload may move several pods in a short time: a demo has few of them.
    moves = MigrationControllerArgs(object_limiters={"workload": ObjectLimiter(duration="10s")}, default_job_ttl="1m")
    return DeschedulerConfiguration(
        descheduling_interval="3s",
        profiles=(
            DeschedulerProfile(
                name=names.LEASE_DESCHEDULER,
                plugins=Plugins(balance=PluginSet(enabled=(PluginRef("LowNodeLoad"),))),
                plugin_config=(PluginConfig("LowNodeLoad", low_load), PluginConfig("MigrationController", moves)),
            ),
        ),
    ).manifest()
