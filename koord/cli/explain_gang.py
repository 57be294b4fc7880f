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


def print_gang(found: GangExplained, output: str) -> None:
    if output == "table":
        click.echo("\n\n".join(_text(found)))
    else:
        structured.say(found, output)


def _text(found: GangExplained) -> list[str]:
    """Paragraphs."""
    paragraphs = [_first_line(found), _figures(found)]
    if found.why_not:
        rows: list[tuple[str, ...]] = [("REASON", "NODES")]
        rows += [(reason, str(number)) for reason, number in sorted(found.why_not.items())]
        title = f"{heading('WHY NOT')}   for the first pod without a place, with those placed that fit"
        paragraphs.append(f"{title}\n{_indented(rows)}")
    if found.changes:
        title = f"{heading('WHAT WOULD LET IT IN')}   the smallest changes, each tried out"
        paragraphs.append("\n".join([title, *(f"  {each}" for each in found.changes)]))
    elif found.outcome == "unschedulable":
        paragraphs.append(f"{heading('WHAT WOULD LET IT IN')}   no small change that koord knows of")
    if found.network:
        title = f"{heading('NETWORK')}   what each domain could take of its pods"
        paragraphs.append("\n".join([title, *(f"  {line}" for line in found.network)]))
    if found.victims:
        told = f"would make room for it: {', '.join(found.victims)} would have to go"
        paragraphs.append(f"{heading('PREEMPTION')}   {told}")
    if found.nodes:
        rows = [("NODE", "PODS"), *((node, str(number)) for node, number in sorted(found.nodes.items()))]
        paragraphs.append(f"{heading('WHERE')}\n{_indented(rows)}")
    return paragraphs


def _first_line(found: GangExplained) -> str:
    name = click.style(found.gang, bold=True)
    after = f" (after {counted(found.placed_before, 'pod')} ahead of it in the queue)" if found.placed_before else ""
    if found.outcome == "unschedulable":
        return f"{name} {click.style('fits nowhere', fg='red')}: {found.message}{after}"
    if found.outcome == "fits":
        return f"{name} {click.style('fits', fg='green')}: {found.message}{after}"
    return f"{name} is {found.message}" if found.outcome == "waiting" else f"{name}: {found.message}"


def _figures(found: GangExplained) -> str:
    least = "?" if found.min_member is None else str(found.min_member)
    told = [f"needs {least}", counted(found.pods, "pod"), f"{found.bound} bound", f"{found.waiting} waiting"]
    if found.match_policy:
        told.append(found.match_policy)
    if found.phase:
        told.append(f"phase {found.phase}")
    if len(found.group) > 1:
        told.append(f"together with {', '.join(each for each in found.group if each != found.gang)}")
    return f"{heading('GANG')}   {', '.join(told)}"


def _indented(rows: list[tuple[str, ...]]) -> str:
    columns = terminal_columns()
    text = table(rows, right=frozenset({1}), most=None if columns is None else columns - 2)
    return "\n".join(f"  {line}" for line in text.splitlines())
