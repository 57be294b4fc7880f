"""`koord explain deployment/NAME`: why a workload is not complete, as text or as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from koord.api.text.counted import counted
from koord.cli import structured
from koord.cli.tables import heading, table, terminal_columns

if TYPE_CHECKING:
    from koord.api.kinds import Kind
    from koord.offline.explain import Explained
    from koord.offline.explain_workload import WorkloadExplained

SHORT: Final = {
    "deploy": "deployment",
    "rs": "replicaset",
    "sts": "statefulset",
    "ds": "daemonset",
    "cj": "cronjob",
    "rc": "replicationcontroller",
}
MOST_PODS: Final = 5
_COLOURS: Final = {"complete": "green", "incomplete": "red", "failed": "red", "suspended": "yellow"}


def workload_named(argument: str, namespace: str) -> tuple[Kind[Any], str] | None:
    """`deployment/NAME` or `deployment/NAMESPACE/NAME`, as a kind and a key; None where it is something else."""
    from koord.offline.explain_workload import WORKLOADS

    word, _, name = argument.partition("/")
    word = SHORT.get(word, word)
    for kind in WORKLOADS:
        if name and word in (kind.kind.lower(), kind.plural):
            return kind, name if "/" in name else f"{namespace}/{name}"
    return None


def print_workload(found: WorkloadExplained, output: str, paragraphs: Callable[[Explained], list[str]]) -> None:
    """`paragraphs`: renders the explanation of a pod."""
    if output != "table":
        structured.say(found, output)
        return
    told = [_first_line(found)]
    if found.reasons:
        told.append("\n".join([heading("WHY"), *(f"  {each}" for each in found.reasons)]))
    if found.unready:
        told.append(_unready(found))
    if found.pod is not None:
        told += paragraphs(found.pod)
    click.echo("\n\n".join(told))


def _first_line(found: WorkloadExplained) -> str:
    outcome = click.style(found.outcome, fg=_COLOURS.get(found.outcome))
    first = f"{click.style(found.workload, bold=True)} is {outcome}"
    if not found.wanted:
        return first
    if found.ends:
        return f"{first}: {found.succeeded} of {counted(found.wanted, 'pod')} succeeded, {found.ready} running"
    return f"{first}: {found.ready} of {counted(found.wanted, 'pod')} ready"


def _unready(found: WorkloadExplained) -> str:
    keys = list(found.unready)
    rows = [("POD", "WHY"), *((key, found.unready[key]) for key in keys[:MOST_PODS])]
    columns = terminal_columns()
    text = table(rows, most=None if columns is None else columns - 2)
    lines = [f"  {line}" for line in text.splitlines()]
    if len(keys) > MOST_PODS:
        lines.append(f"  and {counted(len(keys) - MOST_PODS, 'more pod')} (all of them with -o json)")
    return "\n".join([f"{heading('PODS')}   neither ready nor done", *lines])
