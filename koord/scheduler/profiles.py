"""Profiles from a KubeSchedulerConfiguration: which plugins judge pods of which scheduler name, in which order.

    profiles_of(config).profiles["koord-scheduler"]      for an Engine
    profiles_of(config).queue()                          the one queue that all of them share

What a configuration asks for and koord does not have is named in `warnings`, never dropped without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from koord.api.configuration.scheduler_args import ARGS
from koord.api.configuration.scheduler_config import Profile as Written
from koord.api.configuration.scheduler_config import SchedulerConfiguration
from koord.api.configuration.scheduler_plugins import IMPLEMENTS
from koord.api.protocol.names import SCHEDULER_DEFAULT
from koord.scheduler import registry
from koord.scheduler.framework.engine import POD_BOUNDS, Engine, Profile
from koord.scheduler.framework.plugin import Cells, Judge, Numbers, Plugin, Refused, Remedy
from koord.scheduler.own_plugins import OwnPlugin
from koord.scheduler.queue import Entity, Event, Gate, Hint, Queue, Sorter, Waker
from koord.scheduler.state.table import Row

if TYPE_CHECKING:
    from koord.scheduler.framework.ask import Ask
    from koord.scheduler.framework.change import Change
    from koord.scheduler.state.cluster import Cluster


CLOSING: Final = "NodeClosing"


@dataclass(frozen=True, slots=True)
class Profiles:
    """What a configuration comes to."""

    profiles: Mapping[str, Profile]
    "By scheduler name."
    sorter: Sorter
    gates: tuple[Gate, ...]
    warnings: tuple[str, ...]
    first_backoff_s: float
    longest_backoff_s: float

    def plugins(self) -> Iterator[Plugin]:
        """All plugins themselves, for those who feed them."""
        for profile in self.profiles.values():
            for plugin in profile.plugins:
                yield plugin.plugin if isinstance(plugin, _ScoreOnly) else plugin

    def queue(self, cluster: Cluster | None = None) -> Queue:
        """An empty queue for the pods of all profiles. With a cluster, plugins look closer at what happens there."""
        reasons: dict[str, int] = {}
        looking: dict[str, list[Plugin]] = {}
        for profile in self.profiles.values():
            for plugin in profile.plugins:
                reasons[plugin.name] = int(plugin.wakes_on) | reasons.get(plugin.name, 0)
                looking.setdefault(plugin.name, []).append(plugin)
        wakers = {name: Waker(each, _hint(looking[name], cluster)) for name, each in reasons.items()}
        wakers[POD_BOUNDS.name] = Waker(int(POD_BOUNDS.wakes_on))
        return Queue(
            self.sorter,
            wakers,
            self.gates,
            first_backoff_s=self.first_backoff_s,
            longest_backoff_s=self.longest_backoff_s,
        )


def _hint(plugins: Sequence[Plugin], cluster: Cluster | None) -> Hint | None:
    """The closer look of plugins of one name, of several profiles; None where one of them is helped by any event."""
    if cluster is None or any(type(plugin).helps is Plugin.helps for plugin in plugins):
        return None

    def helps(entity: Entity, event: Event) -> bool:
        for ask in entity.pods:
            for plugin in plugins:
                if plugin.helps(ask, event, cluster):
                    return True
        return False

    return helps


def profiles_of(config: SchedulerConfiguration, own: Sequence[OwnPlugin] = ()) -> Profiles:
    """The profiles of a configuration that `scheduler_config.parse` accepted; `own`: the user's plugins."""
    warnings: list[str] = []
    missing: dict[str, list[str]] = {}
    profiles: dict[str, Profile] = {}
    gates: dict[str, Gate] = {}
    sorter: Sorter | None = None
    for written in config.profiles:
        resolved = written.resolved()
        for name in resolved.names:
            if not registry.is_built(name):
                missing.setdefault(name, []).append(written.scheduler_name)
        profiles[written.scheduler_name] = _profile(written, own, warnings)
        for name in resolved.at["preEnqueue"]:
            if name in registry.PLUGINS and hasattr(plugin := registry.make(name, None), "blocks"):
                gates.setdefault(name, cast(Gate, plugin))
        for name in resolved.at["queueSort"]:
            if name in registry.PLUGINS:
                sorter = cast(Sorter, registry.make(name, None))
    warnings += _without_effect(config)
    if missing:
        listed = ", ".join(sorted(missing))
        of = ", ".join(dict.fromkeys(profile for profiles in missing.values() for profile in profiles))
        warnings.insert(0, f"plugins that take no part, since koord does not have them yet: {listed} (of {of})")
    return Profiles(
        profiles,
        # No configuration can be without one, and those that koord lacks were warned of.
        sorter or cast(Sorter, registry.make("PrioritySort", None)),
        tuple(gates.values()),
        tuple(warnings),
        float(config.pod_initial_backoff_seconds),
        float(config.pod_max_backoff_seconds),
    )


def _without_effect(config: SchedulerConfiguration) -> list[str]:
    """Settings that the configuration has, and that change nothing here."""
    found = []
    set_ = [each.scheduler_name for each in config.profiles if each.percentage_of_nodes_to_score]
    if config.percentage_of_nodes_to_score or set_:
        whose = f" (of {', '.join(set_)})" if set_ and not config.percentage_of_nodes_to_score else ""
        found.append(f"percentageOfNodesToScore has no effect{whose}: koord always looks at all nodes")
    if config.parallelism != SchedulerConfiguration().parallelism:
        found.append("parallelism has no effect: koord decides on one core")
    if config.delay_cache_until_active:
        found.append("delayCacheUntilActive has no effect: who stands by hears everything")
    return found


def profile_for(profiles: Collection[str], scheduler_name: str, *, alone: bool) -> str | None:
    """Whose a pod of that scheduler name is: the name of a profile, or None where that is another scheduler.

    `alone`: koord is the only scheduler; pods that name none are then the first profile's where no profile is theirs.
    """
    if scheduler_name in profiles:
        return scheduler_name
    return next(iter(profiles)) if alone and scheduler_name == SCHEDULER_DEFAULT else None


def _profile(written: Written, own: Sequence[OwnPlugin], warnings: list[str]) -> Profile:
    resolved = written.resolved()
    # A node meets filters in the order of that point, whatever the order of the others.
    points = ("filter", "preFilter", "score", "postFilter")
    order = dict.fromkeys(name for point in points for name in resolved.at[point])
    plugins: list[Plugin] = []
    for name in _with_closing(order, written):
        if name not in registry.PLUGINS:
            continue
        plugin = _make(name, written, warnings)
        filter_is_off = "filter" in IMPLEMENTS[name] and name not in (*resolved.at["filter"], CLOSING)
        refuses = name in resolved.at["preFilter"]
        plugin.before = resolved.at["preFilter"].index(name) if refuses else len(resolved.at["preFilter"])
        plugins.append(_ScoreOnly(plugin, refuses=refuses) if filter_is_off else plugin)
    weights = {name: weight for name, weight in resolved.weights.items() if name in registry.PLUGINS}
    for each in own:
        plugins.append(each.make())
        weights[each.kind.name] = each.weight
    return Profile(written.scheduler_name, tuple(plugins), weights)


def _with_closing(order: Collection[str], written: Written) -> Iterator[str]:
    """Files that were made for Koordinator do not know of it: it comes with the look at load, unless switched off."""
    sets = (written.plugins.filter, written.plugins.multi_point) if written.plugins is not None else ()
    is_added = CLOSING not in order and not any(CLOSING in each.disabled_names for each in sets)
    for name in order:
        yield name
        if name == "LoadAwareScheduling" and is_added:
            yield CLOSING


def _make(name: str, written: Written, warnings: list[str]) -> Plugin:
    type_ = ARGS.get(name)
    if type_ is not None and registry.takes_args(name):
        return registry.make(name, written.args_of(name, type_))
    if type_ is not None and written.written_args(name) != type_():
        warnings.append(f"profile {written.scheduler_name}: the arguments of {name} have no effect yet")
    return registry.make(name, None)


class _ScoreOnly(Plugin):
    """A plugin whose filter is switched off. What it finds out before filters it still says, unless that is off too."""

    def __init__(self, plugin: Plugin, *, refuses: bool) -> None:
        self.name, self.wakes_on, self.before = plugin.name, plugin.wakes_on, plugin.before
        self.plugin, self._refuses = plugin, refuses

    def attach(self, cluster: Cluster) -> None:
        self.plugin.attach(cluster)

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return self.plugin.key(ask, cluster)

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        judge = self.plugin.compile(ask, cluster)
        if judge is None or (self._refuses and isinstance(judge, Refused)):
            return judge
        return _Scoring(judge, pins=self._refuses)

    def reserve(self, ask: Ask, row: Row, cluster: Cluster) -> None:
        self.plugin.reserve(ask, row, cluster)

    def release(self, key: str, row: Row, cluster: Cluster) -> None:
        self.plugin.release(key, row, cluster)

    def permit(self, ask: Ask, row: Row, cluster: Cluster) -> float:
        return self.plugin.permit(ask, row, cluster)

    def pre_bind(self, ask: Ask, row: Row, cluster: Cluster) -> Mapping[str, Any] | None:
        return self.plugin.pre_bind(ask, row, cluster)

    @property
    def makes_room(self) -> bool:
        return self.plugin.makes_room

    def post_filter(self, ask: Ask, engine: Engine) -> Remedy | None:
        return self.plugin.post_filter(ask, engine)

    def services(self) -> Mapping[str, Callable[[str], object]]:
        return self.plugin.services()

    def keyed_by_spec(self, ask: Ask) -> bool:
        return self.plugin.keyed_by_spec(ask)


class _Scoring(Judge):
    def __init__(self, judge: Judge, *, pins: bool) -> None:
        self._judge, self._pins = judge, pins
        self.scores_on = judge.scores_on
        self.facets = tuple(facet for facet in judge.facets if not facet.gates)

    def score(self, cells: Cells) -> Numbers:
        return self._judge.score(cells)

    def only(self) -> list[Row] | None:
        return self._judge.only() if self._pins else None

    def reasons(self, mask: int) -> list[str]:
        return self._judge.reasons(mask)

    def unresolvable(self, mask: int, row: Row) -> bool:
        return self._judge.unresolvable(mask, row)

    def mend(self, ask: Ask, row: Row) -> Sequence[Change]:
        return self._judge.mend(ask, row)
