"""`koord explain podgroup/NAME`: its state, why it waits, and what would make it schedulable, as text or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from koord.api.text.counted import counted
from koord.cli import structured
from koord.cli.tables import heading, table, terminal_columns

if TYPE_CHECKING:
    from koord.offline.explain_gang import GangExplained

WORDS: Final = ("podgroup", "podgroups", "pg", "gang")


def gang_key(argument: str, namespace: str) -> str | None:
    """`podgroup/NAME` or `podgroup/NAMESPACE/NAME`, as a gang's key; None where it is something else."""
    kind, _, name = argument.partition("/")
    if kind not in WORDS or not name:
        return None
    return name if "/" in name else f"{namespace}/{name}"


def print_gang(explained: GangExplained, output: str) -> None:
    if output == "table":
        click.echo("\n\n".join(_text(explained)))
    else:
        structured.say(explained, output)


def _text(explained: GangExplained) -> list[str]:
    """Paragraphs."""
    paragraphs = [_first_line(explained), _figures(explained)]
    if explained.why_not:
        rows: list[tuple[str, ...]] = [("REASON", "NODES")]
        rows += [(reason, str(number)) for reason, number in sorted(explained.why_not.items())]
        title = f"{heading('WHY NOT')}   for the first pod without a place, with those placed that fit"
        paragraphs.append(f"{title}\n{_indented(rows)}")
    if explained.changes:
        title = f"{heading('WHAT WOULD LET IT IN')}   the smallest changes, each tried out"
        paragraphs.append("\n".join([title, *(f"  {change}" for change in explained.changes)]))
    elif explained.outcome == "unschedulable":
        paragraphs.append(f"{heading('WHAT WOULD LET IT IN')}   no small change that koord knows of")
    if explained.network:
        title = f"{heading('NETWORK')}   what each domain could take of its pods"
        paragraphs.append("\n".join([title, *(f"  {line}" for line in explained.network)]))
    if explained.victims:
        victims = f"would make room for it: {', '.join(explained.victims)} would have to go"
        paragraphs.append(f"{heading('PREEMPTION')}   {victims}")
    if explained.nodes:
        rows = [("NODE", "PODS"), *((node, str(number)) for node, number in sorted(explained.nodes.items()))]
        paragraphs.append(f"{heading('WHERE')}\n{_indented(rows)}")
    return paragraphs


def _first_line(explained: GangExplained) -> str:
    name = click.style(explained.gang, bold=True)
    after = (
        f" (after {counted(explained.placed_before, 'pod')} ahead of it in the queue)"
        if explained.placed_before
        else ""
    )
    if explained.outcome == "unschedulable":
        return f"{name} {click.style('fits nowhere', fg='red')}: {explained.message}{after}"
    if explained.outcome == "fits":
        return f"{name} {click.style('fits', fg='green')}: {explained.message}{after}"
    return f"{name} is {explained.message}" if explained.outcome == "waiting" else f"{name}: {explained.message}"


def _figures(explained: GangExplained) -> str:
    least = "?" if explained.min_member is None else str(explained.min_member)
    figures = [
        f"needs {least}",
        counted(explained.pods, "pod"),
        f"{explained.bound} bound",
        f"{explained.waiting} waiting",
    ]
    if explained.match_policy:
        figures.append(explained.match_policy)
    if explained.phase:
        figures.append(f"phase {explained.phase}")
    if len(explained.group) > 1:
        figures.append(f"together with {', '.join(gang for gang in explained.group if gang != explained.gang)}")
    return f"{heading('GANG')}   {', '.join(figures)}"


def _indented(rows: list[tuple[str, ...]]) -> str:
    columns = terminal_columns()
    text = table(rows, right=frozenset({1}), most=None if columns is None else columns - 2)
    return "\n".join(f"  {line}" for line in text.splitlines())
