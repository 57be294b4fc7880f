"""Pages that koord writes, as a real browser shows them on desk and phone: nothing is fetched, and nothing is cut."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from koord.api.protocol.charged import Charged
from koord.operate.page import page as report_page
from koord.operate.sizing import Sizing
from koord.operate.worth import NodeSize, Span, of_spans
from koord_minicluster.demo.page import page as demo_page
from koord_minicluster.demo.summary import course, summary
from koord_minicluster.hollow.load_model import Course
from tests.browser import opened
from tests.minicluster.demo.looks import ledger, look

DESK, PHONE = 1280, 390
PICTURES = os.environ.get("KOORD_PICTURES")
"""A folder for screenshots, for people who want to look themselves."""
READABLE = 12.0
"""Pixels of a line: below it, letters are hard to read."""


def demo() -> str:
    """Two minutes of 50 nodes, in which batch work fills what services leave."""
    seen = ledger(
        *(look(1000 + 2.0 * i, prod=30 + 8 * (i % 12 > 6), batch=min(i, 40), lent=50, held=i % 3) for i in range(60))
    )
    seen.hear_event("QuotaOverused")
    plain = [look(1000 + 4.0 * i, prod=30, batch=5) for i in range(30)]
    return demo_page(summary(seen, course(plain, 3)), 50, seen.looks, plain, Course(1000.0, 360.0))


def report() -> str:
    """A day with a few tenants; one has a workload with a name as long as names may be."""
    hour, day = 3600.0, 86400.0
    names = ("cronjob/nightly-aggregation-of-clickstreams", "job/etl", f"deployment/{'long-' * 12}end", "pod/x")
    spans = [
        Span(Charged(f"tenant-{i}", f"team-{i % 2}", name), i * 3 * hour, day, 4 + 40 * i, 16, 2 + 10 * i, 9)
        for i, name in enumerate(names)
    ]
    offers = [Span(Charged("", "", ""), 0, day, 300, 900)]
    worth = of_spans(
        spans, offers, {spans[1].charged: 3}, 0, day, source="Prometheus http://prometheus.monitoring:9090"
    )
    sizings = [Sizing("shop/deployment/web", 27.5, 50), Sizing("shop/statefulset/a-rather-long-name", -2, -0.5)]
    return report_page(worth, NodeSize(32, 128, 1.2), sizings)


@pytest.mark.browser
@pytest.mark.parametrize(
    ("written", "title", "curves"), [(demo, "koord demo", 7), (report, "koord report", 3)], ids=["demo", "report"]
)
async def test_a_page_needs_nothing_else_and_is_readable_on_desk_and_phone(
    written: Callable[[], str], title: str, curves: int, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(written())
    async with opened(path, tmp_path) as page:
        for width in (DESK, PHONE):
            seen = await page.look(width, Path(PICTURES) / f"{title}-{width}.png" if PICTURES else None)
            assert seen["title"] == title
            assert len(seen["drawn"]) == curves
            assert min(seen["drawn"]) > 100
            assert seen["wide"] <= width, "people have to scroll sideways"
            assert seen["cut"] == []
            assert seen["overlapping"] == []
            assert seen["smallest"] >= READABLE
        assert page.requests == [path.as_uri()]
        assert page.complaints == []
