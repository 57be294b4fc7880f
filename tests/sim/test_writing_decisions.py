"""When the manager writes: the form on columns equals the functions that run live, node by node."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.configuration.overlay import overlay
from koord.api.configuration.slo_config_types import COLOCATION_DEFAULTS, ColocationStrategy
from koord.api.protocol import names
from koord.manager.figures import Figure, Term, figure
from koord.manager.lending.freshness import distrust
from koord.manager.node_resource.prepare import Prepared
from koord.manager.node_resource.writing import decide, firm_parts
from koord.manager.node_state import NOTHING, MetricRow, NodeFacts, NodeState
from koord.sim import publishing
from koord.sim.policies.policy import Lent
from koord.sim.publishing import ABSENT, Figures, Report

RESOURCES: tuple[str, str] = (names.RESOURCE_BATCH_CPU, names.RESOURCE_BATCH_MEMORY)
amounts = st.one_of(st.none(), st.integers(0, 200), st.integers(0, 1 << 40))


def facts(shown: tuple[int | None, int | None]) -> NodeFacts:
    named = zip(RESOURCES, shown, strict=True)
    allocatable: dict[str, int] = {name: amount for name, amount in named if amount is not None}
    return NodeFacts("n", "", "", {}, {}, NOTHING, NOTHING, NOTHING, allocatable, allocatable)


def figure_of(resource: str, wanted: int, measured: int) -> Figure:
    """A figure with a measured part."""
    return figure(
        resource, [Term("start", "capacity", wanted + measured), Term("minus", "used", measured, "", measured)]
    )


def wanted_figures(amounts: tuple[int | None, int | None], measured: tuple[int, int]) -> Figures:
    wanted = publishing.nothing_published(1).wanted
    for name, amount, part in zip(("milli", "bytes"), amounts, measured, strict=True):
        shown = getattr(wanted, "cpu_milli" if name == "milli" else "memory_bytes")
        shown[0] = ABSENT if amount is None else amount
        getattr(wanted, f"firm_{name}")[0] = 0 if amount is None else amount + part
        getattr(wanted, f"measured_{name}")[0] = part
    return wanted


@settings(max_examples=400, deadline=None)
@given(
    shown=st.tuples(amounts, amounts),
    wanted=st.tuples(amounts, amounts),
    measured=st.tuples(st.integers(0, 300), st.integers(0, 1 << 30)),
    before=st.tuples(st.integers(0, 300), st.integers(0, 1 << 40)),
    written_s=st.one_of(st.none(), st.sampled_from([0.0, 699.0, 700.0, 701.0, 999.0])),
    threshold=st.sampled_from([0.01, 0.1, 0.5, 1.0]),
)
def test_the_decision_to_write_is_that_of_the_manager(
    shown: tuple[int | None, int | None],
    wanted: tuple[int | None, int | None],
    measured: tuple[int, int],
    before: tuple[int, int],
    written_s: float | None,
    threshold: float,
) -> None:
    now_s = 1000.0
    strategy = overlay(COLOCATION_DEFAULTS, ColocationStrategy(resource_diff_threshold=threshold))
    made = tuple(
        figure_of(name, amount, part)
        for name, amount, part in zip(RESOURCES, wanted, measured, strict=True)
        if amount is not None
    )
    prepared = Prepared(dict(zip(RESOURCES, wanted, strict=True)), {}, {}, {}, made)
    firm: dict[str, int] = dict(zip(RESOURCES, before, strict=True))
    live = decide(facts(shown), prepared, strategy, written_s, now_s, firm)
    assert all(firm_parts(prepared)[made_figure.resource] for made_figure in made if made_figure.amount)

    columns = wanted_figures(wanted, measured)
    published = publishing.nothing_published(1)
    for column, amount in zip((published.cpu_milli, published.memory_bytes), shown, strict=True):
        column[0] = ABSENT if amount is None else amount
    published.firm_milli[0], published.firm_bytes[0] = before
    published.written_s[0] = np.nan if written_s is None else written_s
    published.wanted = columns
    is_due = publishing.due(published, columns.cpu_milli, columns.memory_bytes, now_s, publishing.gates([strategy]))
    assert bool(is_due[0]) == (live.patch is not None)


@given(reported_s=st.one_of(st.none(), st.integers(-2000, 0).map(float)), minutes=st.integers(1, 30))
def test_a_report_is_too_old_when_the_manager_distrusts_it(reported_s: float | None, minutes: int) -> None:
    strategy = overlay(COLOCATION_DEFAULTS, ColocationStrategy(degrade_time_minutes=minutes))
    metric = MetricRow("n", "", "", reported_s, None, NOTHING, {}, (), None)
    published = publishing.nothing_published(1)
    published.reported_s[0] = np.nan if reported_s is None else reported_s
    stale = publishing.stale(published, 0.0, publishing.gates([strategy]).degrade_minutes)
    assert bool(stale[0]) == bool(distrust(NodeState(facts((None, None)), metric=metric), strategy, 0.0))


def test_a_figure_that_is_kept_stays_although_its_report_arrives() -> None:
    published = publishing.nothing_published(2)
    everywhere = np.ones(2, np.bool_)
    first = publishing.figures_of(Lent(np.array([10.0, 20.0]), np.array([1.0, 2.0])), 2)
    publishing.arrive(published, Report(60.0, 60.0, everywhere, first))
    later = publishing.figures_of(Lent(np.array([np.nan, 30.0]), np.array([np.nan, 3.0])), 2)
    publishing.arrive(published, Report(120.0, 120.0, everywhere, later))
    assert published.wanted.cpu_milli.tolist() == [10, 30]
    assert published.reported_s.tolist() == [120.0, 120.0]
