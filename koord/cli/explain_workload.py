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


def print_workload(explained: WorkloadExplained, output: str, paragraphs: Callable[[Explained], list[str]]) -> None:
    """`paragraphs`: renders the explanation of a pod."""
    if output != "table":
        structured.say(explained, output)
        return
    shown = [_first_line(explained)]
    if explained.reasons:
        shown.append("\n".join([heading("WHY"), *(f"  {reason}" for reason in explained.reasons)]))
    if explained.unready:
        shown.append(_unready(explained))
    if explained.pod is not None:
        shown += paragraphs(explained.pod)
    click.echo("\n\n".join(shown))


def _first_line(explained: WorkloadExplained) -> str:
    outcome = click.style(explained.outcome, fg=_COLOURS.get(explained.outcome))
    first = f"{click.style(explained.workload, bold=True)} is {outcome}"
    if not explained.wanted:
        return first
    if explained.ends:
        return (
            f"{first}: {explained.succeeded} of {counted(explained.wanted, 'pod')} succeeded, {explained.ready} running"
        )
    return f"{first}: {explained.ready} of {counted(explained.wanted, 'pod')} ready"


def _unready(explained: WorkloadExplained) -> str:
    keys = list(explained.unready)
    rows = [("POD", "WHY"), *((key, explained.unready[key]) for key in keys[:MOST_PODS])]
    columns = terminal_columns()
    text = table(rows, most=None if columns is None else columns - 2)
    lines = [f"  {line}" for line in text.splitlines()]
    if len(keys) > MOST_PODS:
        lines.append(f"  and {counted(len(keys) - MOST_PODS, 'more pod')} (all of them with -o json)")
    return "\n".join([f"{heading('PODS')}   neither ready nor done", *lines])
