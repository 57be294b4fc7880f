"""`koord sim record`: the history of a cluster as a trace, from its reports as they come or from Prometheus."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from koord.cli.options import kube_options
from koord.cli.progress import Progress

if TYPE_CHECKING:
    from koord.sim.history.rows import NodeFacts, PodFacts
    from koord.sim.live.cluster_recording import Recorded
    from koord.sim.live.recording_folder import RecordingFolder

INTERRUPTED: Final = 130
LEAST_EVERY_S: Final = 1.0


@click.command(
    epilog="""\b
Example: koord sim record history --for 24h
         koord sim record history --prometheus http://localhost:9090 --since 7d
         koord sim run history

\b
A folder that has a recording is continued. Without --for, Ctrl-C ends the recording. koord needs its agents on the
nodes: they measure. From Prometheus, requests of pods that ended and sizes of nodes come from kube-state-metrics."""
)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--every",
    default="60s",
    show_default=True,
    metavar="TIME",
    help="Time between two looks at the reports, or between two points from Prometheus.",
)
@click.option("--for", "length", default="", metavar="TIME", help="Stop after this time, as in 24h.")
@click.option("--max-size", default="1Gi", show_default=True, metavar="SIZE", help="Stop at this size of the folder.")
@click.option("--pool-label", default="", metavar="KEY", help="Label of nodes that names their pool.")
@click.option(
    "--prometheus", "url", default="", metavar="URL", help="Read the past from a Prometheus that scrapes koord."
)
@click.option("--since", default="7d", show_default=True, metavar="TIME", help="With --prometheus: how far back.")
@click.option(
    "--prometheus-token-file",
    "token_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Has a bearer token for it.",
)
@click.option(
    "--prometheus-ca", "ca", type=click.Path(exists=True, dir_okay=False), help="Authority of its certificate."
)
@kube_options
@click.pass_context
def record(
    ctx: click.Context,
    folder: Path,
    every: str,
    length: str,
    max_size: str,
    pool_label: str,
    url: str,
    since: str,
    token_file: Path | None,
    ca: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Record a cluster for simulation: usage of nodes and pods, their requests and sizes, in FOLDER.

    The folder gets services, batch and nodes as packed CSV files, and a scenario that simulates them.
    """
    every_s = _seconds("--every", every)
    if every_s < LEAST_EVERY_S:
        raise click.UsageError(f"--every {every}: must be at least {LEAST_EVERY_S:g}s")
    length_s = _seconds("--for", length) if length else None
    most_bytes = _size(max_size)
    if not url:
        for name, option in (
            ("since", "--since"),
            ("token_file", "--prometheus-token-file"),
            ("ca", "--prometheus-ca"),
        ):
            if _is_given(ctx, name):
                raise click.UsageError(f"{option} goes with --prometheus")
        return asyncio.run(_from_cluster(folder, every_s, length_s, most_bytes, pool_label, kubeconfig, context))
    if length:
        raise click.UsageError("--for records a running cluster: with --prometheus, --since says how much to read")
    token = token_file.read_text().strip() if token_file is not None else ""
    since_s = _seconds("--since", since)
    return _from_prometheus(folder, url, token, ca, every_s, since_s, most_bytes, pool_label, kubeconfig, context)


async def _from_cluster(
    folder: Path,
    every_s: float,
    length_s: float | None,
    most_bytes: int,
    pool_label: str,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    from koord.kube.client import Client
    from koord.kube.errors import ApiError
    from koord.sim.live.cluster_recording import ClusterRecording, missing_right
    from koord.sim.live.recording_folder import RecordingFolder

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    until_s = None if length_s is None else time.time() + length_s
    async with Client.from_config(kubeconfig, context) as client:
        opened = RecordingFolder(folder, f"the cluster at {client.config.server}", most_bytes)
        recording = ClusterRecording(client, opened, pool_label)
        with Progress() as progress:
            progress.say("reading reports")
            try:
                done = await recording.run(
                    every_s, time.time, until_s, stop, lambda recorded: progress.say(_line(recorded))
                )
            except ApiError as error:
                raise click.ClickException(missing_right(error)) from None
    if done.fault:
        click.echo(f"warning: the last round failed: {done.fault}", err=True)
    if opened.state.first_s is None:
        raise click.ClickException(
            "no node has reported its usage: do koord's agents run? koord status says what is wrong"
        )
    _summary(folder, opened, done.pods, done.unknown_pods)
    return INTERRUPTED if stop.is_set() else 0


def _from_prometheus(
    folder: Path,
    url: str,
    token: str,
    ca: str | None,
    every_s: float,
    since_s: float,
    most_bytes: int,
    pool_label: str,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    from koord.api.text.timestamp import from_seconds
    from koord.operate.live.prometheus import Prometheus
    from koord.sim.live.prometheus_recording import PrometheusRecording
    from koord.sim.live.recording_folder import RecordingFolder

    prometheus = Prometheus(url, token=token, ca=ca)
    now_s = time.time()
    opened = RecordingFolder(folder, f"Prometheus {prometheus.url}", most_bytes)
    with Progress() as progress, _interruptible() as pressed:
        progress.say("asking the cluster")
        pods, nodes = _facts(kubeconfig, context, pool_label)
        recording = PrometheusRecording(prometheus, opened, every_s, pods, nodes)
        progress.say("asking Prometheus")
        recording.run(
            now_s - since_s, now_s, lambda: bool(pressed), lambda at_s: progress.say(f"read until {from_seconds(at_s)}")
        )
    _summary(folder, opened, recording.lines.pods, recording.lines.unknown_pods)
    return INTERRUPTED if pressed else 0


def _facts(
    kubeconfig: str | None, context: str | None, pool_label: str
) -> tuple[dict[str, PodFacts], dict[str, NodeFacts]]:
    """What the cluster says about pods and nodes. Nothing, with a warning, where it cannot be asked: Prometheus may
    have all of it."""
    from koord.api.machinery.faults import BadInput
    from koord.kube.errors import ApiError
    from koord.sim.live.cluster_recording import facts_of_cluster

    try:
        return asyncio.run(facts_of_cluster(kubeconfig, context, pool_label))
    except (ApiError, BadInput, OSError, TimeoutError) as error:
        click.echo(f"warning: requests and sizes come from Prometheus only, without the cluster: {error}", err=True)
        return {}, {}


def _summary(folder: Path, opened: RecordingFolder, pods: int, unknown_pods: int) -> None:
    from koord.api.text.quantity import from_value
    from koord.operate.since import said

    opened.write_scenario()
    state = opened.state
    length = said((state.last_s or 0) - (state.first_s or 0))
    size = from_value(max(1, round(opened.bytes / 1024)) * 1024, binary=True)
    click.echo(f"recorded {length} with {pods} pods in {folder} ({size})")
    if unknown_pods:
        click.echo(
            f"requests of {unknown_pods} pods are unknown and count as 0: they ended before they could be read",
            err=True,
        )
    if opened.is_full:
        click.echo("stopped at --max-size: a larger one continues the recording", err=True)
    click.echo(f"simulate it: koord sim run {folder}", err=True)


def _line(recorded: Recorded) -> str:
    fault = f"; retrying after: {recorded.fault}" if recorded.fault else ""
    return f"{recorded.reports} reports of {recorded.nodes} nodes, {recorded.pods} pods, {recorded.bytes} bytes{fault}"


def _seconds(option: str, text: str) -> float:
    from koord.operate.since import parse

    try:
        return parse(text)
    except ValueError as error:
        raise click.UsageError(f"{option} {error}") from None


def _size(text: str) -> int:
    from koord.api.text.quantity import QuantityError, value

    try:
        size = value(text)
    except QuantityError as error:
        raise click.UsageError(f"--max-size {error}") from None
    if size <= 0:
        raise click.UsageError(f"--max-size {text}: must be above 0, as in 1Gi")
    return size


def _is_given(ctx: click.Context, name: str) -> bool:
    from click.core import ParameterSource

    return ctx.get_parameter_source(name) is not ParameterSource.DEFAULT


@contextmanager
def _interruptible() -> Iterator[list[int]]:
    """Signals that arrived: Ctrl-C ends the recording after the page at hand."""
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
