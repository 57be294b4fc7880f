"""`koord bench`: runs the benchmarks and prints their figures, each beside its baseline of the same run."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from koord.cli.options import Number, output_option
from koord.cli.progress import Progress
from koord_bench.children import ended_by_signals
from koord_bench.harness import Result

if TYPE_CHECKING:
    from koord_bench.colocation_neighbours import Neighbour

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Bench:
    """One benchmark: a module with `run(quick, progress) -> list[Result]`."""

    module: str
    help: str
    peers: tuple[str, ...] = ()
    "Programs that give its baselines, where they are installed."
    minutes: int = 0
    "About how long it takes at full size, where that is long."


SERVER: Final = ("kube-apiserver", "etcd")

BENCHES: Final[Mapping[str, Bench]] = {
    "informer": Bench("koord_bench.informer", "following many objects: time, memory and CPU of an informer"),
    "apiserver": Bench("koord_bench.apiserver", "the embedded API server beside the real one", SERVER),
    "scheduler": Bench(
        "koord_bench.scheduler", "decisions of the scheduling engine, without a cluster", ("kube-scheduler", *SERVER)
    ),
    "scheduling": Bench(
        "koord_bench.scheduling",
        "pods scheduled and bound on an API server, beside kube-scheduler",
        ("kube-scheduler", "koord-scheduler", *SERVER),
    ),
    "takeover": Bench(
        "koord_bench.takeover", "how long a large cluster is without a scheduler when the leader ends", minutes=8
    ),
    "jobs": Bench(
        "koord_bench.jobs",
        "decisions about whole jobs, and what jobs cost that do not fit",
        ("koord-scheduler", *SERVER),
    ),
    "scale": Bench(
        "koord_bench.scale",
        "how each component's cost grows, up to 100,000 nodes and a million pods; shards",
        SERVER,
        minutes=30,
    ),
    "gpu-packing": Bench("koord_bench.gpu_packing.run", "how much GPU placement policies get allocated, on traces"),
    "descheduler": Bench("koord_bench.descheduler", "a round on thousands of nodes, and a step of many moves"),
    "sim": Bench("koord_bench.sim", "a simulated day of thousands of nodes: CPU, memory and growth", minutes=15),
    "admission": Bench("koord_bench.admission", "webhook requests and rules"),
    "agent": Bench("koord_bench.agent", "a round of the node agent on a busy node"),
    "recommend": Bench("koord_bench.recommend", "are recommended requests enough? Back-tested on a trace"),
    "console": Bench("koord_bench.console", "the console on thousands of nodes: CPU, memory and size of its answers"),
    "manager": Bench("koord_bench.manager", "what nodes lend, on thousands of nodes"),
    "runtime": Bench("koord_bench.runtime", "what the runtime proxy adds to a call, and its memory"),
    "yarn": Bench("koord_bench.yarn", "one round of the YARN operator on thousands of nodes"),
    "colocation": Bench(
        "koord_bench.colocation", "do services notice batch jobs? On this machine's kernel, as root", minutes=18
    ),
}

PACKING: Final = "gpu-packing"
PACKING_OPTIONS: Final = ("data", "trace", "seed", "policy", "load", "plot")
WITH_TRACES: Final = ("recommend", "sim")
"""They take `--data`, too."""
COLOCATION: Final = "colocation"
COLOCATION_OPTIONS: Final = ("neighbours", "rounds", "seconds", "record", "minutes")
HEADINGS: Final = ("BENCH", "CASE", "METRIC", "VALUE", "UNIT", "BASELINE", "RATIO", "GOAL", "MET")


def packing_options(command: F) -> F:
    """What `koord bench gpu-packing` takes beside; no other benchmark does."""
    folder, file = click.Path(exists=True, file_okay=False, path_type=Path), click.Path(dir_okay=False, path_type=Path)
    for option in reversed((
        click.option("--data", type=folder, help="gpu-packing, recommend, sim: folder with traces; else made-up ones."),
        click.option("--trace", multiple=True, metavar="NAME", help="gpu-packing: trace to replay; repeatable."),
        click.option("--seed", multiple=True, type=int, help="gpu-packing: order of arrival; repeatable."),
        click.option("--policy", multiple=True, metavar="NAME", help="gpu-packing: policy to run; repeatable."),
        click.option("--load", multiple=True, type=Number(0.1, 3.0),
                     help="gpu-packing: pods also end, at such a load (1: the GPU there is); repeatable."),
        click.option("--plot", type=file, help="gpu-packing: write the curves to this SVG file."),
    )):  # fmt: skip
        command = option(command)
    return command


def colocation_options(command: F) -> F:
    """What `koord bench colocation` takes beside; no other benchmark does."""
    for option in reversed((
        click.option("--neighbours", metavar="LIST", help="colocation: which neighbours, as in cpu,fork; else all."),
        click.option("--rounds", type=click.IntRange(1, 100),
                     help="colocation: how often each is measured; else 5, with --record 1."),
        click.option("--seconds", type=Number(0.2, 60),
                     help="colocation: that each way is measured; else 4, with --record 2."),
        click.option("--record", type=click.Path(dir_okay=False, path_type=Path),
                     help="colocation: write response times at many loads to this file, or go on with it."),
        click.option("--minutes", type=Number(1, 600), help="colocation: with --record, for so long; else 10."),
    )):  # fmt: skip
        command = option(command)
    return command


@click.command(
    epilog="\b\nNAME is one of\n"
    + "\n".join(f"  {name:<11} {known_bench.help}" for name, known_bench in BENCHES.items())
    + "\n\nExample: koord bench informer --quick"
)
@click.argument("name", required=False, type=click.Choice(list(BENCHES)), metavar="[NAME]")
@click.option("--quick", is_flag=True, help="Small sizes: seconds instead of minutes, without the goals for full size.")
@packing_options
@colocation_options
@output_option("table", "json")
def bench(name: str | None, quick: bool, output: str, **own: Any) -> None:
    """Run the benchmark NAME, or all.

    The ratio says how many times better koord is than the baseline, which is what users have today.
    """
    packing, colocation = (
        {option: own[option] for option in option_names} for option_names in (PACKING_OPTIONS, COLOCATION_OPTIONS)
    )
    for given, of in ((packing, PACKING), (colocation, COLOCATION)):
        written = [f"--{option}" for option, value in given.items() if value]
        if written and name != of and not (name in WITH_TRACES and written == ["--data"]):
            raise click.UsageError(f"{', '.join(written)} is for {of}: koord bench {of} {' '.join(written)} ...")
    results: list[Result] = []
    names = [name] if name else list(BENCHES)
    for line in () if quick or colocation["record"] else _how_long(names):
        click.echo(f"note: {line}", err=True)
    with ended_by_signals(), Progress() as progress:
        for chosen in names:
            say = partial(_say, progress, chosen)
            say("starting")
            if chosen == PACKING:
                results += _pack(quick, say, packing)
            elif chosen == COLOCATION and colocation["record"] is not None:
                _record(say, colocation)
                return
            elif chosen == COLOCATION:
                results += _colocate(quick, say, colocation)
            elif chosen in WITH_TRACES:
                results += importlib.import_module(BENCHES[chosen].module).run(quick, say, packing["data"])
            else:
                results += importlib.import_module(BENCHES[chosen].module).run(quick, say)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(results)).decode())
    elif name == PACKING:
        click.echo(importlib.import_module(BENCHES[PACKING].module).table(results), nl=False)
    elif name == COLOCATION:
        from koord_bench import colocation_table

        click.echo(colocation_table.table(results), nl=False)
    else:
        click.echo(table(results), nl=False)
    for line in missing_peers(names):
        click.echo(f"note: {line}", err=True)


def _how_long(names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if minutes := BENCHES[name].minutes:
            yield f"{name} takes about {minutes} minutes; with --quick a few, and its goals are left out"


def missing_peers(names: Sequence[str]) -> Iterator[str]:
    """Why benchmarks have no baseline: what would give it is not here."""
    from koord_bench.api_servers import ASSETS, find_binary

    for name in names:
        if absent := [peer for peer in BENCHES[name].peers if find_binary(peer) is None]:
            looked = f"where $KUBEBUILDER_ASSETS points, in {ASSETS}, and on PATH"
            yield f"{name} has no baseline from {', '.join(absent)}: not found {looked}"


def _colocate(quick: bool, say: Callable[[str], None], given: Mapping[str, Any]) -> list[Result]:
    from koord_bench.colocation import Options, run

    if given["minutes"]:
        raise click.UsageError("--minutes needs --record FILE")
    names = tuple(neighbour.name for neighbour in _neighbours(given["neighbours"]))
    return run(quick, say, Options(names, given["rounds"] or 0, given["seconds"] or 0.0))


def _record(say: Callable[[str], None], given: Mapping[str, Any]) -> None:
    from koord_bench.colocation_recording import Order, record, summary

    order, neighbours = Order(given["record"]), _neighbours(given["neighbours"])
    chosen: dict[str, Any] = {"neighbours": neighbours} if neighbours else {}
    chosen |= {name: given[name] for name in ("rounds", "seconds", "minutes") if given[name]}
    order = replace(order, **chosen)
    recording = record(order, say)
    click.echo(f"{order.file}: {len(recording.points)} points; {summary(order, recording)}", err=True)


def _neighbours(names: str | None) -> tuple[Neighbour, ...]:
    """In the order of the names; none without names."""
    from koord_bench.colocation_neighbours import NEIGHBOURS

    by_name = {neighbour.name: neighbour for neighbour in NEIGHBOURS}
    chosen = [name.strip() for name in (names or "").split(",") if name.strip()]
    if unknown := [name for name in chosen if name not in by_name]:
        raise click.UsageError(f"--neighbours: {', '.join(unknown)} is not known; use some of {', '.join(by_name)}")
    return tuple(by_name[name] for name in chosen)


def _pack(quick: bool, say: Callable[[str], None], packing: Mapping[str, Any]) -> list[Result]:
    from koord_bench.gpu_packing.run import Options, RuleBrokenError, run
    from koord_bench.gpu_packing.traces import TraceError

    folder, traces, seeds, policies, loads, plot = (packing[option] for option in PACKING_OPTIONS)
    try:
        return run(quick, say, Options(folder, traces, seeds, policies, loads, plot))
    except (TraceError, RuleBrokenError) as error:
        raise click.ClickException(str(error)) from error


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
