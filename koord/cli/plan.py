"""`koord plan`: where the pods in manifests would go. Needs a cluster only with --live."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from koord.api.text.counted import counted
from koord.cli import structured
from koord.cli.inputs import (
    everybody_answers,
    moment,
    note,
    read_manifests,
    say_of,
    scheduler_configuration,
    scheduler_gates,
    supposing,
)
from koord.cli.options import (
    config_option,
    kube_options,
    manifest_option,
    offline_options,
    output_option,
    plugin_option,
    scheduler_gates_option,
)
from koord.cli.plan_preview import previewed_tables
from koord.cli.progress import Progress
from koord.cli.tables import short, table

if TYPE_CHECKING:
    from koord.api.text.manifest import Manifests
    from koord.offline.plan import Plan, Planned, PodPlan


@click.command(epilog="Example: koord plan -f cluster.json -f new-pods.yaml --strict")
@manifest_option
@config_option("scheduler", "KubeSchedulerConfiguration")
@plugin_option
@scheduler_gates_option
@offline_options
@click.option("--seed", type=int, default=0, show_default=True, help="Decides between nodes with equal scores.")
@click.option(
    "--rounds",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How often a pod is tried, when placements after its last try could help it, or pods that make room for it.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 if a pod stays without a place, or an object is ignored.")
@click.option("--live", is_flag=True, help="Plan on the state of the cluster; the manifests are changes to it.")
@kube_options
@output_option("table", "wide", "json", "yaml", "name")
def plan(
    paths: tuple[str, ...],
    config: Path | None,
    plugins: tuple[str, ...],
    feature_gates: str,
    namespace: str,
    now: str | None,
    seed: int,
    rounds: int,
    strict: bool,
    live: bool,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    """Show where the pending pods in manifests would go, and why.

    Takes Nodes, Pods and all objects that affect scheduling: Services and workloads (spreading), claims and volumes,
    PriorityClasses, PodDisruptionBudgets, Namespaces, NodeMetrics, Reservations, the scheduler's configuration. Pods
    with a node count as running. Ignored kinds are listed. With --live, the objects come from the cluster, unless
    the manifests replace them, and pods whose scheduler does not run stay pending; with --config, the scheduler with
    that configuration counts as running. Nothing is changed.

    A ConfigMap slo-controller-config is previewed: what each node would lend to batch and mid pods, and which pods
    would be evicted. Pods are then placed on the resulting resources.
    """
    from koord.api.configuration.scheduler_config import SHIPPED
    from koord.manager.config_in_force import PUBLISHED, STORED
    from koord.offline.expand import WORKLOADS, expand, unused
    from koord.offline.order import require_order
    from koord.offline.plan import UNPLACED
    from koord.offline.plan import plan as plan_of
    from koord.offline.preview import KINDS as PREVIEW_KINDS
    from koord.offline.preview import has_config, preview
    from koord.offline.world import KINDS
    from koord.scheduler.own_plugins import load
    from koord.scheduler.plugins.devices.templates import USUAL as TEMPLATES
    from koord.scheduler.profiles import profiles_of

    if not paths and not live:
        raise click.UsageError("give manifests with -f/--filename, or --live, or both")
    if (kubeconfig or context) and not live:
        raise click.UsageError("--kubeconfig and --context go with --live")
    gates = scheduler_gates(feature_gates)
    now_s = moment(now)
    with Progress() as progress:
        manifests = read_manifests(paths, namespace=namespace, progress=progress, strict=strict)
        asks_preview, replaced = has_config(manifests), None
        taken = (*KINDS, *WORKLOADS, *(PREVIEW_KINDS if asks_preview else ()))
        ignored = unused(manifests, taken, (STORED, PUBLISHED, TEMPLATES))
        unanswered: Callable[[str], str] = everybody_answers
        if live:
            from koord.offline.live import snapshot

            current = snapshot.live(
                kubeconfig, context, lambda kind: progress.say(f"listing {kind}"), configuration=asks_preview
            )
            replaced = manifests.with_items(current)
            manifests = snapshot.merged(manifests, current)
            unanswered = snapshot.unanswered(kubeconfig, context, time.time(), note)
        manifests.require_valid()
        expanded = expand(manifests, now_s=now_s)
        manifests, ignored = expanded.manifests, [*ignored, *expanded.ignored]
        # The objects read so far stay in use: the garbage collector need not scan them again.
        gc.freeze()
        given = scheduler_configuration(config, manifests)
        progress.say("feeding nodes and pods")
        mended = require_order(manifests, given or SHIPPED, before=replaced)
        previewed = None
        if asks_preview:
            progress.say("working out what nodes would lend")
            previewed, manifests = preview(manifests, now_s=now_s, replaced=replaced)
        planned = plan_of(
            manifests,
            profiles_of(given or SHIPPED, [load(plugin_path) for plugin_path in plugins], gates),
            now_s=now_s,
            seed=seed,
            rounds=rounds,
            previewed=previewed,
            unanswered=supposing(given, unanswered),
            progress=lambda done, total: progress.say(f"placing pods: {done:,} of {total:,}"),
        )
    for remark in previewed.notes if previewed is not None else ():
        click.echo(f"warning: {remark}", err=True)
    for line in mended:
        click.echo(f"warning: {line}", err=True)
    for line in expanded.notes:
        click.echo(f"note: {line}", err=True)
    _say_beside(planned, manifests)
    if given is not None and planned.unnamed:
        first = given.profiles[0].scheduler_name
        click.echo(f"note: pods that name no scheduler ({planned.unnamed}) go with the profile {first}", err=True)
    _print(planned, output)
    if strict:
        for left_out in ignored:
            click.echo(f"error: --strict: ignored {left_out}", err=True)
    outcomes = planned.plan.outcomes()
    return 1 if strict and (ignored or any(outcomes[outcome] for outcome in UNPLACED)) else 0


def _say_beside(planned: Planned, manifests: Manifests) -> None:
    for line in dict.fromkeys(planned.warnings):
        click.echo(f"note: {line}", err=True)
    say_of(manifests, planned.plan.ignored)


def _print(planned: Planned, output: str) -> None:
    if output in ("json", "yaml"):
        structured.say(planned.plan, output)
    elif output == "name":
        for key in _asking(planned):
            click.echo(f"pod/{key}")
    else:
        _tables(planned, wide=output == "wide")


def _asking(planned: Planned) -> dict[str, PodPlan]:
    """The planned pods, without those that already had a node."""
    return {key: pod for key, pod in planned.plan.pods.items() if key not in planned.running}


def _tables(planned: Planned, wide: bool) -> None:
    """Prints the pods to place with their results; if wide, also running pods, nodes and scores."""
    placed_plan = planned.plan
    if placed_plan.colocation:
        click.echo(previewed_tables(placed_plan, wide=wide))
        click.echo()
    shown = placed_plan.pods if wide else _asking(planned)
    if shown:
        headings = ("POD", "OUTCOME", "NODE", *(("SCORES",) if wide else ()), "REASON")
        click.echo(table([headings, *(_row(key, pod, wide) for key, pod in shown.items())], colours=_COLOURS))
    if wide and placed_plan.nodes:
        if shown:
            click.echo()
        click.echo(table(list(_node_rows(placed_plan))))
    if placed_plan.reservations:
        if shown:
            click.echo()
        click.echo(table(list(_reservation_rows(placed_plan)), colours=_COLOURS))
    numbers = placed_plan.outcomes()
    numbers["scheduled"] -= len(planned.running)
    counts = [f"{number} {outcome}" for outcome, number in sorted(numbers.items()) if number]
    if planned.running:
        counts.append(f"{len(planned.running)} running before")
    click.echo(
        ("\n" if shown or wide or placed_plan.reservations else "")
        + f"{counted(len(placed_plan.nodes), 'node')}, pods: "
        + (", ".join(counts) or "none")
    )


def _row(key: str, pod: PodPlan, wide: bool) -> tuple[str, ...]:
    scores = " ".join(f"{plugin}={score}" for plugin, score in pod.scores.items()) or "-"
    return (key, pod.outcome, pod.node or "-", *((scores,) if wide else ()), pod.reason)


def _reservation_rows(plan_made: Plan) -> Iterable[tuple[str, ...]]:
    yield "RESERVATION", "PHASE", "NODE", "USED", "REASON"
    for name, reservation in plan_made.reservations.items():
        used = [
            f"{resource} {reservation.allocated.get(resource, '0')}/{has}"
            for resource, has in reservation.allocatable.items()
        ]
        yield name, reservation.phase, reservation.node or "-", ", ".join(used) or "-", reservation.reason


def _node_rows(plan_made: Plan) -> Iterable[tuple[str, ...]]:
    resources = list(dict.fromkeys(name for node in plan_made.nodes.values() for name in node.allocatable))
    short_names = Counter(name.rpartition("/")[2] for name in resources)
    headings = (
        (short_name if short_names[short_name] == 1 else name)
        for name in resources
        for short_name in [name.rpartition("/")[2]]
    )
    yield ("NODE", *(f"{heading.upper()} (ASKED/HAS)" for heading in headings))
    for name, node in plan_made.nodes.items():
        yield (
            name,
            *(f"{_short(resource, node.requested)}/{_short(resource, node.allocatable)}" for resource in resources),
        )


def _short(resource: str, quantities: Mapping[str, str]) -> str:
    """An amount in readable units: memory in Mi and Gi."""
    from koord.api.text.quantity import amount

    text = quantities.get(resource, "0")
    return short(resource, amount(resource, text)) if resource.endswith("memory") else text


_COLOURS: Final = {
    "scheduled": "green",
    "unschedulable": "red",
    "denied": "red",
    "waiting": "yellow",
    "Available": "green",
    "Pending": "red",
}
