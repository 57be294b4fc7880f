"""Amplification: the factor for a node's allocatable. The node webhook applies the factor.

    ratio of cpu = configured (or 1) * what the node's CPUs are worth, as the node says now

A ratio below 1 or above 500 is an error; where there is nothing to amplify, or an error, the annotation goes away.
"""

from __future__ import annotations

from typing import Final

from koord.api.configuration.slo_config import NodeSettings
from koord.api.configuration.slo_config_types import RESOURCE_AMPLIFICATION
from koord.api.protocol import names
from koord.api.protocol.annotations.colocation import CPU_NORMALIZATION_RATIO, RESOURCE_AMPLIFICATION_RATIO
from koord.api.protocol.annotations.value import AnnotationError
from koord.manager.node_state import NodeState
from koord.manager.plugin import PluginOutcome

NAME: Final = "ResourceAmplification"
HIGHEST: Final = 500.0
"""The highest that may be configured, times the highest worth of a CPU."""
_KEY: Final = names.ANNOTATION_RESOURCE_AMPLIFICATION_RATIO


def calculate(state: NodeState, settings: NodeSettings, now_s: float) -> PluginOutcome:
    gone: dict[str, str | None] = {_KEY: None}
    if RESOURCE_AMPLIFICATION in state.unusable:
        return PluginOutcome(NAME, annotations=gone, failed=f"{RESOURCE_AMPLIFICATION} cannot be read")
    strategy = settings.resource_amplification
    ratios = dict(strategy.resource_amplification_ratio) if strategy.enable else {}
    try:
        worth = CPU_NORMALIZATION_RATIO.read(state.node.meta)
    except AnnotationError as error:
        return PluginOutcome(NAME, annotations=gone, failed=str(error))
    cpu = (ratios["cpu"] if ratios.get("cpu", 0) > 0 else 1.0) * (worth if worth is not None else 1.0)
    if cpu > 1:
        ratios["cpu"] = cpu
    for resource, ratio in ratios.items():
        if not 1 <= ratio <= HIGHEST:
            fault = f"the ratio of {resource} is {ratio:g}; it must be from 1 to {HIGHEST:g}"
            return PluginOutcome(NAME, annotations=gone, failed=fault)
    return PluginOutcome(NAME, annotations={_KEY: RESOURCE_AMPLIFICATION_RATIO.render(ratios)} if ratios else gone)
