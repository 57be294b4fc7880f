"""Configuration files by what they say they are: apiVersion and kind.

`read` takes the text of a file (YAML or JSON) and gives the typed configuration; a fault tells where it is in the
document and what would be right, and all faults of a document come together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from koord.api.configuration import descheduler_config, descheduler_policy, scheduler_config, slo_config
from koord.api.configuration.component_config import unknown
from koord.api.configuration.descheduler_config import DeschedulerConfiguration
from koord.api.configuration.scheduler_config import SchedulerConfiguration
from koord.api.configuration.slo_config import SloConfig
from koord.api.machinery.faults import Fault, Invalid
from koord.api.protocol.names import CONFIGMAP_SLO_CONTROLLER
from koord.api.text import yaml

Configuration: TypeAlias = SchedulerConfiguration | DeschedulerConfiguration | SloConfig


def read(text: str, source: str) -> Configuration:
    """The configuration in a file's text. `source` names the file in reports."""
    return convert(yaml.load(text, source), source)


def convert(document: object, source: str) -> Configuration:
    """The configuration in a parsed document. Raises `Invalid`."""
    if not isinstance(document, Mapping):
        raise Invalid(source, [Fault("", f"must be an object with apiVersion and kind: {_valid()}")])
    version, kind = document.get("apiVersion"), document.get("kind")
    missing = [Fault(name, f"is required: {_valid()}") for name in ("apiVersion", "kind") if not document.get(name)]
    if missing:
        raise Invalid(source, missing)
    versions, reader = _KINDS.get(str(kind), ((), None))
    if reader is None:
        raise Invalid(source, [Fault("kind", f"{unknown(str(kind), 'configuration of kind', _KINDS)}; {_valid()}")])
    if version not in versions:
        raise Invalid(source, [Fault("apiVersion", f"must be {' or '.join(versions)} for {kind}, not {version!r}")])
    return reader(document, source)


def _slo_config(document: Mapping[str, object], source: str) -> SloConfig:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    data = document.get("data") or {}
    faults = []
    if name != CONFIGMAP_SLO_CONTROLLER:
        faults.append(Fault("metadata.name", f"must be {CONFIGMAP_SLO_CONTROLLER}, not {name!r}"))
    if not isinstance(data, Mapping) or not all(isinstance(text, str) for text in data.values()):
        faults.append(Fault("data", "must be a map of texts, each of them JSON"))
        raise Invalid(source, faults)
    try:
        config = slo_config.parse({str(key): str(text) for key, text in data.items()})
    except Invalid as invalid:
        raise Invalid(source, [*faults, *(fault.under("data") for fault in invalid.faults)]) from None
    if faults:
        raise Invalid(source, faults)
    return config


_KINDS: Final[Mapping[str, tuple[tuple[str, ...], Callable[[Mapping[str, object], str], Configuration]]]] = {
    scheduler_config.KIND: (scheduler_config.API_VERSIONS, scheduler_config.parse),
    descheduler_config.KIND: ((descheduler_config.API_VERSION,), descheduler_config.parse),
    descheduler_policy.KIND: ((descheduler_policy.API_VERSION,), descheduler_policy.parse),
    "ConfigMap": (("v1",), _slo_config),
}


def _valid() -> str:
    return "valid are " + ", ".join(f"{kind} of {versions[0]}" for kind, (versions, _) in _KINDS.items())
