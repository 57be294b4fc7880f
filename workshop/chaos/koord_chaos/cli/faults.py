"""`koord chaos faults`: injects faults at random while load runs, and says what broke and how long recovery took."""

from __future__ import annotations

import asyncio
import math
import shlex
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from koord.cli.options import Number, kube_options
from koord.cli.progress import Progress
from koord.cli.tables import table
from koord_chaos.faults.drawing import Round, check_targets, draw, read, write
from koord_chaos.faults.kinds import BY_NAME, KINDS, FaultKind, Scope, Target
from koord_chaos.faults.recovery import rows
from koord_chaos.halving import halves

if TYPE_CHECKING:
    from koord_chaos.faults.live.clusters import AnyCluster
    from koord_chaos.faults.live.run import Outcome

NODES: Final = 6


class Names(click.ParamType[tuple[str, ...]]):
    """Names with commas between them; `allowed` lists them if they are fixed."""

    name = "names"

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._allowed = allowed

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        names = value if isinstance(value, tuple) else tuple(filter(None, value.split(",")))
        for name in names:
            if self._allowed and name not in self._allowed:
                self.fail(f"{name!r} must be one of {', '.join(self._allowed)}", param, ctx)
        return names


@dataclass(frozen=True, slots=True)
class Where:
    """The cluster to disturb: one of its own, unless a data directory or a kubeconfig is given."""

    data_dir: Path | None
    kubeconfig: str | None
    context: str | None
    nodes: int
    older: tuple[str, ...]
    virtual: bool

    @property
    def scope(self) -> Scope:
        if self.data_dir is not None:
            return Scope.LOCAL
        return Scope.ANY if self.kubeconfig is not None else Scope.OWN

    def options(self) -> str:
        """The same as options of the command line."""
        if self.data_dir is not None:
            return f" --data-dir {shlex.quote(str(self.data_dir))}"
        if self.kubeconfig is not None:
            context = f" --context {shlex.quote(self.context)}" if self.context else ""
            return f" --kubeconfig {shlex.quote(self.kubeconfig)}{context}"
        older = f" --older {shlex.quote(shlex.join(self.older))}" if self.older else ""
        return f" --nodes {self.nodes}{older}{' --virtual' if self.virtual else ''}"

    def run(self, work: Coroutine[Any, Any, int]) -> int:
        """In real time, or in virtual time."""
        if not self.virtual:
            return asyncio.run(work)
        from koord_chaos.faults.live import virtual_time

        return virtual_time.run(work)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which faults, and how many."""

    seed: int
    first: int
    rounds: int
    at_once: int
    longest_s: float
    only: tuple[str, ...]
    targets: tuple[str, ...]


@click.command(
    epilog="""\b
Example: koord chaos faults --rounds 20
         koord chaos faults --dry-run --only kill,partition
         koord chaos faults --data-dir ./data --only kill,pause

\b
A cluster that koord chaos did not start must be marked as a test cluster:
  kubectl label namespace koordinator-system chaos.koord.sh/test-cluster=true"""
)
@click.option("--seed", default=0, show_default=True, help="Seed of the faults and of the load.")
@click.option("--rounds", default=20, show_default=True, type=click.IntRange(min=1), help="Rounds of faults.")
@click.option("--first", default=0, show_default=True, type=click.IntRange(min=0), help="Number of the first round.")
@click.option("--minutes", type=Number(min=0, min_open=True), metavar="N", help="Begin no round after N minutes.")
@click.option(
    "--at-once", default=3, show_default=True, type=click.IntRange(1, 20), help="Faults that a round has at most."
)
@click.option(
    "--longest", "longest_s", default=120.0, show_default=True, type=Number(1, 3600), metavar="SECONDS",
    help="No fault lasts longer.",
)  # fmt: skip
@click.option(
    "--only", type=Names([kind.name for kind in KINDS]), default="", metavar="KIND,...",
    help=f"Kinds of faults: {', '.join(kind.name for kind in KINDS)}. Default: all that are possible.",
)  # fmt: skip
@click.option(
    "--target", "targets", type=Names(), default="", metavar="NAME,...",
    help="Components and nodes that may be disturbed. Default: all.",
)  # fmt: skip
@click.option(
    "--data-dir", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
    help="Disturb the koord up that runs on this directory.",
)  # fmt: skip
@kube_options
@click.option(
    "--nodes", default=NODES, show_default=True, type=click.IntRange(1, 1000), help="Nodes of a cluster of its own."
)
@click.option(
    "--older", default="", metavar="PROGRAM",
    help="Another version of koord, for upgrades and back, as in '/opt/koord-0.1/bin/python -m koord'.",
)  # fmt: skip
@click.option(
    "--virtual", is_flag=True,
    help="Run a cluster of its own in one process, whose time jumps ahead while nothing happens.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print the faults, and inject none.")
@click.option(
    "--repeat", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="Inject the faults that a failed run left.",
)  # fmt: skip
@click.option("--shrink", is_flag=True, help="If a promise breaks, look for the rounds that are needed for it.")
@click.option(
    "--record", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Append a line of JSON for each round; koord chaos recoveries reads it.",
)  # fmt: skip
def faults(
    seed: int,
    rounds: int,
    first: int,
    minutes: float | None,
    at_once: int,
    longest_s: float,
    only: tuple[str, ...],
    targets: tuple[str, ...],
    data_dir: Path | None,
    kubeconfig: str | None,
    context: str | None,
    nodes: int,
    older: str,
    virtual: bool,
    dry_run: bool,
    repeat: Path | None,
    shrink: bool,
    record: Path | None,
) -> int:
    """Inject faults at random while load runs; exit code 1 if a promise of koord's breaks.

    Without --data-dir or --kubeconfig a cluster is started for it, which can have every kind of fault. A running koord
    up can have faults of processes and nodes; any other cluster only those that its API allows.
    """
    if data_dir is not None and kubeconfig is not None:
        raise click.UsageError("give --data-dir or --kubeconfig, not both")
    if shrink and (data_dir is not None or kubeconfig is not None):
        raise click.UsageError("--shrink needs clusters of its own: leave --data-dir and --kubeconfig out")
    if virtual and (data_dir is not None or kubeconfig is not None):
        raise click.UsageError("--virtual needs a cluster of its own: leave --data-dir and --kubeconfig out")
    where = Where(data_dir, kubeconfig, context, nodes, tuple(shlex.split(older)), virtual)
    choice = Choice(seed, first, rounds, at_once, longest_s, only, targets)
    given = read(repeat) if repeat is not None else None
    if dry_run:
        return where.run(_show(where, choice, given))
    return where.run(_run(where, choice, given, minutes, record, shrink=shrink))


@click.command(epilog="Example: koord chaos recoveries runs.jsonl")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def recoveries(files: tuple[Path, ...]) -> int:
    """Print how long recovery took, by kind of fault, from the records of runs."""
    import msgspec

    from koord_chaos.faults.live.run import Outcome

    outcomes = []
    for file in files:
        for number, line in enumerate(file.read_bytes().splitlines(), 1):
            try:
                outcomes.append(msgspec.json.decode(line, type=Outcome))
            except msgspec.DecodeError as error:
                raise click.BadParameter(f"{file}, line {number}: {error}", param_hint="FILES") from None
    _print(outcomes)
    return 0


async def _show(where: Where, choice: Choice, given: Sequence[Round] | None) -> int:
    if where.scope is Scope.OWN:
        from koord_chaos.faults.live.own_cluster import OwnOptions, own_targets

        options = OwnOptions(Path(), where.nodes, choice.seed, where.older)
        missing: Mapping[str, str] = {}
        targets = own_targets(options)
        if where.virtual:
            from koord_chaos.faults.live.virtual_cluster import MISSING, virtual_targets

            missing, targets = MISSING, virtual_targets(options)
        chosen = _rounds(choice, _kinds(choice, missing, where.scope), targets, given)
    else:
        async with _cluster(where, choice.seed) as cluster:
            chosen = _rounds(choice, _kinds(choice, {}, where.scope), await cluster.targets(), given)
    for number, round_faults in chosen:
        for fault in round_faults:
            click.echo(f"round {number}: {fault}")
    return 0


async def _run(
    where: Where,
    choice: Choice,
    given: Sequence[Round] | None,
    minutes: float | None,
    record: Path | None,
    *,
    shrink: bool,
) -> int:
    until_s = None if minutes is None else time.monotonic() + minutes * 60
    kept = Path(f"koord-chaos-{choice.seed}-{choice.first}")
    outcomes, violations, chosen = await _once(where, choice, given, until_s, record, kept)
    _print(outcomes)
    if not violations:
        return 0
    failed = [faults for _, faults in chosen[: len(outcomes)]]
    if shrink:
        short = await halves(failed, lambda some: _fails(where, choice, some))
        click.echo(f"{len(short)} of {len(failed)} rounds are enough", err=True)
        failed = short
    write(kept / "rounds.json", failed)
    for violation in violations:
        click.echo(f"broken: {violation}")
    click.echo(
        f"logs: {kept}\nrepeat it: koord chaos faults --seed {choice.seed} --repeat {kept / 'rounds.json'}"
        f"{where.options()}"
    )
    return 1


async def _fails(where: Where, choice: Choice, some: Sequence[Round]) -> bool:
    with tempfile.TemporaryDirectory() as kept:
        _, violations, _ = await _once(where, choice, some, None, None, Path(kept))
    return bool(violations)


async def _once(
    where: Where,
    choice: Choice,
    given: Sequence[Round] | None,
    until_s: float | None,
    record: Path | None,
    kept: Path,
) -> tuple[list[Outcome], list[str], list[tuple[int, Round]]]:
    """One run on one cluster. If a promise breaks, the logs of a cluster of its own are kept in the folder."""
    import msgspec

    from koord_chaos.faults.live.own_cluster import OwnCluster
    from koord_chaos.faults.live.run import run

    outcomes: list[Outcome] = []

    def noted(outcome: Outcome) -> None:
        outcomes.append(outcome)
        if record is not None:
            with record.open("ab") as file:
                file.write(msgspec.json.encode(outcome) + b"\n")

    with Progress() as progress:
        progress.say("starting the cluster")
        async with _cluster(where, choice.seed) as cluster:
            missing: Mapping[str, str] = cluster.missing() if isinstance(cluster, OwnCluster) else {}
            for name, why in missing.items():
                click.echo(f"left out: {name} {why}", err=True)
            chosen = _rounds(choice, _kinds(choice, missing, where.scope), await cluster.targets(), given)
            violations = await run(cluster, chosen, choice.seed, progress.say, noted, until_s)
            if violations:
                _keep_logs(kept, cluster.logs if isinstance(cluster, OwnCluster) else None)
    return outcomes, violations, chosen


def _keep_logs(kept: Path, logs: Path | None) -> None:
    kept.mkdir(parents=True, exist_ok=True)
    if logs is not None:
        shutil.copytree(logs, kept / "logs", dirs_exist_ok=True)


@asynccontextmanager
async def _cluster(where: Where, seed: int) -> AsyncIterator[AnyCluster]:
    from koord.kube.client import Client
    from koord.kube.locate import locate
    from koord_chaos.faults.live.clusters import AnyCluster, LocalCluster
    from koord_chaos.faults.live.own_cluster import OwnOptions, own_cluster

    async with AsyncExitStack() as stack:
        if where.scope is Scope.OWN:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="koord-chaos-")))
            options = OwnOptions(folder, where.nodes, seed, where.older)
            if where.virtual:
                from koord_chaos.faults.live.virtual_cluster import virtual_cluster

                yield await stack.enter_async_context(virtual_cluster(options))
                return
            yield await stack.enter_async_context(own_cluster(options))
            return
        path = where.kubeconfig if where.data_dir is None else str(where.data_dir / "kubeconfig")
        client = await stack.enter_async_context(Client(locate(path, where.context), user_agent="koord-chaos"))
        cluster = AnyCluster(client) if where.data_dir is None else LocalCluster(client, where.data_dir)
        await cluster.check_marked()
        yield cluster


def _kinds(choice: Choice, missing: Mapping[str, str], scope: Scope) -> list[FaultKind]:
    """The kinds that are possible and wanted. Raises a usage error for a wanted kind that is not possible."""
    possible = {kind.name for kind in KINDS if scope in _WITHIN[kind.scope]} - missing.keys()
    for name in choice.only:
        if name not in possible:
            why = missing.get(name) or f"needs {BY_NAME[name].scope}"
            raise click.BadParameter(f"{name}: {why}", param_hint="--only")
    return [BY_NAME[name] for name in choice.only] or [kind for kind in KINDS if kind.name in possible]


_WITHIN: Final = {
    Scope.OWN: (Scope.OWN,),
    Scope.LOCAL: (Scope.OWN, Scope.LOCAL),
    Scope.ANY: (Scope.OWN, Scope.LOCAL, Scope.ANY),
}
"""Where kinds of a scope are possible."""


def _rounds(
    choice: Choice,
    kinds: Sequence[FaultKind],
    targets: Mapping[Target, Sequence[str]],
    given: Sequence[Round] | None,
) -> list[tuple[int, Round]]:
    if given is not None:
        check_targets(given, targets)
        return list(enumerate(given))
    all_names = {name for names in targets.values() for name in names}
    if unknown := [name for name in choice.targets if name not in all_names]:
        can = ", ".join(sorted(all_names))
        raise click.BadParameter(f"{', '.join(unknown)}: can be {can}", param_hint="--target")
    wanted = {
        target: [name for name in names if not choice.targets or name in choice.targets]
        for target, names in targets.items()
    }
    if not any(wanted.get(kind.target) for kind in kinds):
        raise click.UsageError("no fault is possible: none of the targets can have one of these kinds")
    numbers = range(choice.first, choice.first + choice.rounds)
    return [(number, draw(choice.seed, number, kinds, wanted, choice.at_once, choice.longest_s)) for number in numbers]


def _print(outcomes: Sequence[Outcome]) -> None:
    lines = [("FAULT", "TIMES", "RECOVERY P50", "P99", "NEVER")]
    all_recoveries = [recovery for outcome in outcomes for recovery in outcome.recoveries]
    for row in rows(all_recoveries):
        lines.append((row.kind, str(row.times), _seconds(row.p50_s), _seconds(row.p99_s), str(row.never)))
    click.echo(table(lines, right=frozenset({1, 2, 3, 4})))
    broken = sum(bool(outcome.violations) for outcome in outcomes)
    click.echo(f"{len(outcomes)} rounds, {broken} with a broken promise")


def _seconds(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.1f} s"
