"""Profiles from a KubeSchedulerConfiguration: for each scheduler name, the plugins that judge its pods, in order.

    profiles_of(config).profiles["koord-scheduler"]      for an Engine
    profiles_of(config).queue()                          the one queue that all of them share

What a configuration asks for and koord does not have is named in `warnings`, never dropped without a word.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from koord.api.configuration.features import SchedulerGate
from koord.api.configuration.scheduler_args import ARGS
from koord.api.configuration.scheduler_config import SchedulerConfiguration
from koord.api.configuration.scheduler_config import SchedulerProfile as Written
from koord.api.configuration.scheduler_plugins import IMPLEMENTS
from koord.api.configuration.without_effect import configuration_warning
from koord.api.kinds import PODS
from koord.api.protocol.names import SCHEDULER_DEFAULT
from koord.scheduler import registry
from koord.scheduler.core.entity import Entity
from koord.scheduler.core.heaps import Order
from koord.scheduler.core.queue import ClusterEvent, Gate, Hint, Queue, Waker
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.framework.profile import POD_BOUNDS, Profile
from koord.scheduler.own_plugins import OwnPlugin
from koord.scheduler.plugins import priority_sort

if TYPE_CHECKING:
    from koord.scheduler.state.cluster import Cluster


CLOSING: Final = "NodeClosing"
AVOIDING: Final = "InterferenceAvoidance"
AVOIDING_WEIGHT: Final = 2
"""The weight of inter-pod affinity: interference avoidance is a learnt form of it."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """What a configuration comes to."""

    profiles: Mapping[str, Profile]
    "By scheduler name."
    order: Order
    "Sorts the one queue that all profiles share."
    warnings: tuple[str, ...]
    first_backoff_s: float
    longest_backoff_s: float

    def plugins(self) -> Iterator[Plugin]:
        """All plugins, for the feed."""
        for profile in self.profiles.values():
            yield from profile.plugins

    def queue(self, cluster: Cluster | None = None) -> Queue:
        """An empty queue for the pods of all profiles. With a cluster, plugins look closer at what happens there."""
        reasons: dict[str, int] = {}
        looking: dict[str, list[Plugin]] = {}
        for plugin in self.plugins():
            reasons[plugin.name] = int(plugin.wakes_on) | reasons.get(plugin.name, 0)
            looking.setdefault(plugin.name, []).append(plugin)
        wakers = {name: Waker(waker_reasons, _hint(looking[name], cluster)) for name, waker_reasons in reasons.items()}
        wakers[POD_BOUNDS.name] = Waker(int(POD_BOUNDS.wakes_on))
        gates = []
        for profile in self.profiles.values():
            wakes_on = {plugin.name: int(plugin.wakes_on) for plugin in profile.plugins}
            for name, queueing in profile.at("preEnqueue", "queueing"):
                if queueing.blocks is not None:
                    gates.append(Gate(queueing.blocks, wakes_on[name], profile.name))
        return Queue(
            self.order,
            wakers,
            gates,
            first_backoff_s=self.first_backoff_s,
            longest_backoff_s=self.longest_backoff_s,
        )


def _hint(plugins: Sequence[Plugin], cluster: Cluster | None) -> Hint | None:
    """The closer look of plugins of one name, of several profiles; None where one of them is helped by any event."""
    looks = [
        plugin.queueing.helps for plugin in plugins if plugin.queueing is not None and plugin.queueing.helps is not None
    ]
    if cluster is None or len(looks) < len(plugins):
        return None

    def helps(entity: Entity, event: ClusterEvent) -> bool:
        for ask in entity.pods:
            for look in looks:
                try:
                    if look(ask, event, cluster):
                        return True
                except Exception as error:  # noqa: BLE001 - the shield reports it; a needless retry costs nothing
                    cluster.shield.failed("say whether a change helps it", error, PODS, ask.meta)
                    return True
        return False

    return helps


def profiles_of(
    config: SchedulerConfiguration, own: Sequence[OwnPlugin] = (), gates: Mapping[SchedulerGate, bool] | None = None
) -> Profiles:
    """The profiles of a configuration that `scheduler_config.parse` accepted; `own`: the user's plugins."""
    warnings: list[str] = []
    missing: dict[str, list[str]] = {}
    profiles: dict[str, Profile] = {}
    for written in config.profiles:
        for name in written.resolved().names:
            if not registry.is_built(name):
                missing.setdefault(name, []).append(written.scheduler_name)
        profiles[written.scheduler_name] = _profile(written, own, warnings, gates)
    warnings += _without_effect(config)
    if missing:
        listed = ", ".join(sorted(missing))
        of = ", ".join(dict.fromkeys(profile for profiles in missing.values() for profile in profiles))
        warnings.insert(0, f"plugins that take no part, since koord does not have them yet: {listed} (of {of})")
    if idle := configuration_warning(config):
        warnings.append(idle)
    # All profiles must sort alike, so that any of them has the one order.
    queueing = (part for profile in profiles.values() for _, part in profile.at("queueSort", "queueing"))
    orders: Iterator[Order] = (part.order for part in queueing if part.order is not None)
    return Profiles(
        profiles,
        # No configuration can be without one, and those that koord lacks were warned of.
        next(orders, priority_sort.order),
        tuple(warnings),
        float(config.pod_initial_backoff_seconds),
        float(config.pod_max_backoff_seconds),
    )


def _without_effect(config: SchedulerConfiguration) -> list[str]:
    """Settings that the configuration has, and that change nothing here."""
    warnings = []
    set_ = [profile.scheduler_name for profile in config.profiles if profile.percentage_of_nodes_to_score]
    if config.percentage_of_nodes_to_score or set_:
        whose = f" (of {', '.join(set_)})" if set_ and not config.percentage_of_nodes_to_score else ""
        warnings.append(f"percentageOfNodesToScore has no effect{whose}: koord always looks at all nodes")
    if config.parallelism != SchedulerConfiguration().parallelism:
        warnings.append("parallelism has no effect: koord decides on one core")
    if config.delay_cache_until_active:
        warnings.append("delayCacheUntilActive has no effect: a standby receives everything")
    return warnings


def profile_for(profiles: Collection[str], scheduler_name: str, *, alone: bool) -> str | None:
    """Whose a pod of that scheduler name is: the name of a profile, or None where that is another scheduler.

    `alone`: koord is the only scheduler; pods that name none are then the first profile's where no profile is theirs.
    """
    if scheduler_name in profiles:
        return scheduler_name
    return next(iter(profiles)) if alone and scheduler_name == SCHEDULER_DEFAULT else None


def _profile(
    written: Written, own: Sequence[OwnPlugin], warnings: list[str], gates: Mapping[SchedulerGate, bool] | None
) -> Profile:
    resolved = written.resolved()
    # A node meets filters in the order of that point, whatever the order of the others.
    points = ("filter", "preFilter", "score", "postFilter", "reserve", "permit", "preBind", "preEnqueue", "queueSort")
    order = dict.fromkeys(name for point in points for name in resolved.at[point])
    plugins: list[Plugin] = []
    scores_only: dict[str, bool] = {}
    judging_not: set[str] = set()
    for name in _with_own(order, written):
        if name not in registry.PLUGINS:
            continue
        plugin = _make(name, written, warnings, gates)
        refuses = name in resolved.at["preFilter"]
        is_added = name in (CLOSING, AVOIDING)
        if not any(name in resolved.at[point] for point in ("filter", "preFilter", "score")) and not is_added:
            judging_not.add(name)
        elif "filter" in IMPLEMENTS[name] and name not in (*resolved.at["filter"], CLOSING):
            scores_only[name] = refuses
        plugins.append(plugin)
    weights = {name: weight for name, weight in resolved.weights.items() if name in registry.PLUGINS}
    if any(plugin.name == AVOIDING for plugin in plugins):
        weights.setdefault(AVOIDING, AVOIDING_WEIGHT)
    for own_plugin in own:
        plugins.append(own_plugin.make())
        weights[own_plugin.kind.name] = own_plugin.weight
    at = {point: tuple(names) for point, names in resolved.at.items()}
    return Profile(written.scheduler_name, tuple(plugins), weights, at, scores_only, frozenset(judging_not))


def _with_own(order: Collection[str], written: Written) -> Iterator[str]:
    """Files that were made for Koordinator do not know of koord's own: they come with the look at load, unless they are
    switched off."""
    sets = written.plugins
    off = {
        CLOSING: (sets.filter, sets.multi_point) if sets is not None else (),
        AVOIDING: (sets.score, sets.multi_point) if sets is not None else (),
    }
    added = [
        name
        for name, where in off.items()
        if name not in order and not any(name in plugin_set.disabled_names for plugin_set in where)
    ]
    for name in order:
        yield name
        if name == "LoadAwareScheduling":
            yield from added


def _make(name: str, written: Written, warnings: list[str], gates: Mapping[SchedulerGate, bool] | None) -> Plugin:
    type_ = ARGS.get(name)
    if type_ is not None and registry.takes_args(name):
        return registry.make(name, written.args_of(name, type_), gates)
    if type_ is not None and written.written_args(name) != type_():
        warnings.append(f"profile {written.scheduler_name}: the arguments of {name} have no effect yet")
    return registry.make(name, None, gates)
