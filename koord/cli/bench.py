"""`koord bench`: runs the benchmarks and prints their figures, each beside its baseline of the same run."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import click
import msgspec

from koord.bench.result import Result
from koord.cli.options import output_option
from koord.cli.progress import Progress


@dataclass(frozen=True, slots=True)
class Bench:
    """One benchmark: a module with `run(quick, progress) -> list[Result]`."""

    module: str
    help: str


BENCHES: Final[Mapping[str, Bench]] = {
    "informer": Bench("koord.bench.informer", "following many objects: time, memory and CPU of an informer"),
    "apiserver": Bench("koord.bench.apiserver", "the embedded API server beside the real one"),
    "scheduler": Bench("koord.bench.scheduler", "decisions of the scheduling engine, without a cluster"),
    "scheduling": Bench("koord.bench.scheduling", "pods scheduled and bound on an API server, beside kube-scheduler"),
    "admission": Bench("koord.bench.admission", "webhook requests and rules"),
    "agent": Bench("koord.bench.agent", "a round of the node agent on a busy node"),
    "manager": Bench("koord.bench.manager", "what nodes lend, on thousands of nodes"),
    "colocation": Bench("koord.bench.colocation", "do services notice batch jobs? On this machine's kernel, as root"),
}

HEADINGS: Final = ("BENCH", "CASE", "METRIC", "VALUE", "UNIT", "BASELINE", "RATIO", "GOAL", "MET")


@click.command(
    epilog="\b\nNAME is one of\n"
    + "\n".join(f"  {name:<11} {each.help}" for name, each in BENCHES.items())
    + "\n\nExample: koord bench informer --quick"
)
@click.argument("name", required=False, type=click.Choice(list(BENCHES)), metavar="[NAME]")
@click.option("--quick", is_flag=True, help="Small sizes: seconds instead of minutes, without the goals for full size.")
@output_option("table", "json")
def bench(name: str | None, quick: bool, output: str) -> None:
    """Run the benchmark NAME, or all.

    The ratio says how many times better koord is than the baseline, which is what users have today.
    """
    results: list[Result] = []
    with Progress() as progress:
        for chosen in [name] if name else BENCHES:
            say = partial(_say, progress, chosen)
            say("starting")
            results += importlib.import_module(BENCHES[chosen].module).run(quick, say)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(results)).decode())
        return
    click.echo(table(results), nl=False)


def _say(progress: Progress, bench: str, line: str) -> None:
    progress.say(f"{bench}: {line}")


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
