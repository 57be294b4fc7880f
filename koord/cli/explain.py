"""`koord explain POD`: why a pod is on its node or pending, and what would make it schedulable.

`koord explain node/NAME` is in `explain_node`, `deployment/NAME` and other workloads in `explain_workload`,
`podgroup/NAME` in `explain_gang`, `reservation/NAME` in `explain_reservation`, `quota/NAME` in `explain_quota`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from koord.api.text.counted import counted
from koord.cli import structured
from koord.cli.cluster_names import explained, namespaces
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
from koord.cli.options import kube_options, output_option, plugin_option, scheduler_gates_option
from koord.cli.progress import Progress
from koord.cli.quota_tables import quota_path
from koord.cli.tables import GAP, heading, table, terminal_columns

if TYPE_CHECKING:
    from koord.api.kinds import Kind
    from koord.api.text.manifest import Manifests
    from koord.cli.explain_moves import PodHistory
    from koord.offline.explain import Explained
    from koord.scheduler.explain import ChangeTold, Explanation, Standing

EVERYTHING: Final = 1 << 30
_PREFIX: Final = "preemption: "
OTHER_KINDS: Final = ("podgroup", "reservation", "quota", "node")


@click.command(
    epilog="""\b
Example: koord explain web-0 -n shop                  on the cluster
         koord explain shop/report -f examples/plan   in files
         koord explain deployment/web -n shop         why it is not complete; also of jobs, stateful sets, ...
         koord explain podgroup/train -n shop         why a gang waits
         koord explain quota/research -f examples/quotas   who uses it, who waits for it
         koord explain node/n1                        its CPUs, its devices, what it lends"""
)
@click.argument(
    "pod",
    metavar="POD|KIND/NAME",
    shell_complete=explained,
)
@click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    metavar="PATH",
    help="Offline: file or folder of manifests, or - for standard input; repeatable.",
)
@click.option("--live", is_flag=True, help="With -f: on the state of the cluster; the manifests are changes to it.")
@click.option(
    "-n",
    "--namespace",
    default="default",
    show_default=True,
    shell_complete=namespaces,
    help="Namespace of POD, and of objects in PATH.",
)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The scheduler's configuration, a KubeSchedulerConfiguration. Without it, koord's own.",
)
@plugin_option
@scheduler_gates_option
@click.option("--alone", is_flag=True, help="Leave out waiting pods that come before it in the queue.")
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="How many nodes to compare.")
@click.option("--now", metavar="TIME", help="The time that it is, as in 2026-11-15T04:25:02Z; otherwise the present.")
@click.option("--seed", type=int, default=0, show_default=True, help="Decides between nodes with equal scores.")
@kube_options
@output_option("table", "json", "yaml")
def explain(
    pod: str,
    paths: tuple[str, ...],
    live: bool,
    namespace: str,
    config: Path | None,
    plugins: tuple[str, ...],
    feature_gates: str,
    alone: bool,
    top: int,
    now: str | None,
    seed: int,
    kubeconfig: str | None,
    context: str | None,
    output: str,
) -> int:
    """Explain why a pod is on its node or pending, and what would make it schedulable.

    The scheduler's own plugins answer, on the state of the cluster or of manifests: which nodes each plugin rejects
    and why; how the best nodes compare; and the smallest changes after which the pod would fit, each of them
    tried out. A pod that has a node is examined as if it were scheduled now. Nothing is changed.

    On a cluster, the explanation also covers what slowed the pod down, which component evicted it and why, and where
    its replacement went. It includes deleted pods, as long as the cluster still has events and jobs about them.

    For a workload (deployment, replicaset, statefulset, daemonset, job, cronjob, replicationcontroller): which of its
    pods are missing or not ready, what its controller reports, and why one of its pending pods has no node.

    For a gang, named by its PodGroup or by the gang name in its pods: its progress, what it lacks, and the smallest
    changes after which it would fit.

    For a reservation: why it is pending, or what is left of it and which pods use it.

    For a quota: its figures with those of its parents and children, what it borrows or lends, which pods use it, and
    which pods wait for it and why.

    For a node: its CPUs and devices with the pods that hold them; how much of it is lent to batch and mid pods, line
    by line with the numbers used; and how the published amounts differ from that and why.
    """
    from msgspec.structs import replace

    from koord.api import kinds
    from koord.api.configuration.scheduler_config import SHIPPED
    from koord.cli.explain_gang import gang_key, print_gang
    from koord.cli.explain_moves import history, history_in
    from koord.cli.explain_quota import print_quota, quota_name
    from koord.cli.explain_reservation import print_reservation, reservation_name
    from koord.cli.explain_workload import print_workload, workload_named
    from koord.offline.expand import expand
    from koord.offline.explain import explain as explain_of
    from koord.offline.explain_gang import explain_gang
    from koord.offline.explain_quota import explain_quota
    from koord.offline.explain_reservation import explain_reservation
    from koord.offline.explain_workload import WORKLOADS, explain_workload
    from koord.offline.preview import has_config, preview
    from koord.scheduler.own_plugins import load
    from koord.scheduler.profiles import profiles_of

    live = live or not paths
    if (kubeconfig or context) and not live:
        raise click.UsageError("--kubeconfig and --context need --live, where there are manifests")
    gates = scheduler_gates(feature_gates)
    now_s = moment(now)
    kind, _, name = pod.partition("/")
    if kind in ("node", "nodes") and name:
        from koord.cli.explain_node import explain_node

        return explain_node(name, paths, namespace, now_s, output, live=live, kubeconfig=kubeconfig, context=context)
    gang, reservation, quota = gang_key(pod, namespace), reservation_name(pod), quota_name(pod)
    workload, key = workload_named(pod, namespace), _key(pod, namespace)
    unanswered: Callable[[str], str] = everybody_answers
    with Progress() as progress:
        manifests = read_manifests(paths, namespace=namespace, progress=progress)
        if live:
            from koord.offline.live import snapshot

            more = WORKLOADS if workload is not None else ()
            listed = snapshot.live(kubeconfig, context, lambda kind: progress.say(f"listing {kind}"), more=more)
            if workload is not None:
                listed += snapshot.listed(kubeconfig, context, [kinds.EVENTS], workload[1].partition("/")[0])
            manifests = snapshot.merged(manifests, listed)
            unanswered = snapshot.unanswered(kubeconfig, context, time.time(), note)
        written = manifests.require_valid()
        manifests = expand(written, now_s=now_s).manifests
        given = scheduler_configuration(config, manifests)
        is_previewed = has_config(manifests)
        if is_previewed:
            # As in a plan, the given configuration determines what nodes lend.
            _, manifests = preview(manifests, now_s=now_s)
        own = [load(plugin_path) for plugin_path in plugins]
        profiles = profiles_of(given or SHIPPED, own, gates)
        progress.say("explaining")
        if gang is not None:
            of_gang = explain_gang(manifests, profiles, gang, now_s=now_s, seed=seed)
            say_of(manifests, {} if live else of_gang.ignored)
            print_gang(of_gang.explained, output)
            return 0
        if reservation is not None:
            of_reservation = explain_reservation(manifests, profiles, reservation, now_s=now_s, seed=seed)
            say_of(manifests, {} if live else of_reservation.ignored)
            print_reservation(of_reservation.explained, output, _paragraphs)
            return 0
        if workload is not None and not _is_meant_as_pod(key, workload, written, manifests):
            of_workload = explain_workload(
                written,
                manifests,
                profiles,
                *workload,
                now_s=now_s,
                seed=seed,
                top=top if output == "table" else EVERYTHING,
                examples=3 if output == "table" else EVERYTHING,
                unanswered=supposing(given, unanswered),
            )
            say_of(manifests, {} if live else of_workload.ignored)
            print_workload(of_workload.explained, output, _text)
            return 0
        if quota is not None:
            of_quota = explain_quota(manifests, profiles, quota, now_s=now_s, seed=seed)
            say_of(manifests, {} if live else of_quota.ignored)
            print_quota(of_quota.explained, output)
            return 0
        if live:
            past = history(kubeconfig, context, key, now_s)
        else:
            # Plugins serve one cluster, and a descheduler tries moves on another.
            past = history_in(written, lambda: profiles_of(given or SHIPPED, own, gates), key, now_s)
        if any(past) and not _is_there(manifests, key):
            _print_gone(key, past, output)
            return 0
        _require_namespace(key, manifests, is_option="/" not in pod.removeprefix("pod/"))
        _require_no_workload(key, written, manifests)
        answer = explain_of(
            manifests,
            profiles,
            key,
            now_s=now_s,
            seed=seed,
            alone=alone,
            top=top if output == "table" else EVERYTHING,
            examples=3 if output == "table" else EVERYTHING,
            unanswered=supposing(given, unanswered),
        )
    # Warnings about koord's own default configuration do not help a user who asks about a pod.
    warned = profiles.warnings if given is None else ()
    for warning in dict.fromkeys(answer.warnings):
        if warning not in warned:
            click.echo(f"note: {warning}", err=True)
    ignored = {kind: number for kind, number in answer.ignored.items() if kind != "ConfigMap" or not is_previewed}
    say_of(manifests, {} if live else ignored)
    _print(replace(answer.explained, moves=past.moves, slowdowns=past.slowdowns), output)
    return 0


def _is_there(manifests: Manifests, key: str) -> bool:
    from koord.api import kinds

    return any(pod.metadata.key == key for pod in manifests.of(kinds.PODS))


def _is_meant_as_pod(key: str, workload: tuple[Kind[Any], str], written: Manifests, expanded: Manifests) -> bool:
    """Whether `jobs/report` means a pod in namespace jobs: the pod exists, or the namespace does and no Job report."""
    if _is_there(expanded, key):
        return True
    kind, name = workload
    is_workload = any(workload.metadata.key == name for workload in written.of(kind))
    return not is_workload and key.partition("/")[0] in _namespaces(expanded)


def _namespaces(manifests: Manifests) -> set[str]:
    from koord.api import kinds

    named = {named_namespace.metadata.name for named_namespace in manifests.of(kinds.NAMESPACES)}
    return named | {pod.metadata.namespace for pod in manifests.of(kinds.PODS)}


def _require_namespace(key: str, manifests: Manifests, *, is_option: bool) -> None:
    """Raises an error that lists the supported kinds if the key is neither NAMESPACE/POD nor KIND/NAME. `is_option`:
    the namespace was given with -n, so it cannot be a kind."""
    from koord.api.machinery.faults import BadInput
    from koord.offline.explain_workload import WORKLOADS

    namespace = key.partition("/")[0]
    if namespace != "default" and namespace not in _namespaces(manifests):
        if is_option:
            raise BadInput(f"there is no pod {key}: there is no namespace {namespace}")
        words = ", ".join(("pod", *(kind.kind.lower() for kind in WORKLOADS), *OTHER_KINDS))
        raise click.UsageError(
            f"there is no pod {key}: {namespace} is no namespace here, and no kind that koord explains ({words})"
        )


def _require_no_workload(key: str, written: Manifests, expanded: Manifests) -> None:
    """Raises an error if the key names a workload instead of a pod, with the command that explains the workload. From a
    cluster only pods and ReplicaSets are read here; their owner references name the other workloads."""
    from koord.api import kinds
    from koord.api.machinery.faults import BadInput
    from koord.offline.explain_workload import WORKLOADS

    if _is_there(expanded, key):
        return
    namespace, _, name = key.partition("/")
    owned = [*expanded.of(kinds.PODS), *expanded.of(kinds.REPLICA_SETS)]
    owners = {
        owner.kind
        for holder in owned
        if holder.metadata.namespace == namespace
        for owner in holder.metadata.owner_references or ()
        if owner.name == name
    }
    for kind in WORKLOADS:
        if kind.kind in owners or any(workload.metadata.key == key for workload in written.of(kind)):
            word = kind.kind.lower()
            raise BadInput(
                f"there is no pod {key}, but a {kind.kind}: koord explain {word}/{name} -n {namespace} explains it"
            )


def _print_gone(key: str, past: PodHistory, output: str) -> None:
    """Prints the history of a pod that no longer exists."""
    if output == "table":
        paragraphs = [f"{click.style(key, bold=True)} is gone", *_history(past.moves, past.slowdowns)]
        if past.events:
            paragraphs.append(f"{heading('EVENTS')}\n{_indented(chr(10).join(past.events))}")
        click.echo("\n\n".join(paragraphs))
    else:
        structured.say({"pod": key, "outcome": "gone", **past._asdict()}, output)


def _history(moves: tuple[str, ...], slowdowns: tuple[str, ...]) -> list[str]:
    paragraphs = [_slowdowns(slowdowns)] if slowdowns else []
    return [*paragraphs, _moves(moves)] if moves else paragraphs


def _slowdowns(slowdowns: tuple[str, ...]) -> str:
    return f"{heading('SLOWDOWNS')}\n{_indented(chr(10).join(slowdowns))}"


def _moves(moves: tuple[str, ...]) -> str:
    return f"{heading('MOVES')}\n{_indented(chr(10).join(moves))}"


def _key(pod: str, namespace: str) -> str:
    """`name`, `namespace/name` or `pod/name`, as a key."""
    kind, slash, name = pod.partition("/")
    if not slash or kind in ("pod", "pods"):
        return f"{namespace}/{name if slash else pod}"
    return pod


def _print(outcome: Explained, output: str) -> None:
    if output == "table":
        click.echo("\n\n".join(_text(outcome)))
    else:
        structured.say(outcome, output)


def _text(outcome: Explained) -> list[str]:
    """Paragraphs."""
    explanation = outcome.explanation
    paragraphs = [_first_line(outcome)]
    paragraphs += _history(outcome.moves, outcome.slowdowns)
    if explanation is None:
        return paragraphs
    if outcome.unanswered:
        paragraphs.append(_schedulers(outcome))
    if explanation.job:
        paragraphs.append(f"{heading('JOB')}   {outcome.message}")
    paragraphs += [f"{heading('WITHOUT EFFECT')}   {warning}" for warning in outcome.unacted]
    return paragraphs + _paragraphs(explanation)


def _paragraphs(explanation: Explanation) -> list[str]:
    """Where something would go, or why nowhere."""
    paragraphs = []
    if explanation.refusal:
        paragraphs.append(f"{heading('WHY NOT')}   whatever the node: {explanation.refusal}")
    elif explanation.why_not:
        paragraphs.append(_why_not(explanation))
    elif not explanation.nodes:
        paragraphs.append(f"{heading('WHY NOT')}   there are no nodes: add one, or start koord up with --nodes 3")
    if explanation.quota is not None and explanation.quota.short:
        paragraphs.append(quota_path(explanation.quota))
    if explanation.volumes:
        paragraphs.append(f"{heading('VOLUMES')}   {explanation.volumes}")
    if explanation.changes:
        paragraphs.append(_changes(explanation.changes))
    elif explanation.chosen is None and explanation.nodes and not explanation.refusal and not explanation.job:
        paragraphs.append(
            f"{heading('WHAT WOULD LET IT IN')}   no small change of the pod or of a node that koord knows of"
        )
    if explanation.preemption is not None:
        paragraphs.append(_preemption(explanation))
    if explanation.suggestion is not None and explanation.suggestion.type != "WaitingVictimReleased":
        paragraphs.append(f"{heading('SUGGESTION')}   {explanation.suggestion.type}: {explanation.suggestion.message}")
    if explanation.why_there:
        if explanation.gets:
            paragraphs.append(f"{heading('GETS')}   {'; '.join(explanation.gets.values())}")
        paragraphs.append(_why_there(explanation))
    return paragraphs


def _first_line(outcome: Explained) -> str:
    explanation = outcome.explanation
    name = click.style(outcome.pod, bold=True)
    if explanation is None:
        return f"{name} is {outcome.outcome}: {outcome.message}"
    beside = [f"profile {explanation.profile}"]
    if outcome.foreign and not outcome.unanswered:
        beside.append(f"though it is left to the scheduler {outcome.foreign}")
    if outcome.placed_before:
        beside.append(f"after {counted(outcome.placed_before, 'pod')} ahead of it in the queue")
    where = f"({', '.join(beside)})"
    if explanation.chosen is None:
        said = click.style("fits nowhere", fg="red")
    else:
        said = f"goes to {click.style(explanation.chosen, fg='green')}"
    then = "fit nowhere" if explanation.chosen is None else f"go to {explanation.chosen}"
    if outcome.unanswered:
        stays = click.style("stays pending", fg="red")
        return f"{name} {stays}: {outcome.unanswered}. With one that has koord's plugins, it would {then} {where}"
    if outcome.outcome == "waiting":
        return f"{name} is {outcome.message}. Were it let through, it would {then} {where}"
    if outcome.missing_node:
        gone = click.style(f"is bound to {outcome.missing_node}, which does not exist", fg="red")
        help_ = "Nothing runs it: delete the pod, or bring the node back."
        return f"{name} {gone}. {help_} If the pod were placed now, it would {then} {where}"
    if outcome.as_if_new:
        if explanation.node == explanation.chosen:
            return f"{name} is on {explanation.node}, and would go there again if it were placed now {where}"
        there = "nowhere" if explanation.chosen is None else f"to {explanation.chosen}"
        return f"{name} is on {explanation.node}. If it were placed now, it would go {there} {where}"
    return f"{name} {said} {where}"


def _schedulers(outcome: Explained) -> str:
    title = heading("SCHEDULER")
    start = "koord scheduler" + (" --alone" if outcome.scheduler_name == "default-scheduler" else "")
    if outcome.foreign:
        start = "koord scheduler --config FILE, with a profile of that name"
    return f"{title}   start one: {start}; or give the pod a schedulerName that koord status lists"


def _why_not(explanation: Explanation) -> str:
    rows = [("PLUGIN", "REASON", "NODES", "FOR EXAMPLE")]
    for against in explanation.why_not:
        reason = f"{against.reason}: {against.detail}" if against.detail else against.reason
        rows.append((against.plugin, reason, str(against.nodes), ", ".join(against.examples)))
    title = f"{heading('WHY NOT')}   {explanation.feasible} of {counted(explanation.nodes, 'node')} would do"
    return f"{title}\n{_indented(table(rows, right=frozenset({2}), most=_most()))}"


def _why_there(explanation: Explanation) -> str:
    """Plugins as rows and nodes as columns: there are more plugins, and their names are long."""
    best = _that_fit(explanation)
    plugins = dict.fromkeys(name for standing in best for name in standing.scores if explanation.weights.get(name))
    rows = [("PLUGIN", "WEIGHT", *(f"{standing.node}{' *' if standing.chosen else ''}" for standing in best))]
    for name in plugins:
        rows.append((name, str(explanation.weights[name]), *(str(standing.scores.get(name, 0)) for standing in best)))
    rows.append(("TOTAL", "", *(str(standing.total) for standing in best)))
    more = f", the best {len(best)} of them" if explanation.feasible > len(best) else ""
    star = "; * is chosen" if any(standing.chosen for standing in best) else ""
    title = (
        f"{heading('WHY THERE')}   {explanation.feasible} of {counted(explanation.nodes, 'node')} would do{more}{star}"
    )
    colours = {f"{standing.node} *": "green" for standing in best if standing.chosen}
    shown = f"{title}\n{_indented(table(rows, right=frozenset(range(1, len(best) + 2)), colours=colours))}"
    return "\n".join([shown.rstrip("\n"), *(f"  {remark}" for remark in explanation.remarks)]) + "\n" * shown.endswith(
        "\n"
    )


def _changes(changes: tuple[ChangeTold, ...]) -> str:
    rows = [("ON", "CHANGES", "WITH")]
    for change in changes:
        shown = ", ".join(change.nodes[:3]) + (f" or {len(change.nodes) - 3} more" if len(change.nodes) > 3 else "")
        on = dict.fromkeys("other pods" if step.on == "others" else step.on for step in change.steps)
        rows.append((shown, ", ".join(on), " and ".join(step.text for step in change.steps)))
    title = f"{heading('WHAT WOULD LET IT IN')}   the smallest changes, each tried out"
    return f"{title}\n{_indented(table(rows, most=_most()))}"


def _preemption(explanation: Explanation) -> str:
    preemption = explanation.preemption
    assert preemption is not None
    title = heading("PREEMPTION")
    if preemption.node is None:
        return f"{title}   {preemption.message.removeprefix(_PREFIX)}"
    return f"{title}   would make room on {preemption.node}: {', '.join(preemption.victims)} would have to go"


def _that_fit(explanation: Explanation) -> tuple[Standing, ...]:
    """The best nodes, as many as fit side by side on the terminal."""
    most, best = _most(), explanation.why_there
    if most is None:
        return best
    left = most - max(len(name) for name in (*explanation.weights, "PLUGIN")) - GAP - len("WEIGHT")
    number = 0
    while number < len(best) and (left := left - GAP - len(f"{best[number].node} *")) >= 0:
        number += 1
    return best[: max(1, number)]


def _most() -> int | None:
    """The width available to an indented table; None without a terminal."""
    columns = terminal_columns()
    return None if columns is None else columns - 2


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
