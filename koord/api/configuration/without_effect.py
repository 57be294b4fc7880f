"""Fields of the scheduler's and the descheduler's configuration that koord accepts and does nothing with: for now, or
since it has no need.

Manifests that were made for Koordinator carry them. Whoever sets one is told at start, in one warning: with the reason
where there is nothing to be set here. A test holds these lists to the code: what has a reader is not in them, and what
has none is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from koord.api.configuration.component_config import PluginArgs
from koord.api.configuration.descheduler_args import CustomPriorityArgs
from koord.api.configuration.descheduler_config import DeschedulerConfiguration
from koord.api.configuration.scheduler_args import (
    CoschedulingArgs,
    DeviceShareArgs,
    DynamicResourcesArgs,
    ElasticQuotaArgs,
    LoadAwareSchedulingArgs,
    ReservationArgs,
    VolumeBindingArgs,
)
from koord.api.configuration.scheduler_config import SchedulerConfiguration

SCHEDULER_FIELDS: Final = ("client_connection", "enable_profiling", "enable_contention_profiling", "extenders")
"""Those for which the scheduler has a reason of its own are told with it (`koord.scheduler.profiles`)."""

_YET: Final = ""
_ONE_WRITER: Final = "statuses are written as they change, several at a time, without workers"
_OTHERS_RULES: Final = "reservations make room by the rules of DefaultPreemption: set it in that plugin's arguments"

PLUGIN_FIELDS: Final[Mapping[type[PluginArgs], Mapping[str, str]]] = {
    CoschedulingArgs: {"controller_workers": _ONE_WRITER, "skip_check_schedule_cycle": _YET},
    DeviceShareArgs: {"allocator": _YET},
    DynamicResourcesArgs: {"filter_timeout": "the search on a node is bounded by a number of steps"},
    ElasticQuotaArgs: {"enable_queue_hint": _YET, "quota_snapshot_update_interval": _YET, "hook_plugins": _YET},
    LoadAwareSchedulingArgs: {"estimator": _YET},
    ReservationArgs: {
        "controller_workers": _ONE_WRITER,
        "min_candidate_nodes_absolute": _OTHERS_RULES,
        "min_candidate_nodes_percentage": _OTHERS_RULES,
        "resync_interval_seconds": "a reservation is looked at when it changes, and when its time is up",
    },
    VolumeBindingArgs: {"shape": _YET},
}
"""Of plugins that koord has, with why there is no need. Arguments of the others have no effect as a whole."""

_BY_OPTION: Final = "--metrics-address says where health and metrics are served"

DESCHEDULER_FIELDS: Final[Mapping[str, str]] = {
    "client_connection": _YET,
    "enable_profiling": _YET,
    "enable_contention_profiling": _YET,
    "healthz_bind_address": _BY_OPTION,
    "metrics_bind_address": _BY_OPTION,
}
LEVEL_FIELDS: Final = {"keep_threshold": "keepThreshold", "reject_threshold": "rejectThreshold"}
"""Of CustomPriority's evictionOrder: Koordinator ignores them, too."""


def descheduler_warning(config: DeschedulerConfiguration) -> str | None:
    """Of fields that differ from their defaults."""
    idle = list(zip(_set(config, DESCHEDULER_FIELDS), DESCHEDULER_FIELDS.values(), strict=True))
    for at, profile in enumerate(config.profiles):
        for plugin in profile.plugin_config:
            if isinstance(plugin.args, CustomPriorityArgs):
                for number, level in enumerate(plugin.args.eviction_order):
                    where = f"profiles[{at}].pluginConfig {plugin.name}: evictionOrder[{number}]."
                    idle += [(where + name, _YET) for field, name in LEVEL_FIELDS.items() if getattr(level, field)]
    return idle_text([idle_field for idle_field in idle if idle_field[0]], "fields of the configuration")


def configuration_warning(config: SchedulerConfiguration) -> str | None:
    """Of fields that differ from their defaults."""
    idle = [(name, _YET) for name in _set(config, SCHEDULER_FIELDS)]
    for at, profile in enumerate(config.profiles):
        for plugin in profile.plugin_config:
            if isinstance(plugin.args, PluginArgs):
                reasons = PLUGIN_FIELDS.get(type(plugin.args), {})
                written = zip(_set(plugin.args, reasons), reasons.values(), strict=True)
                where = f"profiles[{at}].pluginConfig {plugin.name}: "
                idle += [(where + name, why) for name, why in written if name]
    return idle_text([idle_field for idle_field in idle if idle_field[0]], "fields of the configuration")


def idle_text(idle: Iterable[tuple[str, str]], what: str) -> str | None:
    """One warning about things without effect, with their reasons; those without one have no effect yet."""
    by_reason: dict[str, list[str]] = {}
    for name, why in idle:
        by_reason.setdefault(why, []).append(name)
    yet = by_reason.pop(_YET, [])
    sentences = [f"{what} that have no effect yet: {', '.join(yet)}"] if yet else []
    for why, names in by_reason.items():
        sentences.append(f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} no effect: {why}")
    return "; ".join(sentences) or None


def _set(of: msgspec.Struct, names: Iterable[str]) -> Iterator[str]:
    """Their names in files; empty for a field with its default value."""
    written = {field.name: field.encode_name for field in msgspec.structs.fields(of)}
    default = type(of)()
    for name in names:
        yield written[name] if getattr(of, name) != getattr(default, name) else ""
