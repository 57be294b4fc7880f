"""`koord bench`: runs the benchmarks and prints their figures, each beside its baseline of the same run."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Final

import click
import msgspec

from koord.bench.result import Result
from koord.cli.options import output_option

BENCHES: Final = {
    "informer": "koord.bench.informer",
    "apiserver": "koord.bench.apiserver",
    "scheduler": "koord.bench.scheduler",
    "scheduling": "koord.bench.scheduling",
    "admission": "koord.bench.admission",
    "agent": "koord.bench.agent",
    "manager": "koord.bench.manager",
    "colocation": "koord.bench.colocation",
}
"""Name to module; each has `run(quick, progress) -> list[Result]`."""

HEADINGS: Final = ("BENCH", "CASE", "METRIC", "VALUE", "UNIT", "BASELINE", "RATIO", "GOAL", "MET")


@click.command(epilog="Example: koord bench informer --quick")
@click.argument("name", required=False, type=click.Choice(list(BENCHES)), metavar="[NAME]")
@click.option("--quick", is_flag=True, help="Small sizes: seconds instead of minutes, without the goals for full size.")
@output_option("table", "json")
def bench(name: str | None, quick: bool, output: str) -> None:
    """Run the benchmark NAME, or all.

    The ratio says how many times better koord is than the baseline, which is what users have today.
    """
    results: list[Result] = []
    for chosen in [name] if name else BENCHES:
        results += importlib.import_module(BENCHES[chosen]).run(quick, _progress())
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(results)).decode())
        return
    click.echo(table(results), nl=False)


def _progress() -> Callable[[str], None]:
    if not sys.stderr.isatty():
        return lambda line: None
    return lambda line: click.echo(f"{line} ...", err=True)


def table(results: Sequence[Result]) -> str:
    """Plain aligned columns, and below them what gave the baselines."""
    rows = [HEADINGS, *(_row(result) for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    peers = dict.fromkeys((result.bench, result.peer) for result in results if result.peer)
    return "\n".join([*lines, *(f"Baseline of {bench}: {peer}" for bench, peer in peers)]) + "\n"


def _row(result: Result) -> tuple[str, ...]:
    met = "" if result.met is None else "yes" if result.met else "NO"
    ratio = "-" if result.ratio is None else f"{result.ratio:.1f}x"
    numbers = (_number(result.value), result.unit, _number(result.baseline), ratio, _number(result.goal), met)
    return (result.bench, result.case, result.metric, *numbers)


def _number(number: float | None) -> str:
    """Three digits that matter."""
    if number is None:
        return "-"
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
