"""All models of a node, trained once a minute, and the forecast that follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from koord.agent.predict import training
from koord.agent.predict.misses import HourMisses, judged, last_day
from koord.agent.predict.model import SYSTEM, Model, PredictionSettings, Used, of_band
from koord.agent.predict.reclaim import PROD, Predicted, careful, predictions
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState


@dataclass(frozen=True, slots=True)
class Forecast:
    prod: Predicted
    misses: HourMisses
    "Of the forecasts of the last day."
    made_s: float
    "In the time of samples."
    by_predictor: Mapping[str, Predicted] = field(default_factory=dict)
    "What each predictor says; `prod` is the careful one's word."


@dataclass(slots=True)
class Predictor:
    """Its state is what checkpoints keep; its time is everybody's, since checkpoints outlive the machine's uptime."""

    settings: PredictionSettings = field(default_factory=PredictionSettings)
    models: dict[str, Model] = field(default_factory=dict)
    misses: dict[int, HourMisses] = field(default_factory=dict)
    forecast: Forecast | None = None

    def train(self, state: NodeState, samples: Samples, now_s: float, at_s: float) -> list[str]:
        """One minute. Returns the models that were dropped. `now_s` is in the time of samples."""
        seen = training.observed(state, samples, now_s, self.settings.train_every_s)
        if seen and self.forecast is not None:
            self.misses = judged(self.misses, self.forecast.prod.peak, _prod(seen), at_s)
        training.train(self.models, seen, self.settings, now_s, at_s)
        dropped = training.expired(self.models, self.settings, now_s)
        for name in dropped:
            del self.models[name]
        self.look_ahead(state, now_s, at_s)
        return dropped

    def look_ahead(self, state: NodeState, now_s: float, at_s: float) -> None:
        by_predictor = predictions(state, self.models, self.settings, at_s)
        self.forecast = (
            None
            if by_predictor is None
            else Forecast(careful(by_predictor.values()), last_day(self.misses, at_s), now_s, by_predictor)
        )


def _prod(seen: Mapping[str, Used]) -> Used:
    """What a forecast of the peak of prod is about: prod pods, pods of no class, and the system."""
    total = seen[SYSTEM]
    for band in PROD:
        total = total.plus(seen[of_band(band)])
    return total
