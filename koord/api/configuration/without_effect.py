"""Fields of the scheduler's configuration that koord accepts and does nothing with, for now.

Manifests that were made for Koordinator carry them. Whoever sets one is told at start, in one warning. A test holds
these lists to the code: what has a reader is not in them, and what has none is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from koord.api.configuration.component_config import PluginArgs
from koord.api.configuration.scheduler_args import (
    CoschedulingArgs,
    DeviceShareArgs,
    ElasticQuotaArgs,
    LoadAwareSchedulingArgs,
    ReservationArgs,
    VolumeBindingArgs,
)
from koord.api.configuration.scheduler_config import SchedulerConfiguration

SCHEDULER_FIELDS: Final = ("client_connection", "enable_profiling", "enable_contention_profiling", "extenders")
"""Those for which the scheduler has a reason of its own are told with it (`koord.scheduler.profiles`)."""

PLUGIN_FIELDS: Final[Mapping[type[PluginArgs], tuple[str, ...]]] = {
    CoschedulingArgs: (
        "controller_workers",
        "skip_check_schedule_cycle",
    ),
    DeviceShareArgs: ("allocator",),
    ElasticQuotaArgs: ("enable_queue_hint", "quota_snapshot_update_interval", "hook_plugins"),
    LoadAwareSchedulingArgs: ("estimator",),
    ReservationArgs: (
        "controller_workers",
        "min_candidate_nodes_absolute",
        "min_candidate_nodes_percentage",
        "resync_interval_seconds",
    ),
    VolumeBindingArgs: ("shape",),
}
"""Of plugins that koord has. Arguments of the others have no effect as a whole."""


def configuration_warning(config: SchedulerConfiguration) -> str | None:
    """Of fields that are not as they are by default."""
    idle = list(_set(config, SCHEDULER_FIELDS, ""))
    for at, profile in enumerate(config.profiles):
        for each in profile.plugin_config:
            if isinstance(each.args, PluginArgs):
                where = f"profiles[{at}].pluginConfig {each.name}: "
                idle += _set(each.args, PLUGIN_FIELDS.get(type(each.args), ()), where)
    return f"fields of the configuration that have no effect yet: {', '.join(idle)}" if idle else None


def _set(of: msgspec.Struct, names: tuple[str, ...], where: str) -> Iterator[str]:
    written = {field.name: field.encode_name for field in msgspec.structs.fields(of)}
    default = type(of)()
    for name in names:
        if getattr(of, name) != getattr(default, name):
            yield where + written[name]
