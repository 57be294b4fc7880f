"""What `--set KEY=VALUE` changes in a scenario.

A key is a field of the scenario as its file has it, with dots between levels (`batch.pending`, `faults.reportLag`).
Settings of lending and of thresholds are also found by their own name, as `slo-controller-config` has them:
`cpuReclaimThresholdPercent` stands for `colocation.cpuReclaimThresholdPercent`. With a pool the settings are those
of the pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import fields

from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.api.machinery.faults import BadInput, Fault, Invalid, unknown_field
from koord.api.protocol.crd.node_slo import ResourceThresholdStrategy
from koord.api.text import yaml
from koord.sim.scenario import Pool, Scenario, from_data

SECTIONS: Final[Mapping[str, type[msgspec.Struct]]] = {
    "colocation": ColocationStrategy,
    "thresholds": ResourceThresholdStrategy,
}
"""Parts of a scenario whose fields are found without their prefix."""
CONFIGURATION: Final = "or of colocation-config or resource-threshold-config in slo-controller-config"
WITHOUT_EFFECT: Final = frozenset({"enable", "cpuCalculatePolicy", "memoryCalculatePolicy"})
"""Fields of the sections that the policy of a scenario stands for."""


def pair(text: str) -> tuple[str, str]:
    """A key and its value, from the text of one `--set`."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip() or not value.strip():
        raise BadInput(f"--set {text!r}: must be KEY=VALUE, as in cpuReclaimThresholdPercent=70")
    return key.strip(), value.strip()


def pairs(texts: tuple[str, ...]) -> dict[str, str]:
    """The values of several `--set`, each key once."""
    values: dict[str, str] = {}
    for text in texts:
        key, value = pair(text)
        if key in values:
            raise BadInput(f"--set {key}: is given twice")
        values[key] = value
    return values


def overridden(scenario: Scenario, values: Mapping[str, str], pool: str = "", option: str = "--set") -> Scenario:
    """The scenario with other values. `pool`: only for this pool of nodes. Raises `Invalid` with all faults, by key."""
    if not values:
        return scenario
    data = msgspec.to_builtins(scenario)
    if pool and pool not in scenario.cluster.pools:
        valid = ", ".join(sorted(scenario.cluster.pools)) or "none, the scenario has no pools"
        raise BadInput(f"--pool {pool}: is not a pool of the scenario (valid: {valid})")
    faults = []
    for key, value in values.items():
        path = _path(key, pool)
        if isinstance(path, Fault):
            faults.append(path)
        else:
            _put(data, path, yaml.load(value, f"{option} {key}"))
    if faults:
        raise Invalid(option, faults)
    return from_data(data, option)


def _path(key: str, pool: str) -> tuple[str, ...] | Fault:
    """The fields on the way to a value."""
    own: dict[str, tuple[str, ...]] = {}
    for section, type_ in SECTIONS.items():
        own |= {name: (section, name) for name in _names(type_) - WITHOUT_EFFECT}
    at = ("pools", pool) if pool else ()
    top = _names(Pool if pool else Scenario)
    head, *rest = key.split(".")
    if head in own and not rest:
        return (*at, *own[head])
    if head in top and (rest or head not in SECTIONS):
        return (*at, head, *rest)
    if head in SECTIONS:
        return Fault(key, "is a section: name one of its fields, as in cpuReclaimThresholdPercent")
    if head in WITHOUT_EFFECT:
        return Fault(key, "has no effect here: policy=NAME says how to lend, and policy=none lends nothing")
    fault = unknown_field(key, own.keys() | top)
    if "did you mean" in fault.message:
        return fault
    return Fault(key, f"{fault.message}: must be a field of {'a pool' if pool else 'the scenario'}, {CONFIGURATION}")


def _names(type_: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in fields(type_)}


def _put(data: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    *above, last = path
    for name in above:
        if not isinstance(data.get(name), dict):
            data[name] = {}
        data = data[name]
    data[last] = value
