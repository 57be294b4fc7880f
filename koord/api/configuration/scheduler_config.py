"""The scheduler's configuration file: kind KubeSchedulerConfiguration, as Kubernetes and Koordinator have it.

`parse` reads plain data, reports all faults at once, and keeps what was written; `SchedulerProfile.resolved()` and
`SchedulerProfile.args_of()` give the effective plugins and arguments. `SHIPPED` is what Koordinator ships.
Extenders are HTTP calls from inside a scheduling cycle; koord has none, and says so rather than dropping them.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

from msgspec import Meta
from msgspec.structs import replace

from koord.api.configuration.component_config import (
    ClientConnection,
    Header,
    LeaderElection,
    PluginArgs,
    PluginConfig,
    completed_args,
    profile_name_faults,
    read_file,
    with_args,
    written_args,
)
from koord.api.configuration.scheduler_args import (
    ARGS,
    FitScoringStrategy,
    LoadAwareSchedulingArgs,
    NodeResourcesFitArgs,
    ResourceWeight,
)
from koord.api.configuration.scheduler_args import ElasticQuotaArgs as ElasticQuotaArgs
from koord.api.configuration.scheduler_plugins import (
    DEFAULT_PLUGINS,
    SHIPPED_PLUGINS,
    Plugins,
    ResolvedPlugins,
    resolve,
)
from koord.api.machinery.faults import Fault
from koord.api.machinery.struct import Struct
from koord.api.protocol import names

KIND: Final = "KubeSchedulerConfiguration"
API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
API_VERSIONS: Final = (API_VERSION, "kubescheduler.config.k8s.io/v1beta3", "kubescheduler.config.k8s.io/v1beta2")
"""The betas are what older Koordinator releases read; their files mean the same."""

HEADER: Final = Header(KIND, API_VERSIONS, ARGS, older_only=("healthzBindAddress", "metricsBindAddress"))
_REMOVED_PLUGINS: Final = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")

A = TypeVar("A", bound=PluginArgs)


class SchedulerProfile(Struct):
    """One scheduler name and its plugins."""

    scheduler_name: str = ""
    "Pods with this spec.schedulerName get the profile."
    percentage_of_nodes_to_score: Annotated[int, Meta(ge=0, le=100)] | None = None
    "Accepted without effect: koord looks at all nodes."
    plugins: Plugins | None = None
    "Plugins that differ from the defaults."
    plugin_config: tuple[PluginConfig, ...] = ()
    "Arguments of plugins."

    def resolved(self) -> ResolvedPlugins:
        """The plugins that run, in order, with their weights."""
        return resolve(self.plugins, DEFAULT_PLUGINS)[0]

    def written_args(self, plugin: str) -> PluginArgs:
        """A plugin's arguments as the file has them, or as if it had none."""
        return written_args(self.plugin_config, plugin, ARGS)

    def args_of(self, plugin: str, type_: type[A]) -> A:
        """A plugin's effective arguments, every default filled in."""
        return completed_args(self.written_args(plugin), plugin, type_)


class SchedulerConfiguration(Struct):
    parallelism: Annotated[int, Meta(ge=1)] = 16
    "Accepted without effect: nodes are judged as vectors."
    leader_election: LeaderElection = LeaderElection(resource_name=names.LEASE_SCHEDULER)
    "Which of several replicas schedules."
    client_connection: ClientConnection = ClientConnection()
    "Accepted without effect."
    enable_profiling: bool = True
    "Accepted without effect."
    enable_contention_profiling: bool = True
    "Accepted without effect."
    percentage_of_nodes_to_score: Annotated[int, Meta(ge=0, le=100)] = 0
    "Accepted without effect: koord looks at all nodes."
    pod_initial_backoff_seconds: Annotated[int, Meta(ge=1)] = 1
    "Wait before the second attempt to schedule a pod. It doubles with each further attempt."
    pod_max_backoff_seconds: int = 10
    "Longest wait before another attempt."
    profiles: tuple[SchedulerProfile, ...] = ()
    "Scheduler names and their plugins."
    extenders: tuple[Any, ...] = ()
    "Refused: koord has no extenders."
    delay_cache_until_active: bool = False
    "Accepted without effect: a standby receives everything."

    def profile(self, scheduler_name: str) -> SchedulerProfile | None:
        return next((profile for profile in self.profiles if profile.scheduler_name == scheduler_name), None)

    def manifest(self) -> dict[str, Any]:
        """As plain data with apiVersion and kind: a file that `parse` reads back as the same configuration."""
        return HEADER.manifest(self)


def parse(data: object, what: str = "scheduler configuration") -> SchedulerConfiguration:
    """A configuration from plain data; apiVersion and kind may be absent. Raises `Invalid` with all faults."""
    return read_file(what, data, HEADER, SchedulerConfiguration, _with_names, _faults)


def _with_names(config: SchedulerConfiguration, args: list[tuple[PluginConfig, ...]]) -> SchedulerConfiguration:
    """With typed arguments, and the names that are only implied."""
    profiles = with_args(config.profiles, args, SchedulerProfile())
    if len(profiles) == 1 and not profiles[0].scheduler_name:
        profiles = (replace(profiles[0], scheduler_name=names.SCHEDULER_DEFAULT),)
    return replace(config, profiles=profiles, leader_election=config.leader_election.named(names.LEASE_SCHEDULER))


def _faults(config: SchedulerConfiguration) -> list[Fault]:
    faults = [fault.under("leaderElection") for fault in config.leader_election.faults()]
    if config.pod_max_backoff_seconds < config.pod_initial_backoff_seconds:
        wanted = f"must be at least podInitialBackoffSeconds ({config.pod_initial_backoff_seconds})"
        faults.append(Fault("podMaxBackoffSeconds", f"{wanted}, not {config.pod_max_backoff_seconds}"))
    if config.extenders:
        wanted = "extenders are not supported: use a plugin, or schedule those pods with another scheduler"
        faults.append(Fault("extenders", wanted))
    faults += profile_name_faults("schedulerName", (profile.scheduler_name for profile in config.profiles))
    for i, profile in enumerate(config.profiles):
        faults += [fault.under(f"profiles[{i}].plugins") for fault in resolve(profile.plugins, DEFAULT_PLUGINS)[1]]
    faults += _queue_sort_faults(config)
    return faults


def _queue_sort_faults(config: SchedulerConfiguration) -> list[Fault]:
    """All profiles share one queue, so they must sort it alike."""
    first, *others = (profile.resolved().at["queueSort"] for profile in config.profiles)
    return [
        Fault(
            f"profiles[{i}].plugins.queueSort", f"must be as in profiles[0] ({', '.join(first)}): they share one queue"
        )
        for i, other in enumerate(others, 1)
        if other != first
    ]


SHIPPED: Final = SchedulerConfiguration(
    leader_election=LeaderElection(resource_name=names.LEASE_SCHEDULER),
    profiles=(
        SchedulerProfile(
            scheduler_name=names.SCHEDULER_KOORD,
            plugins=SHIPPED_PLUGINS,
            plugin_config=(
                PluginConfig(
                    "NodeResourcesFit",
                    NodeResourcesFitArgs(
                        scoring_strategy=FitScoringStrategy(
                            resources=tuple(
                                ResourceWeight(name)
                                for name in ("cpu", "memory", names.RESOURCE_BATCH_CPU, names.RESOURCE_BATCH_MEMORY)
                            )
                        )
                    ),
                ),
                PluginConfig(
                    "LoadAwareScheduling",
                    LoadAwareSchedulingArgs(
                        filter_expired_node_metrics=False,
                        node_metric_expiration_seconds=300,
                        resource_weights={"cpu": 1, "memory": 1},
                        usage_thresholds={"cpu": 0, "memory": 0},
                        estimated_scaling_factors={"cpu": 85, "memory": 70},
                    ),
                ),
                PluginConfig("ElasticQuota", ElasticQuotaArgs(quota_group_namespace=names.NAMESPACE_KOORDINATOR)),
            ),
        ),
    ),
)
"""The configuration in Koordinator's manifests: the load filter is off until thresholds are set."""
