"""Memory: what is used, apart from the page cache that the kernel keeps beside it and can take back."""

from __future__ import annotations

from typing import Final

import msgspec

from koord.api.protocol.crd.node_metric import NodeMetric, PageCacheUsage
from koord.api.text.quantity import QuantityError, amount, render
from koord.offline.picture.section import Line, NodeView, Section, Span

MIB: Final = 1 << 20
_COUNTS: Final = {"none": "not counted as used", "hot": "its hot part is counted as used", "all": "counted as used"}
_HOT: Final = "usageWithHotPageCache"


class MemoryFigures(msgspec.Struct, frozen=True, rename="camel"):
    """Bytes."""

    used: int
    page_cache: int
    cold: int | None
    counted: str
    asked: str
    "The memory collect policy of the NodeMetric, if it names one."


def memory(seen: NodeView) -> Section | None:
    figures = _figures(seen.metric) if seen.metric is not None else None
    if figures is None:
        return None
    title = "what is used, and the page cache that the kernel keeps beside it and can take back"
    return Section("memory", title, tuple(_lines(figures)), figures)


def _figures(metric: NodeMetric) -> MemoryFigures | None:
    info = metric.status.node_metric
    cache = info.page_cache if info is not None else None
    if info is None or cache is None or cache.total is None:
        return None
    policy = metric.spec.metric_collect_policy
    asked = policy.node_memory_collect_policy if policy is not None else None
    try:
        used, total, cold = amount("memory", info.node_usage.resources.get("memory", 0)), *_amounts(cache)
    except QuantityError:
        return None
    return MemoryFigures(used, total, cold, cache.counted, asked or "")


def _amounts(cache: PageCacheUsage) -> tuple[int, int | None]:
    return amount("memory", cache.total or 0), None if cache.cold is None else amount("memory", cache.cold)


def _lines(figures: MemoryFigures) -> list[Line]:
    cold = "not known how much of it is cold" if figures.cold is None else f"{_said(figures.cold)} of it cold"
    counts = _COUNTS.get(figures.counted, figures.counted)
    lines: list[Line] = [
        (Span(f"used {_said(figures.used)}; page cache {_said(figures.page_cache)}, {counts}, {cold}"),)
    ]
    if figures.asked == _HOT and figures.counted != "hot":
        why = f"{_HOT} is asked for, and cold memory is not available: usage is without page cache"
        lines.append((Span(why, "yellow"),))
    return lines


def _said(figure: int) -> str:
    return render("memory", figure // MIB * MIB)
