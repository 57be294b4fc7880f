"""Forecast: how high prod pods are predicted to rise, and how far the predictions of the last day could be trusted."""

from __future__ import annotations

from typing import Final

import msgspec

from koord.api.kubernetes.resources import stored_amounts
from koord.api.protocol.crd.node_metric import ForecastMisses
from koord.api.text.quantity import render
from koord.offline.picture.section import Line, Section, Seen, Span

RESOURCES: Final = ("cpu", "memory")
OFTEN_PERCENT: Final = 5
"""A forecast of p95 is exceeded in so many minutes if tomorrow is as yesterday was; more is worth a colour."""
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


def forecast(seen: Seen) -> Section | None:
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
    """A report may say anything; what cannot be is not told as a figure."""
    return all(0 <= each <= misses.minutes for each in misses.exceeded_minutes.values()) and misses.minutes >= 0


def _line(each: ForecastFigures) -> Line:
    said = f"{each.resource:<6}  peak {_amount(each, each.peak)}, reclaimable {_amount(each, each.reclaimable)}; "
    if not each.minutes:
        return (Span(f"{said}no prediction was judged yet"),)
    percent = each.exceeded_minutes * 100 / each.minutes
    if not each.exceeded_minutes:
        return (Span(f"{said}never exceeded in {each.minutes} minutes of the last day"),)
    often = f"exceeded in {each.exceeded_minutes} of {each.minutes} minutes of the last day ({percent:.1f}%), "
    return Span(said), Span(f"{often}at most by {_amount(each, each.exceeded_by)}", _colour(percent))


def _colour(percent: float) -> str:
    return "yellow" if percent > OFTEN_PERCENT else ""


def _amount(each: ForecastFigures, figure: int) -> str:
    """Bytes in whole MiB: a forecast is no more exact than its buckets."""
    return render("memory", figure // MIB * MIB) if each.resource == "memory" else render("cpu", figure)
