"""The co-location figure: its goals and its table on composed visits, and one short visit on this machine's kernel."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from koord_bench import colocation, colocation_node, colocation_table, colocation_visit
from koord_bench.colocation import Visits, add_rows
from koord_bench.colocation_neighbours import NEIGHBOURS, Neighbour
from koord_bench.colocation_node import NAME
from koord_bench.colocation_visit import CONTROLLED, PROTECTED, SUPPRESSED, UNPROTECTED, ServiceFigures, Visit
from koord_bench.harness import Report, Result
from tests.waiting import until

CPU, CACHE, DISK = (
    next(neighbour for neighbour in NEIGHBOURS if neighbour.name == name) for name in ("cpu", "cache", "disk")
)


def figures(p99_ms: float, best_effort: float = 0.9, off_budget: float | None = None) -> ServiceFigures:
    return ServiceFigures(1.0, p99_ms, 0.1, 500.0, 1.0, best_effort, off_budget, 100e6, 0.02)


def visit(protected: float, controlled: float = 3.0, named: int | None = None, again: float = 3.0) -> Visit:
    ways = {
        "alone": figures(3.0),
        "alone again": figures(again),
        UNPROTECTED: figures(30.0, 1.0),
        PROTECTED: figures(protected),
        CONTROLLED: figures(controlled, 0.25),
    }
    return Visit(ways, named)


def visits(neighbour: Neighbour, *of: Visit, has_resctrl: bool = False) -> list[Result]:
    report = Report("colocation")
    add_rows(report, Visits(neighbour, has_resctrl, list(of)))
    return report.rows


def found(of: list[Result], way: str, metric: str) -> Result:
    return next(result for result in of if result.case.endswith(f", {way}") and result.metric == metric)


@pytest.mark.parametrize(
    ("again_ms", "protected_ms", "is_met"),
    [(3.0, 3.29, True), (3.0, 3.31, False), (3.6, 4.0, True), (3.6, 5.0, False)],
    ids=["within a tenth", "above it", "within twice the difference of two runs", "above that"],
)
def test_p99_may_be_a_tenth_above_alone_or_twice_what_two_runs_differ(
    again_ms: float, protected_ms: float, is_met: bool
) -> None:
    of = visits(CPU, visit(protected_ms, again=again_ms))
    assert found(of, PROTECTED, "p99").met is is_met
    assert found(of, UNPROTECTED, "p99").met is None, "what is not protected is held to nothing"


def test_figures_are_medians_over_rounds() -> None:
    of = visits(CPU, visit(3.0), visit(90.0), visit(3.2))
    assert found(of, PROTECTED, "p99").value == 3.2


@pytest.mark.parametrize(
    ("named", "controlled_ms", "is_named", "is_back"),
    [(3, 3.7, True, True), (4, 3.7, False, True), (3, 3.8, True, False), (None, 3.8, False, False)],
    ids=["named and held back", "named too late", "held back too little", "not found"],
)
def test_without_resctrl_who_thrashes_the_cache_is_to_be_named_and_held_back(
    named: int | None, controlled_ms: float, is_named: bool, is_back: bool
) -> None:
    of = visits(CACHE, visit(6.0, controlled_ms, named))
    assert found(of, PROTECTED, "p99").met is None
    assert found(of, CONTROLLED, "named after").met is is_named
    assert found(of, CONTROLLED, "p99").met is is_back


def test_nobody_is_to_be_named_where_nobody_suffers() -> None:
    of = visits(CACHE, visit(3.0))
    assert not any(result.metric == "named after" for result in of)


def test_with_resctrl_the_cache_is_protected_like_all_else() -> None:
    of = visits(CACHE, visit(6.0, 6.0), has_resctrl=True)
    assert found(of, PROTECTED, "p99").met is False


def test_best_effort_is_to_get_what_is_idle_where_nothing_holds_it_back() -> None:
    of = visits(CPU, visit(3.0))
    assert found(of, PROTECTED, "idle CPU used").met
    assert found(of, CONTROLLED, "idle CPU used").met is None, "a pod that is held back gets less"


def test_who_lives_on_the_disk_is_to_write_what_it_writes_unprotected() -> None:
    """Its CPUs are idle while it waits for the disk: no agent could give it more of them."""
    waiting = visit(3.0)
    waiting.ways[PROTECTED] = replace(figures(3.0, 0.15), written_s=90e6)
    of = visits(DISK, waiting)
    assert found(of, PROTECTED, "written, of unprotected").value == pytest.approx(0.9)
    assert found(of, PROTECTED, "written, of unprotected").met
    assert not any(result.metric == "idle CPU used" for result in of)
    assert "90%" in colocation_table.table(of).splitlines()[1]


def test_where_p99_is_too_high_the_table_says_what_it_is_made_of() -> None:
    slow = visit(6.0)
    slow.ways[PROTECTED] = replace(figures(6.0), worked_ms=1.4)
    line = next(line for line in colocation_table.table(visits(CPU, slow)).splitlines() if line.startswith("cpu, "))
    assert "10.0% of the requests waited 1 ms or more for a CPU" in line
    assert "1.40x the CPU time" in line
    assert "2.0% of the CPUs' time" in line


def test_the_table_has_a_line_for_each_neighbour_with_goals_and_whether_they_are_met() -> None:
    late = visit(6.0, 3.0, None)
    late.ways[SUPPRESSED] = figures(3.3, off_budget=-0.02)
    of = [*visits(CPU, visit(3.0)), *visits(CACHE, late)]
    head, cpu, cache, *rest = colocation_table.table(of).splitlines()
    assert head.split()[:3] == ["NEIGHBOUR", "ALONE", "TWO"]
    assert cpu.split() == [
        "cpu", "3.00", "ms", "0%", "10.00x", "1.00x", "1.00x", "1.10x", "yes", "100%", "90%", "85%", "yes", "-", "-",
    ]  # fmt: skip
    assert cache.split()[-5:] == ["90%", "85%", "yes", "never", "NO"]
    assert rest[-1].endswith("best effort 2.0% off its budget (goal: 5%; met: yes).")


OWN_NAME = f"{NAME}-test-{os.getpid()}"


def left() -> list[Path]:
    return [*Path("/sys/fs/cgroup").glob(f"*/{OWN_NAME}"), *Path("/sys/fs/cgroup").glob(OWN_NAME)]


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node of the test's own, and little time."""
    monkeypatch.setattr(colocation_node, "NAME", OWN_NAME)
    monkeypatch.setattr(colocation_node, "WINDOW_S", 0.2)
    monkeypatch.setattr(colocation_visit, "SETTLED_S", 0.2)


@pytest.mark.root
def test_a_visit_measures_every_way_and_leaves_nothing(brief: None) -> None:
    measured = colocation_visit.visit(CPU, 0.5)
    assert list(measured.ways) == ["alone", "alone again", CONTROLLED, PROTECTED, SUPPRESSED, UNPROTECTED]
    assert any(each.p99_ms > 0 for each in measured.ways.values())
    assert not left()


@pytest.mark.root
def test_what_a_killed_run_left_is_taken_away_by_the_next(brief: None) -> None:
    code = "from koord_bench import colocation_node as node, colocation_neighbours as neighbours, colocation_visit;"
    code += f"node.NAME = {OWN_NAME!r}; colocation_visit.visit(neighbours.NEIGHBOURS[3], 30)"
    run = subprocess.Popen([sys.executable, "-P", "-c", code])
    try:
        pids = until(_inside)
        with pytest.raises(colocation_node.BusyError, match="runs already"):
            colocation_node.clean()
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    assert pids
    colocation_node.clean()
    assert not left(), "a cgroup can only be removed when it is empty"


def _inside() -> list[str]:
    """Whoever runs in the node's best-effort cgroup."""
    own = f"**/{OWN_NAME}/kubepods/besteffort/podneighbour/neighbour/cgroup.procs"
    return [pid for file in Path("/sys/fs/cgroup").glob(own) for pid in file.read_text().split()]


def test_without_root_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    told: list[str] = []
    assert colocation.run(progress=told.append) == []
    assert "needs root" in told[0]
