"""CPU normalisation: how much a CPU of this node is worth, compared to the cluster's reference.

The ratio depends on CPU model, hyper-threads and turbo; it is from 1 to 5, and batch-cpu is multiplied by it. If it
is unknown, the node's annotation stays.
"""

from __future__ import annotations

from typing import Final

from koord.api.configuration.slo_config import NodeSettings
from koord.api.configuration.slo_config_types import CPU_NORMALIZATION, CPUNormalizationStrategy, ModelRatio
from koord.api.protocol import names
from koord.api.protocol.annotations.colocation import CPU_NORMALIZATION_ENABLED
from koord.api.protocol.annotations.cpu import CPUBasicInfo
from koord.api.protocol.annotations.value import AnnotationError
from koord.manager.node_state import NodeState
from koord.manager.plugin import PluginOutcome

NAME: Final = "CPUNormalization"
LOWEST: Final = 1.0
HIGHEST: Final = 5.0
OFF: Final = "1.00"


def calculate(state: NodeState, settings: NodeSettings, now_s: float) -> PluginOutcome:
    if CPU_NORMALIZATION in state.unusable:
        return PluginOutcome(NAME, failed=f"{CPU_NORMALIZATION} cannot be read")
    strategy = settings.cpu_normalization
    try:
        wanted = CPU_NORMALIZATION_ENABLED.read(state.node.meta)
    except AnnotationError as error:
        return PluginOutcome(NAME, failed=str(error))
    if not (strategy.enable if wanted is None else wanted):
        return PluginOutcome(
            NAME, annotations={names.ANNOTATION_CPU_NORMALIZATION_RATIO: OFF}, note="normalisation is off"
        )
    topology = state.topology
    if topology is None:
        return PluginOutcome(NAME, failed="the node has no NodeResourceTopology, which would tell its CPU model")
    if topology.cpu is None:
        return PluginOutcome(NAME, failed=topology.cpu_fault or "the NodeResourceTopology does not tell the CPU model")
    ratio, why = _ratio(topology.cpu, strategy)
    if ratio is None:
        return PluginOutcome(NAME, failed=why)
    if not LOWEST <= ratio <= HIGHEST:
        return PluginOutcome(NAME, failed=f"the ratio is {ratio:g} ({why}); it must be from {LOWEST:g} to {HIGHEST:g}")
    ratio = round(ratio, 2)
    return PluginOutcome(
        NAME,
        annotations={names.ANNOTATION_CPU_NORMALIZATION_RATIO: f"{ratio:.2f}"},
        factors={names.RESOURCE_BATCH_CPU: ratio},
        note=why,
    )


def _ratio(cpu: CPUBasicInfo, strategy: CPUNormalizationStrategy) -> tuple[float | None, str]:
    """The ratio, and where it is from; or None, and why."""
    model = strategy.ratio_model.get(cpu.cpu_model)
    field, ratio = _of_model(cpu, model) if model is not None else ("", None)
    if ratio is not None:
        return ratio, f"{field} of {cpu.cpu_model}"
    missing = f"{cpu.cpu_model or 'the CPU'} has no {field}" if field else f"no ratio for {cpu.cpu_model or 'the CPU'}"
    if strategy.default_ratio is not None:
        return strategy.default_ratio, f"defaultRatio, because there is {missing}"
    return None, f"{CPU_NORMALIZATION}: {missing}, and there is no defaultRatio"


def _of_model(cpu: CPUBasicInfo, model: ModelRatio) -> tuple[str, float | None]:
    if cpu.hyper_thread_enabled and cpu.turbo_enabled:
        return "hyperThreadTurboEnabledRatio", model.hyper_thread_turbo_enabled_ratio
    if cpu.hyper_thread_enabled:
        return "hyperThreadEnabledRatio", model.hyper_thread_enabled_ratio
    if cpu.turbo_enabled:
        return "turboEnabledRatio", model.turbo_enabled_ratio
    return "baseRatio", model.base_ratio
