"""Settings of a node's co-location strategy: values that are certain to be there, and where each was set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from koord.api.configuration.layer import Layer
from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.api.machinery.struct import json_name

T = TypeVar("T")


def given(value: T | None) -> T:
    """A setting that has a default, hence a value."""
    assert value is not None, "a strategy must be laid over the defaults before it is used"
    return value


def setting(strategy: ColocationStrategy, field: str) -> str:
    """As a user would write it: `cpuReclaimThresholdPercent 60`."""
    return f"{json_name(field)} {getattr(strategy, field)}"


def set_in(field: str, layers: Sequence[Layer]) -> str:
    """The place that a setting's value comes from; `default` if no layer sets it."""
    for layer in reversed(layers):
        if getattr(layer.settings, field, None) is not None:
            return layer.where
    return "default"
