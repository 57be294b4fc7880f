"""Forecast: how high prod pods are predicted to rise, and how far the predictions of the last day could be trusted."""

from __future__ import annotations

from typing import Final

import msgspec

from koord.api.kubernetes.resources import stored_amounts
from koord.api.protocol.crd.node_metric import ForecastMisses
from koord.api.text.quantity import render
from koord.offline.picture.section import Line, NodeView, Section, Span

RESOURCES: Final = ("cpu", "memory")
OFTEN_PERCENT: Final = 5
"""Minutes per day in which a p95 forecast is exceeded if the days are alike; more than that is coloured."""
MIB: Final = 1 << 20


class ForecastFigures(msgspec.Struct, frozen=True, rename="camel"):
    resource: str
    peak: int
    "Milli-cores or bytes."
    reclaimable: int
    minutes: int
    "Of the last day that were judged."
    exceeded_minutes: int
    exceeded_by: int


def forecast(seen: NodeView) -> Section | None:
    status = seen.metric.status if seen.metric is not None else None
    if status is None or status.prod_peak_metric is None:
        return None
    peak = stored_amounts(status.prod_peak_metric.resource.resources)
    free = status.prod_reclaimable_metric
    reclaimable = stored_amounts(free.resource.resources) if free is not None else {}
    misses = status.prod_peak_metric.misses or ForecastMisses()
    if not _is_possible(misses):
        misses = ForecastMisses()
    by = stored_amounts(misses.exceeded_by)
    figures = [
        ForecastFigures(
            name,
            peak.get(name, 0),
            reclaimable.get(name, 0),
            misses.minutes,
            misses.exceeded_minutes.get(name, 0),
            by.get(name, 0),
        )
        for name in RESOURCES
    ]
    title = "how high prod pods and the system are predicted to rise, with the safety margin"
    return Section("forecast", title, tuple(map(_line, figures)), {"resources": figures})


def _is_possible(misses: ForecastMisses) -> bool:
    """Reports may contain anything: impossible figures are not shown."""
    return all(0 <= minutes <= misses.minutes for minutes in misses.exceeded_minutes.values()) and misses.minutes >= 0


def _line(figures: ForecastFigures) -> Line:
    peak, reclaimable = _amount(figures, figures.peak), _amount(figures, figures.reclaimable)
    said = f"{figures.resource:<6}  peak {peak}, reclaimable {reclaimable}; "
    if not figures.minutes:
        return (Span(f"{said}no prediction was judged yet"),)
    percent = figures.exceeded_minutes * 100 / figures.minutes
    if not figures.exceeded_minutes:
        return (Span(f"{said}never exceeded in {figures.minutes} minutes of the last day"),)
    often = f"exceeded in {figures.exceeded_minutes} of {figures.minutes} minutes of the last day ({percent:.1f}%), "
    return Span(said), Span(f"{often}at most by {_amount(figures, figures.exceeded_by)}", _colour(percent))


def _colour(percent: float) -> str:
    return "yellow" if percent > OFTEN_PERCENT else ""


def _amount(figures: ForecastFigures, figure: int) -> str:
    """Bytes in whole MiB: a forecast is no more exact than its buckets."""
    return render("memory", figure // MIB * MIB) if figures.resource == "memory" else render("cpu", figure)
