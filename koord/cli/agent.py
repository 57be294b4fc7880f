"""`koord agent`: the node agent, run as a daemon or for one round, and commands that inspect or undo its work."""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from koord.cli import structured
from koord.cli.component import Common, Ready, component_options, run_component
from koord.cli.groups import Group
from koord.cli.options import output_option
from koord.cli.tables import table

if TYPE_CHECKING:
    from aiohttp.web import Request, Response

    from koord.agent.host.features import Feature
    from koord.agent.interference.evidence import Evidence
    from koord.agent.live.run import Daemon
    from koord.kube.client import Client
    from koord.kube.health import HealthServer
    from koord.kube.metrics import Metrics

F = TypeVar("F", bound=Callable[..., Any])
STATE_DIR: Final = "/var/lib/koord/agent"
_CONTAINER_ID: Final = re.compile(r"([0-9a-f]{12})[0-9a-f]{52}")
"""A container ID. The table shows the first 12 digits, the usual short form."""


def _own(*options: str) -> Callable[[F], F]:
    """Group options that a command also accepts after its own name; a value given there wins."""
    helps = {
        "--state-dir": (
            "state_dir",
            Path,
            "Where the agent keeps its record and its audit; default: that of koord agent.",
        ),
        "--host-root": ("host_root", str, "Where the host's / is."),
        "--cgroup-root": ("cgroup_root", str, "The cgroup that is the node; otherwise as the record says."),
    }

    def add(command: F) -> F:
        def take(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
            if value is not None:
                ctx.obj = {**ctx.obj, parameter.name: value}

        for option in reversed(options):
            name, type_, help_ = helps[option]
            command = click.option(
                option, name, type=type_, metavar="DIR", expose_value=False, callback=take, help=help_
            )(command)
        return command

    return add


@click.group(
    cls=Group,
    invoke_without_command=True,
    epilog="""\b
Example: koord agent --features
         koord agent --once --dry-run -f node.yaml -f pods/
         koord agent --once --state-dir ./agent -f node.yaml -f pods/
         koord agent --node-name n1 --metrics-address 127.0.0.1:9316

\b
Without --once it runs as a daemon on the node that --node-name or $NODE_NAME says, until it is stopped. What it
changed stays as it is then; `koord agent restore` puts it back.""",
)
@click.option("--node-name", default=lambda: os.environ.get("NODE_NAME", ""), help="The Node object of this host.")
@click.option("--host-root", default="/", show_default=True, metavar="DIR", help="Where the host's / is.")
@click.option(
    "--cgroup-root", default="", metavar="DIR", help="The cgroup that is the node, as kubelet's option of that name."
)
@click.option(
    "--state-dir", default=STATE_DIR, show_default=True, type=Path, help="Keeps what was there before, and the audit."
)
@click.option(
    "--cgroup-driver",
    type=click.Choice(["systemd", "cgroupfs"]),
    default=None,
    show_default="as kubelet's directories show",
    help="How kubelet names cgroups.",
)
@click.option("--kubelet-address", default="", metavar="URL", help="Where kubelet answers; otherwise as the Node says.")
@click.option(
    "--yarn-copilot",
    default="",
    metavar="SOCKET",
    help="Of koord yarn copilot; /var/run/yarn-copilot/yarn-copilot.sock.",
)
@click.option(
    "--collect-sys-metric-outdated-interval",
    "sample_expires",
    default="10s",
    show_default=True,
    metavar="DURATION",
    help="Age from which a sample does not count in what the system uses.",
)
@click.option(
    "--hooks-socket",
    type=Path,
    metavar="SOCKET",
    help="Answer koord runtime-proxy and koord nri here, as in /var/run/koord/hooks.sock.",
)
@click.option(
    "--pod-resources-proxy-path",
    "pod_resources_dir",
    default="/var/run/koordlet/pod-resources",
    show_default=True,
    metavar="DIR",
    help="With the gate PodResourcesProxy: where kubelet.sock is served.",
)
@click.option(
    "--prediction-checkpoint-filepath",
    "prediction_dir",
    default=None,
    type=Path,
    metavar="DIR",
    show_default="--state-dir",
    help="Keeps what peaks are predicted by, in its folder predictions.",
)
@click.option(
    "--prediction-cold-start-duration",
    "cold_start",
    default="24h",
    show_default=True,
    metavar="DURATION",
    help="Nothing is predicted of younger pods.",
)
@click.option(
    "--prediction-safety-margin-percent",
    "margin_percent",
    default=10,
    show_default=True,
    type=click.IntRange(0, 1000),
    help="Added to predicted peaks.",
)
@click.option(
    "--prediction-cpu-histogram-decay-halflife",
    "cpu_half_life",
    default="12h",
    show_default=True,
    metavar="DURATION",
    help="Age at which a sample of CPU counts half.",
)
@click.option(
    "--prediction-memory-histogram-decay-halflife",
    "memory_half_life",
    default="24h",
    show_default=True,
    metavar="DURATION",
    help="Likewise of memory.",
)
@click.option(
    "--prediction-training-interval",
    "training_interval",
    default="1m",
    show_default=True,
    metavar="DURATION",
    help="How often a sample is added.",
)
@click.option(
    "--prediction-model-expiration-duration",
    "model_expiration",
    default="30m",
    show_default=True,
    metavar="DURATION",
    help="Without samples for so long, a model is dropped.",
)
@click.option(
    "--prediction-model-checkpoint-interval",
    "model_checkpoint",
    default="10m",
    show_default=True,
    metavar="DURATION",
    help="How often a model is saved.",
)
@click.option("--feature-gates", default="", metavar="LIST", help="As in BEMemoryEvict=true,CPUBurst=false.")
@click.option(
    "--features", "show_features", is_flag=True, help="Say what this kernel can do, and what is used instead."
)
@click.option(
    "--once",
    "only_once",
    is_flag=True,
    help="One round on the host, for the manifests given by -f: writes what it wants, with a record in --state-dir,"
    " and evicts no pod.",
)
@click.option("--dry-run", is_flag=True, help="With --once: write nothing, say what would be written.")
@click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    metavar="PATH",
    help="With --once: Node, NodeSLO, NodeMetric, and all Pods of the node.",
)
@output_option("table", "json", "yaml")
@component_options
@click.pass_context
def agent(
    ctx: click.Context,
    node_name: str,
    host_root: str,
    cgroup_root: str,
    state_dir: Path,
    cgroup_driver: str | None,
    kubelet_address: str,
    yarn_copilot: str,
    sample_expires: str,
    hooks_socket: Path | None,
    pod_resources_dir: str,
    prediction_dir: Path | None,
    cold_start: str,
    margin_percent: int,
    cpu_half_life: str,
    memory_half_life: str,
    training_interval: str,
    model_expiration: str,
    model_checkpoint: str,
    feature_gates: str,
    show_features: bool,
    only_once: bool,
    dry_run: bool,
    paths: tuple[str, ...],
    output: str,
    common: Common,
) -> int | None:
    """Protect the services of one node from the pods that use what they leave."""
    ctx.obj = {"host_root": host_root, "cgroup_root": cgroup_root or None, "state_dir": state_dir}
    if ctx.invoked_subcommand is not None:
        return None
    if show_features:
        return _features(host_root, cgroup_root, output)
    from koord.api.configuration.features import AgentGate, parse_gates
    from koord.api.configuration.idle_gates import gates_warning

    gates = parse_gates(AgentGate, feature_gates)
    idle = gates_warning(gates, is_asked=hooks_socket is not None)
    if only_once:
        if idle:
            click.echo(f"warning: {idle}", err=True)
        from koord.cli.agent_once import run_once

        return run_once(host_root, cgroup_root, state_dir, node_name, gates, paths, output, dry_run=dry_run)
    if dry_run or paths:
        raise click.UsageError("--dry-run and -f go with --once")
    from koord.kube import lean  # noqa: F401 - before anything else imports aiohttp

    # isort: split
    from koord.agent.live.run import AgentOptions
    from koord.agent.predict.model import PredictionSettings
    from koord.api.protocol.copilot import SOCKET

    prediction = PredictionSettings(
        cold_start_s=_duration("--prediction-cold-start-duration", cold_start),
        margin_percent=margin_percent,
        cpu_half_life_s=_positive("--prediction-cpu-histogram-decay-halflife", cpu_half_life),
        memory_half_life_s=_positive("--prediction-memory-histogram-decay-halflife", memory_half_life),
        train_every_s=_positive("--prediction-training-interval", training_interval),
        expire_s=_positive("--prediction-model-expiration-duration", model_expiration),
        save_every_s=_positive("--prediction-model-checkpoint-interval", model_checkpoint),
    )
    if prediction.expire_s <= prediction.train_every_s:
        raise click.UsageError(
            "--prediction-model-expiration-duration: must be longer than --prediction-training-interval, "
            f"not {model_expiration}: models would be dropped before their next sample"
        )
    options = AgentOptions(
        node=node_name or socket.gethostname(),
        host_root=host_root,
        cgroup_root=cgroup_root,
        state_dir=state_dir,
        kubelet_address=kubelet_address,
        cgroup_driver=cgroup_driver or "",
        gates=gates,
        copilot_socket=yarn_copilot or SOCKET,
        sample_expires_s=_positive("--collect-sys-metric-outdated-interval", sample_expires),
        hooks_socket=hooks_socket,
        pod_resources_dir=pod_resources_dir,
        prediction=prediction,
        prediction_dir=prediction_dir,
    )

    servers: list[HealthServer] = []
    measured: list[Metrics] = []

    def serve(daemon: Daemon) -> None:
        from koord.agent.live.metrics import AgentCollector
        from koord.agent.live.serving import events

        async def paths(request: Request) -> Response:
            from aiohttp import web

            return events(daemon.audit, request) if request.path == "/events" else web.Response(status=404)

        for metrics in measured:
            collector = AgentCollector(
                daemon.agent,
                lambda: daemon.state,
                daemon.counts,
                time.monotonic,
                daemon.failures.counts,
                lambda: daemon.predictor.forecast,
                daemon.reporter.failing_s,
                daemon.evictions,
                options.node,
            )
            metrics.registry.register(collector)
        for server in servers:
            server.add_paths(paths)
            server.add_ready("node", daemon.missing_node)

    async def work(client: Client, ready: Ready) -> None:
        from koord.agent.live.run import run

        await run(client, options, on_start=serve, on_ready=lambda: ready({}))

    return run_component(
        "agent", work, common, warning=idle, measured=measured.append, served=servers.append, is_small=True
    )


@agent.command(epilog="Example: koord agent audit --last 20")
@_own("--state-dir")
@click.option("--last", default=50, show_default=True, help="How many.")
@output_option("table", "json", "yaml")
@click.pass_obj
def audit(options: dict[str, Any], last: int, output: str) -> int:
    """Show what the agent did on this node and why, newest first."""
    from koord.agent.executor.audit import read_file
    from koord.agent.live.keeping import AUDIT

    events = read_file(_state_dir(options) / AUDIT, last)
    if output != "table":
        structured.say(events, output)
        return 0
    if not events:
        click.echo(f"nothing is recorded in {options['state_dir'] / AUDIT}", err=True)
        return 0
    rows = [("WHEN", "WHAT", "BY", "WHERE", "FROM", "TO", "WHY")]
    for event in events:
        where = f"{event.namespace}/{event.name}"
        if event.directory:
            where = _CONTAINER_ID.sub(r"\1", event.directory) + f"/{event.file}"
        elif event.file:
            where = event.file
        rows.append((event.created_at, event.type, event.reason, where, event.old, event.value, event.message))
    click.echo(table(rows))
    return 0


@agent.command(epilog="Example: koord agent evidence shop/web-1")
@_own("--state-dir")
@click.argument("pod", metavar="POD")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of POD, if it names none.")
@output_option("table", "json", "yaml")
@click.pass_obj
def evidence(options: dict[str, Any], pod: str, namespace: str, output: str) -> int:
    """Show the agent's findings about a pod that was slowed down or slowed others down, oldest first."""
    from koord.agent.live.keeping import EVIDENCE, read_evidence

    key = pod if "/" in pod else f"{namespace}/{pod}"
    entries = read_evidence(_state_dir(options)).of(key)
    if output != "table":
        structured.say(entries, output)
        return 0
    if not entries:
        click.echo(f"nothing is recorded about {key} in {options['state_dir'] / EVIDENCE}", err=True)
        return 0
    rows = [("WHEN", "POD", "CONTAINER", "WHAT", "SIGNAL", "VALUE", "USUAL", "SUSPECTS")]
    for entry in entries:
        suspects = ", ".join(f"{one.pod} {one.score:.2f}" for one in entry.suspects) or "none"
        figures = (f"{entry.value:g}", f"{entry.usual:g}")
        rows.append((entry.at, entry.pod, entry.container, entry.step, entry.signal, *figures, suspects))
    click.echo(table(rows, right=frozenset({5, 6})))
    click.echo("\n".join(dict.fromkeys(("", *_last_of_episodes(entries)))))
    return 0


def _last_of_episodes(entries: list[Evidence]) -> list[str]:
    """The last sentence of each episode, which summarizes the episode."""
    from koord.agent.interference.episode import BEGINS

    last: dict[tuple[str, str], str] = {}
    for number, entry in enumerate(entries):
        if entry.step in BEGINS:
            last[entry.uid, entry.at] = entry.message
        elif same := [key for key in last if key[0] == entry.uid]:
            last[same[-1]] = entry.message
        else:
            # The ring buffer has dropped the beginning of the episode.
            last[entry.uid, f"{number}"] = entry.message
    return list(last.values())


@agent.command(
    epilog="""\b
Example: koord agent restore
         koord agent restore --state-dir ./agent --host-root ./host"""
)
@_own("--state-dir", "--host-root", "--cgroup-root")
@click.option("--stay", is_flag=True, help="Wait for a signal afterwards, as the pods of a DaemonSet must.")
@click.pass_obj
def restore(options: dict[str, Any], stay: bool) -> int:
    """Restore everything the agent changed on this node to its original value. Refuses while an agent runs here."""
    from koord.agent.executor.executor import Executor
    from koord.agent.host.cgroups import Cgroups
    from koord.agent.host.files import Files
    from koord.agent.live.holding import check_restorable, held, holder_of
    from koord.agent.live.keeping import LEDGER, set_aside, whole_ledger, write_ledger
    from koord.api.text.timestamp import from_seconds

    state_dir = _state_dir(options)
    last = holder_of(state_dir)
    recorded = last.roots.cgroup_root if last is not None and last.roots is not None else ""
    files = Files(options["host_root"])
    cgroups = Cgroups.of(files, options["cgroup_root"] or recorded)
    doing = "koord agent restore"
    with held(state_dir, cgroups, doing, from_seconds(time.time()), adds_to_record=False) as before:
        ledger = whole_ledger(state_dir)
        check_restorable(state_dir, list(ledger), before, cgroups)
        executor = Executor(cgroups, ledger, lambda text: write_ledger(state_dir, text))
        outcome = executor.restore_all(time.monotonic())
    files.close()
    if not (state_dir / LEDGER).exists():
        click.echo(f"no agent has changed anything with a record in {state_dir}", err=True)
    click.echo(f"put back {len(outcome.done)} settings", err=True)
    for refusal in outcome.refused:
        click.echo(f"{refusal.write.knob.name} in {refusal.write.directory}: {refusal.error}", err=True)
    if aside := set_aside(state_dir):
        click.echo(
            f"{aside}: an earlier agent could not read this record, and what it tells of was not put back. Repair it"
            " and rename it to ledger.json, or restart the node's pods, which gives them new cgroups; then delete it.",
            err=True,
        )
    failed = bool(outcome.refused or aside)
    if stay and not failed:
        import signal

        ends = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)
        signal.sigwait(ends)
    return 1 if failed else 0


@agent.command(
    epilog="""\b
Example: koord agent devices
         koord agent devices --host-root /host -o yaml"""
)
@_own("--host-root")
@output_option("table", "json", "yaml")
@click.pass_obj
def devices(options: dict[str, Any], output: str) -> int:
    """List the GPUs and RDMA cards of this host as its Device object would report them."""
    from functools import partial

    from koord.agent.devices.device_infos import device_infos
    from koord.agent.devices.pci import place_of
    from koord.agent.host.files import Files
    from koord.agent.host.topology import topology
    from koord.agent.live.devices import DeviceLook
    from koord.api.configuration.features import AgentGate
    from koord.api.text.timestamp import from_seconds

    files = Files(options["host_root"])
    look = DeviceLook(files, dict.fromkeys(AgentGate, True))
    seen = look.look().inventory
    infos = device_infos(seen, partial(place_of, files, topology(files)), (), from_seconds(time.time()))
    look.close()
    files.close()
    if look.absence:
        click.echo(f"no NVIDIA GPUs: {look.absence}", err=True)
    if output != "table":
        structured.say(infos, output)
        return 0
    if not infos:
        click.echo("no devices", err=True)
        return 0
    rows = [("TYPE", "MINOR", "ID", "HEALTHY", "OFFERS", "NUMA", "PCIE", "BUS")]
    for info in infos:
        offers = ", ".join(f"{name.rpartition('/')[2]} {amount}" for name, amount in sorted(info.resources.items()))
        offers = f"MIG {info.labels['mig-profile']}: {offers}" if "mig-profile" in info.labels else offers
        (condition, *_) = info.conditions
        healthy = "yes" if info.health else f"no: {condition.message}"
        place = info.topology
        where = (str(place.node_id), place.pcie_id, place.bus_id) if place else ("-", "-", "-")
        rows.append((info.type, str(info.minor), info.id, healthy, offers, *where))
    click.echo(table(rows))
    return 0


def _state_dir(options: dict[str, Any]) -> Path:
    """The folder of the agent's records. A missing folder is a usage error, not a node without changes."""
    state_dir: Path = options["state_dir"]
    if not state_dir.is_dir():
        raise click.UsageError(f"--state-dir {state_dir}: there is no such folder, so no record of what was changed")
    return state_dir


def _duration(option: str, text: str) -> float:
    """The duration in seconds; negative durations are rejected."""
    from koord.api.text.duration import DurationError, parse_duration

    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise click.UsageError(f"{option}: {error}") from error
    if seconds < 0:
        raise click.UsageError(f"{option}: must not be negative, as {text} is")
    return seconds


def _positive(option: str, text: str) -> float:
    """The duration in seconds, which must be above zero."""
    seconds = _duration(option, text)
    if seconds <= 0:
        raise click.UsageError(f"{option}: must be longer than 0s, as in 10s, not {text}")
    return seconds


def features_of(host_root: str, cgroup_root: str) -> tuple[Feature, ...]:
    """The features that the kernel of a host supports."""
    from koord.agent.host.cgroups import Cgroups
    from koord.agent.host.features import features
    from koord.agent.host.files import Files
    from koord.agent.view import driver_in
    from koord.api.kubernetes.cgroup import qos_dir
    from koord.api.kubernetes.words import KubeQoS

    files = Files(host_root)
    cgroups = Cgroups.of(files, cgroup_root)
    pods = qos_dir(KubeQoS.GUARANTEED, driver_in(cgroups))
    # A host without kubelet has no directory of pods; its root shows nearly the same.
    directory = pods if files.exists(cgroups.name("cpu", pods)) else ""
    result = features(cgroups, directory)
    files.close()
    return result


def _features(host_root: str, cgroup_root: str, output: str) -> int:
    result = features_of(host_root, cgroup_root)
    if output != "table":
        structured.say(
            [{"feature": feature.name, "present": feature.is_there, "how": feature.how} for feature in result], output
        )
        return 0
    rows = [("FEATURE", "THIS KERNEL", "WHAT IS USED")]
    rows += [(feature.name, "yes" if feature.is_there else "no", feature.how) for feature in result]
    click.echo(table(rows, colours={"yes": "green", "no": "yellow"} if sys.stdout.isatty() else None))
    return 0
