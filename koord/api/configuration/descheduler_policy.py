"""The policy file of the Kubernetes descheduler (kind DeschedulerPolicy of descheduler/v1alpha2), read as what koord's
descheduler does for it.

Its plugins that koord has keep their names and arguments. DefaultEvictor's arguments are those of MigrationController,
which evicts directly, since another scheduler keeps no place for a pod that is moved. Whatever koord has nothing for
is a fault, so that no rule is silently ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from koord.api.configuration import descheduler_config
from koord.api.configuration.descheduler_config import IMPLEMENTS, DeschedulerConfiguration
from koord.api.machinery.faults import Fault, Invalid, join

KIND: Final = "DeschedulerPolicy"
API_VERSION: Final = "descheduler/v1alpha2"
INTERVAL: Final = "5m"
"""Between two rounds. The Kubernetes descheduler is told by a flag; this is what its chart says."""

_EVICTOR: Final = "DefaultEvictor"
_LIMITS: Final = ("maxNoOfPodsToEvictPerNode", "maxNoOfPodsToEvictPerNamespace", "maxNoOfPodsToEvictTotal")
_SAME: Final = (
    "nodeSelector",
    "labelSelector",
    "priorityThreshold",
    "nodeFit",
    "evictLocalStoragePods",
    "evictSystemCriticalPods",
    "evictFailedBarePods",
    "ignorePvcPods",
)
"""Of DefaultEvictor, under the same names."""
_PROTECTIONS: Final[Mapping[tuple[str, str], str]] = {
    ("defaultDisabled", "PodsWithLocalStorage"): "evictLocalStoragePods",
    ("defaultDisabled", "SystemCriticalPods"): "evictSystemCriticalPods",
    ("defaultDisabled", "FailedBarePods"): "evictFailedBarePods",
    ("extraEnabled", "PodsWithPVC"): "ignorePvcPods",
}
_INSTEAD: Final = {
    "LowNodeUtilization": "LowNodeLoad, by what nodes really use, in a DeschedulerConfiguration",
    "HighNodeUtilization": "ScaleDownBinPack in a DeschedulerConfiguration",
    "RemoveFailedPods": "PodLifeTime with states: [Failed]",
}


def parse(document: Mapping[str, object], source: str) -> DeschedulerConfiguration:
    """Raises `Invalid` with everything that koord has nothing for."""
    faults: list[Fault] = []
    converted = _policy(document, faults)
    if faults:
        raise Invalid(source, faults)
    return descheduler_config.parse(converted, source)


def _policy(document: Mapping[str, object], faults: list[Fault]) -> dict[str, object]:
    _only(document, ("apiVersion", "kind", "profiles", "nodeSelector", *_LIMITS), "", faults)
    config: dict[str, object] = {"deschedulingInterval": INTERVAL}
    config |= {name: document[name] for name in _LIMITS if document.get(name) is not None}
    if text := document.get("nodeSelector"):
        config["nodeSelector"] = {"matchLabels": _labels(str(text), faults)}
    config["profiles"] = [
        _profile(profile, f"profiles[{i}]", faults) for i, profile in enumerate(_list(document.get("profiles")))
    ]
    return config


def _profile(profile: object, path: str, faults: list[Fault]) -> dict[str, object]:
    given = _map(profile)
    _only(given, ("name", "pluginConfig", "plugins"), path, faults)
    evictor: dict[str, object] = {"defaultJobMode": "EvictDirectly"}
    arguments: list[dict[str, object]] = []
    for i, plugin in enumerate(_list(given.get("pluginConfig"))):
        config, at = _map(plugin), f"{path}.pluginConfig[{i}]"
        name = str(config.get("name", ""))
        if name == _EVICTOR:
            evictor |= _evictor(_map(config.get("args")), f"{at}.args", faults)
        elif config.get("args") and _is_known(name, f"{at}.name", faults):
            arguments.append({"name": name, "args": config["args"]})
    plugins = _map(given.get("plugins"))
    chosen: dict[str, object] = {}
    for point in plugins:
        at = f"{path}.plugins.{point}"
        enabled = _list(_map(plugins[point]).get("enabled"))
        if point not in ("deschedule", "balance"):
            # DefaultEvictor is all that filters and sorts there; MigrationController does it here.
            faults += [
                Fault(at, f"koord has no {evict_plugin} there") for evict_plugin in enabled if evict_plugin != _EVICTOR
            ]
            continue
        plugin_names = [
            plugin_name
            for i, plugin_name in enumerate(enabled)
            if _is_known(str(plugin_name), f"{at}.enabled[{i}]", faults)
        ]
        chosen[point] = {"enabled": [{"name": plugin_name} for plugin_name in plugin_names]}
    return {
        "name": given.get("name", ""),
        "pluginConfig": [{"name": "MigrationController", "args": evictor}, *arguments],
        "plugins": chosen,
    }


def _evictor(args: Mapping[str, object], path: str, faults: list[Fault]) -> dict[str, object]:
    _only(args, ("apiVersion", "kind", "podProtections", *_SAME), path, faults)
    settings = {name: args[name] for name in _SAME if args.get(name) is not None}
    protections = _map(args.get("podProtections"))
    for how, listed in protections.items():
        for i, protection in enumerate(_list(listed)):
            at = f"{path}.podProtections.{how}[{i}]"
            if field := _PROTECTIONS.get((how, str(protection))):
                settings[field] = True
            else:
                faults.append(Fault(at, f"koord cannot do this for {protection}"))
    return settings


def _is_known(name: str, path: str, faults: list[Fault]) -> bool:
    if name in IMPLEMENTS:
        return True
    instead = _INSTEAD.get(name)
    faults.append(Fault(path, f"koord has no {name}" + (f"; take {instead}" if instead else "")))
    return False


def _labels(text: str, faults: list[Fault]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if not equals or name.endswith("!"):
            faults.append(Fault("nodeSelector", f"must be label=value pairs here, not {pair.strip()!r}"))
        labels[name.strip()] = value.lstrip("=").strip()
    return labels


def _only(given: Mapping[str, object], names: tuple[str, ...], path: str, faults: list[Fault]) -> None:
    faults += [
        Fault(join(path, name), "koord has nothing for this field; leave it out")
        for name in given
        if name not in names and given[name] not in (None, False, 0, "", [], {})
    ]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
