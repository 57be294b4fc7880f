"""What the configuration files of all components share: leader election, client limits, sets of plugins, reading them.

A file is checked whole: `Reader` walks every part of it, and all faults of all parts come in one report.
Plugin arguments have a type each (`PluginArgs`), found by the plugin's name, so a misspelt field is a fault with its
path, whatever plugin it is in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar, cast

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from koord.api.machinery.faults import Fault, Invalid, join
from koord.api.machinery.salvage import salvage
from koord.api.machinery.struct import Struct
from koord.api.text.duration import Duration, parse_duration

T = TypeVar("T")
A = TypeVar("A", bound="PluginArgs")
P = TypeVar("P", bound=Struct)


def _not_negative(text: object) -> None:
    if parse_duration(str(text)) < 0:
        raise ValueError(f"must be 0s or longer, not {text}")


NonNegativeDuration = Annotated[Duration, Meta(extra={"check": _not_negative})]


class LeaderElection(Struct):
    """Which of several replicas is active. Leases have Koordinator's names, so that old and new never both lead."""

    leader_elect: bool = True
    "Whether several replicas elect the one that works."
    lease_duration: Duration = "15s"
    "Time after which another replica may take over, since the last renewal."
    renew_deadline: Duration = "10s"
    "Time after which a leader that cannot renew its lease stops."
    retry_period: Duration = "2s"
    "Time between two attempts to acquire or renew the lease."
    resource_lock: str = "leases"
    "Kind of the lock. Only leases are supported."
    resource_name: str = ""
    "Name of the lease."
    resource_namespace: str = "koordinator-system"
    "Namespace of the lease."

    def named(self, lease: str) -> LeaderElection:
        """With the component's own lease where none is written."""
        return self if self.resource_name else replace(self, resource_name=lease)

    def faults(self) -> Iterable[Fault]:
        """What Kubernetes' components refuse: only while electing does any of it matter."""
        if not self.leader_elect:
            return
        lease_s, renew_s = parse_duration(self.lease_duration), parse_duration(self.renew_deadline)
        for name, seconds in (
            ("leaseDuration", lease_s),
            ("renewDeadline", renew_s),
            ("retryPeriod", parse_duration(self.retry_period)),
        ):
            if seconds <= 0:
                yield Fault(name, "must be longer than 0s")
        if lease_s <= renew_s:
            yield Fault("leaseDuration", f"must be longer than renewDeadline ({self.renew_deadline})")
        if self.resource_lock != "leases":
            yield Fault("resourceLock", f"must be leases, not {self.resource_lock!r}")
        for name, value in (("resourceName", self.resource_name), ("resourceNamespace", self.resource_namespace)):
            if not value:
                yield Fault(name, "is required")


class ClientConnection(Struct):
    """How a component talks to the API server."""

    kubeconfig: str = ""
    "Accepted without effect: see --kubeconfig."
    accept_content_types: str = ""
    "Accepted without effect."
    content_type: str = ""
    "Accepted without effect."
    qps: float = 50
    "Accepted without effect."
    burst: Annotated[int, Meta(ge=0)] = 100
    "Accepted without effect."


class PluginArgs(Struct):
    """Base of all plugin arguments. Fields hold what was written; `completed` fills in what depends on other fields."""

    def completed(self: A) -> A:
        """With every default in place, also those that other fields decide about."""
        return self

    def faults(self) -> Iterable[Fault]:
        """What is wrong with the completed arguments beyond the types of single fields."""
        return ()


class PluginRef(Struct):
    """A plugin in a list of plugins. `*` in a list of disabled ones means all."""

    name: str
    "Name of the plugin."
    weight: int | None = None
    "Weight of the plugin's scores."


class PluginSet(Struct):
    enabled: tuple[PluginRef, ...] = ()
    "Plugins that run, in this order, in addition to the defaults."
    disabled: tuple[PluginRef, ...] = ()
    "Defaults that do not run."

    @property
    def disabled_names(self) -> frozenset[str]:
        return frozenset(plugin.name for plugin in self.disabled)

    def merged_over(self, default: PluginSet) -> PluginSet:
        """This set on top of a default one, as Kubernetes merges them.

        Disabled defaults go, a default that is enabled again is replaced where it stood, new ones are appended.
        """
        disabled = self.disabled_names | default.disabled_names
        mine = {plugin.name: index for index, plugin in enumerate(self.enabled)}
        enabled: list[PluginRef] = []
        used: set[int] = set()
        if "*" not in disabled:
            for plugin in default.enabled:
                if plugin.name in disabled:
                    continue
                index = mine.get(plugin.name)
                enabled.append(plugin if index is None else self.enabled[index])
                if index is not None:
                    used.add(index)
        enabled += [plugin for index, plugin in enumerate(self.enabled) if index not in used]
        return PluginSet(enabled=tuple(enabled), disabled=(*self.disabled, *default.disabled))


class PluginConfig(Struct):
    """The arguments of one plugin. `args` is a `PluginArgs` once it has been read."""

    name: str
    "Name of the plugin."
    args: Any = None
    "Arguments of the plugin: see below."


def written_args(configs: Iterable[PluginConfig], plugin: str, args_of: Mapping[str, type[PluginArgs]]) -> PluginArgs:
    """A plugin's arguments as the file has them, or as if it had none."""
    for config in configs:
        if config.name == plugin:
            return cast(PluginArgs, config.args)
    return args_of[plugin]()


def completed_args(args: PluginArgs, plugin: str, type_: type[A]) -> A:
    """A plugin's effective arguments, every default filled in."""
    if not isinstance(args, type_):
        raise TypeError(f"the arguments of {plugin} are {type(args).__name__}, not {type_.__name__}")
    return args.completed()


class Header(NamedTuple):
    """What the files of one component begin with, and which arguments their plugins have."""

    kind: str
    api_versions: tuple[str, ...]
    "The first is what `manifest` writes."
    args: Mapping[str, type[PluginArgs]]
    older_only: tuple[str, ...] = ()
    "Fields that only versions other than the first have. They are skipped."

    def manifest(self, config: Struct) -> dict[str, Any]:
        """As plain data with apiVersion and kind: a file that is read back as the same configuration."""
        return {"apiVersion": self.api_versions[0], "kind": self.kind, **plain(config)}


class Reader:
    """Reads the parts of one file and gathers the faults of all of them."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.faults: list[Fault] = []

    def add(self, path: str, faults: Iterable[Fault]) -> None:
        """Notes faults, but for those at a place that is known to be faulty: they would only follow from it."""
        paths = {fault.path for fault in self.faults if fault.path}
        self.faults += [fault for fault in (fault.under(path) for fault in faults) if fault.path not in paths]

    def part(self, type_: type[T], data: object, path: str = "") -> T | None:
        """`data` as `type_`, without its faulty parts; None where nothing is left."""
        value, faults = salvage(type_, data)
        self.add(path, faults)
        return value

    def file(self, type_: type[T], data: object, header: Header) -> tuple[T | None, list[tuple[PluginConfig, ...]]]:
        """A whole file, with the typed arguments of each of its profiles; apiVersion and kind may be absent."""
        body = dict(data) if isinstance(data, Mapping) else data
        profiles: list[object] = []
        if isinstance(body, dict):
            newest = header.api_versions[0]
            version, kind = body.pop("apiVersion", newest), body.pop("kind", header.kind)
            if version not in header.api_versions:
                wanted = " or ".join(header.api_versions)
                self.add("", [Fault("apiVersion", f"must be {wanted}, not {version!r}")])
            if kind != header.kind:
                self.add("", [Fault("kind", f"must be {header.kind}, not {kind!r}")])
            if version != newest:
                for name in header.older_only:
                    body.pop(name, None)
            profiles_written = body.get("profiles")
            profiles = list(profiles_written) if isinstance(profiles_written, list | tuple) else []
        args = [
            self.plugin_config(
                raw.get("pluginConfig") if isinstance(raw, Mapping) else None,
                f"profiles[{i}].pluginConfig",
                header.args,
                header.api_versions,
            )
            for i, raw in enumerate(profiles)
        ]
        return self.part(type_, body), args

    def plugin_config(
        self,
        data: object,
        path: str,
        args_of: Mapping[str, type[PluginArgs]],
        api_versions: Sequence[str],
    ) -> tuple[PluginConfig, ...]:
        """A list of `{name, args}`, each with the arguments' type that its name calls for."""
        if not isinstance(data, list | tuple):
            return ()  # absent, or a fault of the profile's own type
        configs: list[PluginConfig] = []
        first_at: dict[str, int] = {}
        for i, item in enumerate(data):
            at = f"{path}[{i}]"
            name = item.get("name") if isinstance(item, Mapping) else None
            if not isinstance(name, str):
                continue
            if name in first_at:
                self.add(at, [Fault("name", f"{name} is configured twice; first at {path}[{first_at[name]}]")])
            first_at.setdefault(name, i)
            if name not in args_of:
                self.add(at, [Fault("name", unknown(name, "plugin with arguments", args_of))])
                continue
            args = self.args(name, args_of[name], item.get("args"), join(at, "args"), api_versions)
            if args is not None:
                configs.append(PluginConfig(name=name, args=args))
        return tuple(configs)

    def args(self, name: str, type_: type[A], data: object, path: str, api_versions: Sequence[str]) -> A | None:
        body = {} if data is None else data
        if isinstance(body, Mapping):
            body = dict(body)
            version, kind = body.pop("apiVersion", None), body.pop("kind", None)
            if version is not None and version not in api_versions:
                self.add(path, [Fault("apiVersion", f"must be {' or '.join(api_versions)}, not {version!r}")])
            if kind is not None and kind != f"{name}Args":
                self.add(path, [Fault("kind", f"must be {name}Args, as the plugin is {name}, not {kind!r}")])
        args = self.part(type_, body, path)
        if args is not None:
            self.add(path, args.completed().faults())
        return args

    def done(self) -> None:
        """Raises `Invalid` if there were faults."""
        if self.faults:
            raise Invalid(self.what, self.faults)


def read_file(
    what: str,
    data: object,
    header: Header,
    type_: type[T],
    complete: Callable[[T, list[tuple[PluginConfig, ...]]], T],
    faults: Callable[[T], Iterable[Fault]],
) -> T:
    """A configuration from plain data; apiVersion and kind may be absent. Raises `Invalid` with all faults. `complete`
    fills in what is only implied, with the typed arguments of each profile; `faults` looks at the whole."""
    reader = Reader(what)
    config, args = reader.file(type_, data, header)
    if config is not None:
        config = complete(config, args)
        reader.add("", faults(config))
    reader.done()
    assert config is not None  # otherwise there were faults
    return config


def with_args(profiles: tuple[P, ...], args: Iterable[tuple[PluginConfig, ...]], otherwise: P) -> tuple[P, ...]:
    """Profiles with their typed arguments; the default profile if a file has none."""
    if not profiles:
        return (otherwise,)
    return tuple(replace(profile, plugin_config=typed) for profile, typed in zip(profiles, args, strict=True))


def profile_name_faults(field: str, names: Iterable[str]) -> Iterable[Fault]:
    """Profiles must have names of their own, in `field`."""
    first_at: dict[str, int] = {}
    for i, name in enumerate(names):
        at = f"profiles[{i}].{field}"
        if not name:
            yield Fault(at, "is required where there are several profiles")
        elif name in first_at:
            yield Fault(at, f"{name} is also the name of profiles[{first_at[name]}]")
        first_at.setdefault(name, i)


def unknown(name: str, noun: str, valid: Iterable[str]) -> str:
    """That a name is not known, with the nearest one, or else all that are."""
    import difflib

    names = sorted(valid)
    longer = [other for other in names if name and other.startswith(name)]
    near = longer if len(longer) == 1 else difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
    return f"there is no {noun} {name!r} ({hint})"


def merged(base: Mapping[str, T], over: Mapping[str, T]) -> Mapping[str, T]:
    """Two maps, entries of the second winning."""
    return {**base, **over}


def plain(config: Struct) -> dict[str, Any]:
    """A configuration as plain data, defaults left out: what `parse` reads back as the same configuration."""
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(config))
    return data


def item_faults(path: str, items: Iterable[T], faults: Callable[[T], Iterable[Fault]]) -> Iterable[Fault]:
    """The faults of every item of a list, under its index."""
    for i, item in enumerate(items):
        for fault in faults(item):
            yield fault.under(f"{path}[{i}]")
