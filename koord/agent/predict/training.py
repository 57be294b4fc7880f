"""What the last minute adds to the models: p90 of each pod, of the node, of each band, and of the system."""

from __future__ import annotations

from typing import Final

from koord.agent.predict.model import NODE, SYSTEM, Model, PredictionSettings, Used, of_band
from koord.agent.series import names
from koord.agent.series.samples import Samples, Series
from koord.agent.state import NodeState
from koord.api.protocol.priority import PriorityClass

PART: Final = 0.9
_NOTHING: Final = Used(0, 0)


def observed(state: NodeState, samples: Samples, now_s: float, window_s: float) -> dict[str, Used]:
    """By model. A pod that was not measured has no sample; a band without pods used nothing."""
    node = _used(samples, names.NODE_CPU, names.NODE_MEMORY, now_s, window_s)
    if node is None:
        return {}
    pods = {
        uid: used
        for uid in state.pods
        if (used := _used(samples, names.pod_cpu(uid), names.pod_memory(uid), now_s, window_s)) is not None
    }
    bands = dict.fromkeys(PriorityClass, _NOTHING)
    rest = node
    for uid, used in pods.items():
        band = state.pods[uid].band
        bands[band] = bands[band].plus(used)
        rest = Used(rest.cpu_milli - used.cpu_milli, rest.memory_bytes - used.memory_bytes)
    shared = {of_band(band): used for band, used in bands.items()}
    system = Used(max(rest.cpu_milli, 0), max(rest.memory_bytes, 0))
    return {NODE: node, SYSTEM: system, **shared, **pods}


def train(
    models: dict[str, Model], seen: dict[str, Used], settings: PredictionSettings, now_s: float, at_s: float
) -> None:
    for name, used in seen.items():
        model = models.get(name)
        if model is None:
            model = models[name] = Model.new(settings, now_s)
        model.add(used, at_s, settings.expire_s)
        model.updated_s = now_s


def expired(models: dict[str, Model], settings: PredictionSettings, now_s: float) -> list[str]:
    """Models of pods that are gone."""
    return [name for name, model in models.items() if now_s - model.updated_s > settings.expire_s]


def to_save(models: dict[str, Model], settings: PredictionSettings, now_s: float) -> list[str]:
    """Those that were saved longest ago, as many as may be written at once. Pods that are gone need no file."""
    due = [
        name
        for name, model in models.items()
        if now_s - model.saved_s >= settings.save_every_s and now_s - model.updated_s < settings.train_every_s
    ]
    return sorted(due, key=lambda name: models[name].saved_s)[: settings.save_at_once]


def _used(samples: Samples, cpu: Series, memory: Series, now_s: float, window_s: float) -> Used | None:
    cpus, bytes_ = samples.window(cpu, now_s, window_s), samples.window(memory, now_s, window_s)
    return None if cpus is None or bytes_ is None else Used(cpus.percentile(PART), bytes_.percentile(PART))
