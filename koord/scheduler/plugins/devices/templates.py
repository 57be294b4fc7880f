"""Templates for cutting a GPU or NPU into parts: a part must match exactly one of them.

They are in a ConfigMap, below the key `data.yaml`, by vendor and model:

    huawei-Ascend-310P:
      vir02: {huawei.com/npu-core: 2, huawei.com/npu-cpu: 2, huawei.com/npu-dvpp: 25, koordinator.sh/gpu-memory: 6Gi}

A model whose templates cannot be read has none; the others have theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from koord.api.kubernetes.core import ConfigMap
from koord.api.kubernetes.resources import amounts
from koord.api.machinery.faults import BadInput, Fault, Invalid, check
from koord.api.protocol import names
from koord.api.text import yaml
from koord.api.text.quantity import ResourceList, render
from koord.api.text.stored import stored_amount
from koord.scheduler.state.pods import Amounts

KEY: Final = "data.yaml"
MOST_TOLD: Final = 4
USUAL: Final = f"{names.NAMESPACE_KOORDINATOR}/{names.CONFIGMAP_GPU_SHARED_RESOURCE_TEMPLATES}"
"""The ConfigMap, where the plugin's arguments name no other."""


@dataclass(frozen=True, slots=True)
class Templates:
    """What is known of them."""

    needed_for: frozenset[str] = frozenset({names.RESOURCE_HUAWEI_NPU_CORE})
    "A part that names one of these resources must be a template."
    source: str = USUAL
    "Namespace and name of the ConfigMap."
    by_model: Mapping[str, Mapping[str, Amounts]] = field(default_factory=dict)
    "By vendor and model, and by name."

    def matching(self, per_device: Amounts) -> tuple[tuple[str, str], ...]:
        """The models that have a template of exactly these amounts, and its name there."""
        matching_names: dict[str, str] = {}
        for model, templates in sorted(self.by_model.items()):
            for name, offers in sorted(templates.items()):
                if offers == per_device:
                    matching_names.setdefault(model, name)
        return tuple(matching_names.items())

    def listing(self) -> str:
        """For people whose pod asks for something else."""
        if not self.by_model:
            return f"no template is known (ConfigMap {self.source})"
        every = [
            f"{name} of {model} ({', '.join(f'{render(key, amount)} {key}' for key, amount in offers)})"
            for model, templates in sorted(self.by_model.items())
            for name, offers in sorted(templates.items())
        ]
        more = f" and {len(every) - MOST_TOLD} more" if len(every) > MOST_TOLD else ""
        return f"templates are {'; '.join(every[:MOST_TOLD])}{more}"


def model_of(labels: Mapping[str, str], of_device: Mapping[str, str]) -> str:
    """The key of a node's templates, by its own labels or those of its Device object."""

    def said(key: str) -> str:
        return labels.get(key) or of_device.get(key, "")

    return f"{said(names.LABEL_GPU_VENDOR)}-{said(names.LABEL_GPU_MODEL)}"


def read(config: ConfigMap) -> Mapping[str, Mapping[str, Amounts]]:
    """By vendor and model: those that can be understood."""
    return {model: templates for model, templates in _read(config) if not isinstance(templates, Invalid)}


def faults(config: ConfigMap) -> Iterator[Fault]:
    """What is wrong with the ConfigMap."""
    for _, offer in _read(config):
        if isinstance(offer, Invalid):
            yield from offer.faults


def _read(config: ConfigMap) -> Iterator[tuple[str, Mapping[str, Amounts] | Invalid]]:
    where = f"data[{KEY}]"
    try:
        said = yaml.load(config.data.get(KEY, "{}"), KEY) or {}
    except BadInput as error:
        yield "", Invalid("", [Fault(where, f"{error}: no template is known")])
        return
    if not isinstance(said, Mapping):
        yield "", Invalid("", [Fault(where, "must be an object: templates by vendor and model, and by name")])
        return
    for model, templates in said.items():
        try:
            yield str(model), _of_model(templates)
        except Invalid as error:
            yield str(model), Invalid("", [fault.under(f"{where}.{model}") for fault in error.faults])


def _of_model(said: object) -> Mapping[str, Amounts]:
    templates = check(dict[str, ResourceList], said, "")
    return {
        name: tuple(sorted((key, stored_amount(amount)) for key, amount in amounts(offers).items() if amount > 0))
        for name, offers in templates.items()
    }
