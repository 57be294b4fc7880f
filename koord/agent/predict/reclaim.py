"""What prod pods requested and will not use, and how high prod can rise: two predictors, the careful one counts.

    by pods    peak_i = int(peak of pod i * 1.1);  min(max(allocatable - sum peak_i, 0), sum max(request_i - peak_i, 0))
    by bands   U = int((system + prod + no class) * 1.1);  min(max(allocatable - U, 0), max(sum requests - U, 0))

What may be lent is the smaller of both, what prod can rise to the larger. A pod that is too young, or was never
measured, lends nothing and may rise to its request. The peaks of many pods seldom meet, hence the second predictor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from koord.agent.pods import AgentPod
from koord.agent.predict.model import SYSTEM, Model, PredictionSettings, Used, of_band
from koord.agent.state import NodeState
from koord.api.kubernetes.resources import stored_amounts
from koord.api.protocol.annotations.colocation import RAW_ALLOCATABLE
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.priority import PriorityClass
from koord.api.text.timestamp import TimestampError, parse_timestamp

PROD: frozenset[PriorityClass] = frozenset((PriorityClass.PROD, PriorityClass.NONE))
BY_PODS: Final = "podReclaimablePredictor"
BY_BANDS: Final = "priorityReclaimablePredictor"


class Amounts(NamedTuple):
    cpu_milli: int
    memory_bytes: int


class PodPeak(NamedTuple):
    request: Amounts
    peak: Amounts | None
    "With the margin; None where the pod is too young, or nothing is known of it."


class Predicted(NamedTuple):
    reclaimable: Amounts
    peak: Amounts


def with_margin(used: Used, margin_percent: int) -> Amounts:
    cpu, memory = int(used.cpu_milli), int(used.memory_bytes)
    return Amounts(cpu * (100 + margin_percent) // 100, memory * (100 + margin_percent) // 100)


def predicted(allocatable: Amounts, pods: Iterable[PodPeak], bands: Amounts) -> Predicted:
    """What counts. `pods`: those of prod and of no class that stay. `bands`: the peak of both bands and the system,
    with margin."""
    return careful(by_predictor(allocatable, list(pods), bands).values())


def careful(predictions: Iterable[Predicted]) -> Predicted:
    listed = list(predictions)
    return Predicted(
        Amounts(*(min(prediction.reclaimable[i] for prediction in listed) for i in (0, 1))),
        Amounts(*(max(prediction.peak[i] for prediction in listed) for i in (0, 1))),
    )


def by_predictor(allocatable: Amounts, pods: list[PodPeak], bands: Amounts) -> dict[str, Predicted]:
    """By the predictor's name in metrics."""
    return {
        BY_PODS: Predicted(
            Amounts(*(_by_pods(i, allocatable, pods) for i in (0, 1))), Amounts(*(_rises_to(i, pods) for i in (0, 1)))
        ),
        BY_BANDS: Predicted(Amounts(*(_by_bands(i, allocatable, pods, bands) for i in (0, 1))), bands),
    }


def _by_pods(i: int, allocatable: Amounts, pods: list[PodPeak]) -> int:
    """Of one resource: 0 is CPU, 1 is memory."""
    peaks = [(model.request[i], model.peak[i]) for model in pods if model.peak is not None]
    free = max(allocatable[i] - sum(peak for _, peak in peaks), 0)
    return min(free, sum(max(request - peak, 0) for request, peak in peaks))


def _by_bands(i: int, allocatable: Amounts, pods: list[PodPeak], bands: Amounts) -> int:
    requested = sum(model.request[i] for model in pods)
    return min(max(allocatable[i] - bands[i], 0), max(requested - bands[i], 0))


def _rises_to(i: int, pods: list[PodPeak]) -> int:
    return sum(model.request[i] if model.peak is None else model.peak[i] for model in pods)


def predict(
    state: NodeState, models: Mapping[str, Model], settings: PredictionSettings, at_s: float
) -> Predicted | None:
    """What counts; None while nothing is known."""
    forecasts = predictions(state, models, settings, at_s)
    return None if forecasts is None else careful(forecasts.values())


def predictions(
    state: NodeState, models: Mapping[str, Model], settings: PredictionSettings, at_s: float
) -> dict[str, Predicted] | None:
    """By predictor. None while the bands have no history: then nothing is known, and nothing is lent."""
    wanted = [models.get(name) for name in (SYSTEM, *map(of_band, sorted(PROD)))]
    models_wanted = [model for model in wanted if model is not None and model.is_trained]
    if len(models_wanted) < len(wanted):
        return None
    together = Used(0, 0)
    for model in models_wanted:
        together = together.plus(model.peak)
    pods = [
        _pod_peak(pod, models.get(uid), settings, at_s)
        for uid, pod in state.pods.items()
        if pod.band in PROD and pod.is_active
    ]
    return by_predictor(_allocatable(state), pods, with_margin(together, settings.margin_percent))


def _pod_peak(pod: AgentPod, model: Model | None, settings: PredictionSettings, at_s: float) -> PodPeak:
    request = Amounts(pod.requests.get("cpu", 0), pod.requests.get("memory", 0))
    if model is None or not model.is_trained or _age_s(pod, at_s) <= settings.cold_start_s:
        return PodPeak(request, None)
    return PodPeak(request, with_margin(model.peak, settings.margin_percent))


def _age_s(pod: AgentPod, at_s: float) -> float:
    """A pod that does not say when it was created is taken for a new one."""
    try:
        return at_s - parse_timestamp(pod.meta.creation_timestamp or "")
    except TimestampError:
        return 0.0


def _allocatable(state: NodeState) -> Amounts:
    """As it was before amplification, where the node is amplified."""
    amounts_of_node = state.allocatable
    try:
        raw = RAW_ALLOCATABLE.read(state.node.metadata, "Node")
    except AnnotationError:
        raw = None
    if raw is not None:
        amounts_of_node = {**amounts_of_node, **stored_amounts(raw)}
    return Amounts(amounts_of_node.get("cpu", 0), amounts_of_node.get("memory", 0))
