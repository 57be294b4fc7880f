"""`koord sim calibrate`: the constants of the latency model from a recording of response times."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from koord.cli import structured
from koord.cli.options import Number, output_option
from koord.cli.tables import table

if TYPE_CHECKING:
    from koord.sim.latency import FitError, LatencyModel

MOST_MIB: Final = 64


@click.command(
    epilog="""\b
Example: sudo koord sim calibrate points.json --record --constants latency.json
         koord sim run --latency latency.json

\b
--record goes on with RECORDING where it exists, and needs root, koord[bench] and a machine that does nothing else.
Without it, RECORDING comes from koord bench colocation --record RECORDING."""
)
@click.argument("recording", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--record", is_flag=True, help="Record response times on this machine first.")
@click.option("--minutes", type=Number(1, 600), help="With --record, at most for so long; else 10.")
@click.option(
    "--constants",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the constants to this file, for koord sim run --latency FILE.",
)
@output_option("table", "json", "yaml")
def calibrate(recording: Path, record: bool, minutes: float | None, constants: Path | None, output: str) -> None:
    """Fit the latency model to a recording, and say how far it is off.

    Half of the recorded points make the constants. The errors are those on the other half.
    """
    import msgspec

    from koord.api.text.bounded import read_bounded
    from koord.sim.latency_fit import fit
    from koord.sim.latency_recording import parse

    if minutes is not None and not record:
        raise click.UsageError("--minutes goes with --record")
    _refuse(constants)
    if record:
        _record(recording, minutes)
    elif not recording.exists():
        raise click.UsageError(f"there is no recording {recording}: add --record to make it on this machine")
    model = fit(parse(read_bounded(recording, MOST_MIB, "a recording of response times"), str(recording)))
    if constants is not None:
        # "x": a file that came since then stays.
        with constants.open("xb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(model), indent=1) + b"\n")
        click.echo(f"constants: {constants}", err=True)
    if output == "table":
        click.echo(_described(model))
    else:
        structured.say(model, output)


def _refuse(constants: Path | None) -> None:
    """Before a long recording: whether the constants could be written at its end."""
    if constants is None:
        return
    if constants.exists():
        raise click.UsageError(f"--constants {constants}: exists already: remove it, or name another file")
    if not constants.parent.is_dir():
        raise click.UsageError(f"--constants {constants}: there is no folder {constants.parent}")
    if not os.access(constants.parent, os.W_OK | os.X_OK):
        raise click.UsageError(f"--constants {constants}: you may not write into {constants.parent}")


def _record(file: Path, minutes: float | None) -> None:
    if os.geteuid() != 0:
        raise click.UsageError("--record needs root: it makes cgroups, and runs the agent on them")
    from koord.kube.program import own_program

    if not file.parent.is_dir():
        raise click.UsageError(f"there is no folder {file.parent}")
    limit = () if minutes is None else ("--minutes", f"{minutes:g}")
    command = [*own_program("koord"), "bench", "colocation", "--record", str(file), *limit]
    if code := subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
        # The child has said why.
        raise click.exceptions.Exit(code if code > 0 else 128 - code)


def _described(model: LatencyModel) -> str:
    """Errors first, then what each neighbour does."""
    machine = model.machine
    where = f"{machine.cpu}, {machine.cpus} CPUs, kernel {machine.kernel}, cgroup {machine.cgroups}, {machine.date}"
    errors = [("QUANTILE", "POINTS", "MEDIAN ERROR", "WORST"), _error_row("p50", model.p50_error)]
    errors.append(_error_row("p99", model.p99_error))
    rows = [("NEIGHBOUR", "AGENT", "STRETCH", "P50 DELAY", "P99 DELAY")]
    for name in model.full:
        for agent, protected in (("yes", True), ("no", False)):
            influence = model.influence(name, protected=protected)
            delays = (f"{influence.p50_delay_ms:.2f} ms", f"{influence.p99_delay_ms:.2f} ms")
            rows.append((name, agent, f"{influence.stretch:.2f}", *delays))
    behind = model.p99_error
    return "\n".join(
        (
            f"measured on: {where}",
            f"a service alone and idle: p50 {model.p50.idle_ms:.2f} ms, p99 {model.p99.idle_ms:.2f} ms",
            "",
            table(errors, right=frozenset((1, 2, 3))),
            *((f"left out, with too few undisturbed points: {', '.join(model.left_out)}",) if model.left_out else ()),
            f"services that fell behind: {behind.overloaded}, predicted: {behind.overloaded_predicted}",
            "",
            table(rows, right=frozenset((2, 3, 4))),
        )
    )


def _error_row(name: str, error: FitError) -> tuple[str, str, str, str]:
    return name, str(error.points), f"{error.median_percent:.1f}%", f"{error.worst_percent:.1f}%"
