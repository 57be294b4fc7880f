"""The descheduler's configuration file: kind DeschedulerConfiguration of descheduler/v1alpha2.

`parse` reads plain data and reports all faults at once; `DeschedulerProfile.resolved()` gives the plugins that run.
Migration jobs are the default way to evict and to filter, until a profile says otherwise.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeVar

from msgspec import Meta
from msgspec.structs import replace

from koord.api.configuration.component_config import (
    ClientConnection,
    Header,
    LeaderElection,
    NonNegativeDuration,
    PluginArgs,
    PluginConfig,
    PluginRef,
    PluginSet,
    completed_args,
    profile_name_faults,
    read_file,
    with_args,
    written_args,
)
from koord.api.configuration.descheduler_args import ARGS, LowNodeLoadArgs
from koord.api.configuration.descheduler_upstream_args import UPSTREAM_ARGS
from koord.api.machinery.faults import Fault
from koord.api.machinery.struct import Struct
from koord.api.protocol import names
from koord.api.text.duration import parse_ns
from koord.api.text.naming import dns_subdomain_fault
from koord.api.text.selector import LabelSelector, selector_faults
from koord.api.text.whole_number import natural_number

KIND: Final = "DeschedulerConfiguration"
API_VERSION: Final = "descheduler/v1alpha2"

ALL_ARGS: Final[Mapping[str, type[PluginArgs]]] = MappingProxyType({**ARGS, **UPSTREAM_ARGS})
HEADER: Final = Header(KIND, (API_VERSION,), ALL_ARGS)

IMPLEMENTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "LowNodeLoad": ("balance",),
        "CustomPriority": ("balance",),
        "FragmentationAware": ("balance",),
        "ScaleDownBinPack": ("balance",),
        "PodLifeTime": ("deschedule",),
        "RemoveDuplicates": ("balance",),
        "RemovePodsHavingTooManyRestarts": ("deschedule",),
        "RemovePodsViolatingNodeAffinity": ("deschedule",),
        "RemovePodsViolatingTopologySpreadConstraint": ("balance",),
        "MigrationController": ("evict", "filter", "sort"),
    }
)
"""Every plugin that a file may name, and its points."""
POINTS: Final = ("deschedule", "balance", "evict", "filter", "sort")

_DEFAULT_ADDRESS: Final = f"0.0.0.0:{names.PORT_DESCHEDULER}"

A = TypeVar("A", bound=PluginArgs)


class Plugins(Struct):
    """Which plugins a profile runs at each point."""

    deschedule: PluginSet = PluginSet()
    "Plugins that look for pods that should not be where they are."
    balance: PluginSet = PluginSet()
    "Plugins that even out nodes."
    evict: PluginSet = PluginSet()
    "Plugin that moves pods."
    filter: PluginSet = PluginSet()
    "Plugin that says which pods may move."
    sort: PluginSet = PluginSet()
    "Which pods move first. Koordinator does not have this point, and sorts as MigrationController does here."

    def at(self, point: str) -> PluginSet:
        plugin_set: PluginSet = getattr(self, point)
        return plugin_set


_MIGRATION: Final = PluginSet(enabled=(PluginRef("MigrationController"),))
DEFAULT_PLUGINS: Final = Plugins(evict=_MIGRATION, filter=_MIGRATION, sort=_MIGRATION)


class DeschedulerProfile(Struct):
    name: str = ""
    "Name of the profile."
    plugin_config: tuple[PluginConfig, ...] = ()
    "Arguments of plugins."
    plugins: Plugins | None = None
    "Plugins that run."
    node_selector: LabelSelector | None = None
    "Only nodes with these labels."

    def resolved(self) -> Mapping[str, tuple[str, ...]]:
        """The plugins that run at each point, in order."""
        mine = self.plugins or Plugins()
        return {
            point: tuple(plugin.name for plugin in mine.at(point).merged_over(DEFAULT_PLUGINS.at(point)).enabled)
            for point in POINTS
        }

    def written_args(self, plugin: str) -> PluginArgs:
        """A plugin's arguments as the file has them, or as if it had none."""
        return written_args(self.plugin_config, plugin, ALL_ARGS)

    def args_of(self, plugin: str, type_: type[A]) -> A:
        """A plugin's effective arguments, every default filled in."""
        return completed_args(self.written_args(plugin), plugin, type_)


class DeschedulerConfiguration(Struct):
    leader_election: LeaderElection = LeaderElection(resource_name=names.LEASE_DESCHEDULER)
    "Which of several replicas moves pods."
    client_connection: ClientConnection = ClientConnection()
    "Accepted without effect."
    enable_profiling: bool = True
    "Accepted without effect."
    enable_contention_profiling: bool = True
    "Accepted without effect."
    healthz_bind_address: str = _DEFAULT_ADDRESS
    "Accepted without effect: see --metrics-address."
    metrics_bind_address: str = _DEFAULT_ADDRESS
    "Accepted without effect: see --metrics-address."
    descheduling_interval: NonNegativeDuration = "0s"
    "Time between two rounds; 0s is one round only."
    dry_run: bool = False
    "Whether events only say which pods would move."
    profiles: tuple[DeschedulerProfile, ...] = ()
    "Plugins and their arguments."
    node_selector: LabelSelector | None = None
    "Only nodes with these labels."
    max_no_of_pods_to_evict_per_node: Annotated[int, Meta(ge=0)] | None = None
    "Most pods that a round moves from a node."
    max_no_of_pods_to_evict_per_namespace: Annotated[int, Meta(ge=0)] | None = None
    "Most pods of a namespace that a round moves."
    max_no_of_pods_to_evict_total: Annotated[int, Meta(ge=0)] | None = None
    "Most pods that a round moves."

    def manifest(self) -> dict[str, Any]:
        """As plain data with apiVersion and kind: a file that `parse` reads back as the same configuration."""
        return HEADER.manifest(self)


def parse(data: object, what: str = "descheduler configuration") -> DeschedulerConfiguration:
    """A configuration from plain data; apiVersion and kind may be absent. Raises `Invalid` with all faults."""
    return read_file(what, data, HEADER, DeschedulerConfiguration, _with_names, _faults)


def _with_names(config: DeschedulerConfiguration, args: list[tuple[PluginConfig, ...]]) -> DeschedulerConfiguration:
    """With typed arguments, and the names and addresses that are only implied."""
    profiles = with_args(config.profiles, args, DeschedulerProfile())
    if len(profiles) == 1 and not profiles[0].name:
        profiles = (replace(profiles[0], name=names.LEASE_DESCHEDULER),)
    return replace(
        config,
        profiles=tuple(_with_cache_timeout(profile, config.descheduling_interval) for profile in profiles),
        leader_election=config.leader_election.named(names.LEASE_DESCHEDULER),
        healthz_bind_address=_address(config.healthz_bind_address),
        metrics_bind_address=_address(config.metrics_bind_address),
    )


def _with_cache_timeout(profile: DeschedulerProfile, interval: str) -> DeschedulerProfile:
    """Detectors must outlive a round, or they would never count to a second one."""
    configs = []
    for config in profile.plugin_config:
        args = config.args
        if isinstance(args, LowNodeLoadArgs) and parse_ns(args.detector_cache_timeout) < parse_ns(interval):
            config = replace(config, args=replace(args, detector_cache_timeout=interval))
        configs.append(config)
    return replace(profile, plugin_config=tuple(configs))


def _address(address: str) -> str:
    """`:10251` and a bare IP address are completed; anything else is left to be checked."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return f"0.0.0.0{address}" if address.startswith(":") else address
    return f"[{address}]:{names.PORT_DESCHEDULER}" if ip.version == 6 else f"{address}:{names.PORT_DESCHEDULER}"


def _address_fault(address: str) -> str | None:
    host, colon, port = address.rpartition(":")
    if not colon or natural_number(port, 65535) is None:
        return f"must be host:port, not {address!r}"
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        ipaddress.ip_address(bare)
    except ValueError:
        if dns_subdomain_fault(bare):
            return f"must have an IP address or a host name before the port, not {host!r}"
    return None


def _faults(config: DeschedulerConfiguration) -> list[Fault]:
    faults = [fault.under("leaderElection") for fault in config.leader_election.faults()]
    for name, address in (
        ("healthzBindAddress", config.healthz_bind_address),
        ("metricsBindAddress", config.metrics_bind_address),
    ):
        wrong = _address_fault(address)
        if wrong:
            faults.append(Fault(name, wrong))
    if config.node_selector is not None:
        faults += [fault.under("nodeSelector") for fault in selector_faults(config.node_selector)]
    faults += profile_name_faults("name", (profile.name for profile in config.profiles))
    for i, profile in enumerate(config.profiles):
        at = f"profiles[{i}]"
        if profile.node_selector is not None:
            faults += [fault.under(f"{at}.nodeSelector") for fault in selector_faults(profile.node_selector)]
        faults += [fault.under(f"{at}.plugins") for fault in _plugin_faults(profile)]
    return faults


def _plugin_faults(profile: DeschedulerProfile) -> list[Fault]:
    faults: list[Fault] = []
    mine = profile.plugins or Plugins()
    for point in POINTS:
        seen: set[str] = set()
        for i, plugin in enumerate(mine.at(point).enabled):
            at = f"{point}.enabled[{i}]"
            if plugin.name not in IMPLEMENTS:
                faults.append(Fault(f"{at}.name", _no_such(plugin.name)))
            elif point not in IMPLEMENTS[plugin.name]:
                has = ", ".join(IMPLEMENTS[plugin.name])
                faults.append(Fault(f"{at}.name", f"{plugin.name} has no {point} (it has {has})"))
            elif plugin.name in seen:
                faults.append(Fault(f"{at}.name", f"{plugin.name} is enabled twice"))
            seen.add(plugin.name)
            if plugin.weight is not None:
                faults.append(Fault(f"{at}.weight", "unknown field: plugins of the descheduler have no weight"))
        for i, plugin in enumerate(mine.at(point).disabled):
            if plugin.name != "*" and plugin.name not in IMPLEMENTS:
                faults.append(Fault(f"{point}.disabled[{i}].name", _no_such(plugin.name)))
    faults += _args_faults(profile)
    evict = profile.resolved()["evict"]
    if len(evict) != 1:
        faults.append(Fault("evict", f"needs exactly one plugin, but has {', '.join(evict) or 'none'}"))
    return faults


def _no_such(name: str) -> str:
    """All that there are: names of the Kubernetes descheduler's other plugins are no slips of the pen."""
    return f"there is no plugin {name!r}; koord has {', '.join(sorted(IMPLEMENTS))}"


def _args_faults(profile: DeschedulerProfile) -> Iterator[Fault]:
    """A plugin that cannot run on its defaults needs arguments."""
    written = {plugin.name for plugin in profile.plugin_config}
    mine = profile.plugins or Plugins()
    for point in ("deschedule", "balance"):
        for i, plugin in enumerate(mine.at(point).enabled):
            if plugin.name in ALL_ARGS and plugin.name not in written:
                for fault in ALL_ARGS[plugin.name]().completed().faults():
                    yield Fault(f"{point}.enabled[{i}].name", f"{plugin.name} needs arguments in pluginConfig: {fault}")


SHIPPED: Final = DeschedulerConfiguration(
    descheduling_interval="60s",
    profiles=(
        DeschedulerProfile(
            name=names.LEASE_DESCHEDULER,
            plugins=Plugins(balance=PluginSet(enabled=(PluginRef("LowNodeLoad"),))),
            plugin_config=(
                PluginConfig(
                    name="LowNodeLoad",
                    args=LowNodeLoadArgs(
                        low_thresholds={"cpu": 45.0, "memory": 55.0},
                        high_thresholds={"cpu": 75.0, "memory": 80.0},
                    ),
                ),
            ),
        ),
    ),
)
"""What runs by default: nodes above 75% of CPU or 80% of memory are relieved."""
