"""How the demo looks, and what its command line refuses."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from click.testing import CliRunner
from rich.console import Console

from koord_minicluster.cli.hollow import Fleet
from koord_minicluster.cli.up import up
from koord_minicluster.cli.up_demo import Demo
from koord_minicluster.cli.up_demo_view import clock, line, outcome_text, screen
from koord_minicluster.demo.ledger import ClusterSample, Ledger, PodSeen
from koord_minicluster.demo.live.watching import Watching
from koord_minicluster.demo.scenario import Scenario
from koord_minicluster.demo.summary import course, summary
from koord_minicluster.hollow.load_model import Course
from koord_minicluster.up.picture import Picture
from koord_minicluster.up.run import Up
from koord_minicluster.up.this_node import ThisNode
from tests.minicluster.demo.looks import ledger, look

COURSE = Course(0.0, 360.0)


def shown(seen: Ledger, columns: int = 80, lines: int = 24) -> list[str]:
    watched = cast("Watching", SimpleNamespace(ledger=seen, picture=Picture(), here=ThisNode(), scenario=Scenario()))
    up = cast(
        "Up", SimpleNamespace(data=SimpleNamespace(kubeconfig=Path("/tmp/koord-abcdefgh/kubeconfig"), console_link=""))
    )
    console = Console(width=columns, height=lines, record=True, file=StringIO())
    console.print(screen(watched, COURSE, up, seen.looks[-1].time_s, columns, lines))
    return console.export_text().splitlines()


def busy() -> Ledger:
    seen = ledger(*(look(100 + 2.0 * i, prod=30, batch=20, lent=50, held=3) for i in range(60)))
    seen.looks[-1] = replace(seen.looks[-1], hot_percent=88.0)
    for i in range(3):
        seen.hear_pod(f"models/train-1-{i}", None, PodSeen("models", f"train-1-{i}", "Pending"))
    for i in range(30):
        pod = PodSeen("research", f"encode-1-{i}", "Running", node="n", batch_milli=20_000)
        seen.hear_pod(f"research/encode-1-{i}", None, pod)
    for reason in ("evictPodSuccess", *["QuotaOverused"] * 120, "Descheduled"):
        seen.hear_event(reason)
    return seen


def test_the_screen_fits_80_by_24_and_cuts_nothing_off() -> None:
    lines = shown(busy())
    assert len(lines) == 24
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if "…" in line]


@pytest.mark.parametrize(
    "said",
    [
        "services       30     30%",
        "reclaimed  50 cores",
        "held back  3 cores",
        "10 of 10 pods ready",
        "30 pods run",
        "research 600 cores (borrows",
        "train waits for 24 free GPUs",
        "hollow-0007 88% used",
        "1 pod moved",
        "121: 1 left too little CPU, 120 beyond their tenant's share",
        "export KUBECONFIG=/tmp/koord-abcdefgh/kubeconfig",
        "explain node/hollow-0007",
        "Ctrl-C ends it",
    ],
)
def test_the_screen_says_what_is_going_on(said: str) -> None:
    assert said in "\n".join(shown(busy()))


@pytest.mark.parametrize(("columns", "lines"), [(40, 10), (80, 12), (200, 60)])
def test_the_screen_fits_terminals_of_other_sizes(columns: int, lines: int) -> None:
    found = shown(busy(), columns, lines)
    assert len(found) == lines
    assert max(map(len, found)) <= columns


def test_a_screen_without_anything_yet_is_drawn() -> None:
    text = "\n".join(shown(ledger(ClusterSample(0.0, 0, {}))))
    assert "are being started" in text


def test_the_time_of_day_is_the_loads() -> None:
    assert clock(COURSE, 95.0) == "day 1, 09:30"
    assert clock(COURSE, 245.0) == "day 2, 00:30"


def test_a_line_says_it_without_colours() -> None:
    seen = busy()
    said = line(seen, seen.looks[-1], COURSE)
    assert "cpu 52% (services 30%, batch 20%)" in said
    assert "\x1b" not in said


def test_the_summary_compares_and_fits_80_columns() -> None:
    seen = busy()
    plain = course([look(100 + 4.0 * i, prod=30, batch=8) for i in range(30)], 12)
    text = outcome_text(summary(seen, plain), Scenario(), seen.looks)
    assert max(map(len, text.splitlines())) <= 80
    assert ["all", "52%", "40%"] in [line.split() for line in text.splitlines()]
    assert "violations none" in text


def demo(report: Path, *looks: ClusterSample) -> Demo:
    fleet = Fleet("32", "128Gi", 110, 0, None, 360.0, looks[0].time_s, 0)
    return Demo(Scenario(10), fleet, report, ledger(*looks))


def test_the_end_compares_with_a_simulation_and_writes_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "out.html"
    demo(report, *(look(1000 + 2.0 * i, prod=20, batch=30, lent=40) for i in range(15))).end()
    text = capsys.readouterr().out
    assert ["all", "52%"] in [line.split()[:2] for line in text.splitlines()]
    assert str(report) in text
    assert report.read_text().count("<svg") == 2


def test_a_demo_that_ended_too_soon_says_so_and_compares_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "out.html"
    demo(report, look(0, ready=0), look(2, ready=5), look(4), look(6)).end()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "too soon for a summary" in captured.err
    assert not report.exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--report", "x.html"], "--report goes with --demo"),
        (["--demo", "--nodes", "3"], "at least 10 nodes, not 3"),
        (["--demo", "--report", "/nowhere/at/all.html"], "there is no directory /nowhere/at"),
        (["--demo", "--single-process"], "--single-process does not go with --demo"),
        (["--demo", "--load-speed", "0"], "--load-speed"),
    ],
)
def test_what_makes_no_sense_is_refused(args: list[str], said: str) -> None:
    done = CliRunner().invoke(up, args)
    assert done.exit_code == 2
    assert said in done.output
