"""How costs grow: the law that fits some figures, and each component measured at a size at which a test may."""

from __future__ import annotations

import pytest

from koord_bench import scale, scale_child
from koord_bench.harness import Report
from koord_bench.scale import COMPONENTS, Point, slopes

POINTS = [Point(100, 1_000), Point(200, 1_000), Point(400, 4_000), Point(1_600, 8_000)]


@pytest.mark.parametrize(("nodes", "pods"), [(0.0, 1.0), (1.0, 0.0), (0.5, 0.7), (0.0, 2.0)])
def test_the_law_of_exact_figures_is_recovered(nodes: float, pods: float) -> None:
    values = {point: 3.0 * point.nodes**nodes * point.pods**pods for point in POINTS}
    assert slopes(values) == pytest.approx((nodes, pods), abs=1e-9)


def test_growth_beyond_the_cluster_misses_the_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that grows with pods squared; feeding that grows with pods."""
    component = next(component for component in COMPONENTS if component.name == "restart")

    def figures(module: str, name: str, nodes: str, pods: str) -> dict[str, float]:
        return {"cpu_s": int(pods) / 1e6, "peak_mb": int(pods) ** 2 / 1e6}

    monkeypatch.setattr(scale, "figures_of", figures)
    report = Report("scale")
    scale.add_rows(report, component, POINTS)
    met = {row.metric: row.met for row in report.rows if row.case == "restart, growth"}
    assert met["list, decode and feed, with both"] is True
    assert met["peak memory, with both"] is False


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda component: component.name)
def test_every_component_gives_all_its_figures(component: scale.Component) -> None:
    figures = scale_child.MEASURES[component.name](20, 200)
    assert all(figures[quantity.figure] > 0 for quantity in component.quantities)
