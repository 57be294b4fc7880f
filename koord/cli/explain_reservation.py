"""`koord explain reservation/NAME`: why a reservation is pending, or which pods use it, as text or as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from koord.api.text.counted import counted
from koord.cli import structured
from koord.cli.tables import heading

if TYPE_CHECKING:
    from koord.offline.explain_reservation import ReservationExplained
    from koord.scheduler.explain import Explanation

WORDS: Final = ("reservation", "reservations")
MOST_NAMED: Final = 5
_COLOURS: Final = {"Available": "green", "Pending": "yellow", "Failed": "red"}


def reservation_name(argument: str) -> str | None:
    """`reservation/NAME`, as a name; None where it is something else."""
    kind, _, name = argument.partition("/")
    return name if kind in WORDS and name else None


def print_reservation(
    explained: ReservationExplained, output: str, paragraphs: Callable[[Explanation], list[str]]
) -> None:
    """`paragraphs`: renders where a pod would go, or why it is pending."""
    if output != "table":
        structured.say(explained, output)
        return
    shown = [_first_line(explained), _figures(explained)]
    if explained.explanation is not None:
        shown += paragraphs(explained.explanation)
    click.echo("\n\n".join(shown))


def _first_line(explained: ReservationExplained) -> str:
    name, phase = click.style(f"reservation/{explained.name}", bold=True), explained.phase
    where = f" on {explained.node}" if explained.node else ""
    why = f": {explained.message}" if explained.message else ""
    return f"{name} is {click.style(phase, fg=_COLOURS.get(phase))}{where}{why}"


def _figures(explained: ReservationExplained) -> str:
    lines = [f"{heading('FOR')}   {'; or '.join(explained.owners)}"]
    if explained.allocatable:
        uses = [
            f"{name} {explained.allocated.get(name, '0')} of {has} used, {explained.left[name]} left"
            for name, has in explained.allocatable.items()
        ]
        lines.append(f"{heading('ROOM')}   {'; '.join(uses)}")
    if explained.holds:
        lines.append(f"{heading('HOLDS')}   {'; '.join(explained.holds)}")
    rules = ["for one owner" if explained.allocate_once else "for many owners", f"policy {explained.allocate_policy}"]
    rules.append("never expires" if explained.expires is None else f"expires at {explained.expires}")
    lines.append(f"{heading('RULES')}   {', '.join(rules)}")
    if explained.waiting:
        shown = ", ".join(explained.waiting[:MOST_NAMED])
        more = f" and {len(explained.waiting) - MOST_NAMED} more" if len(explained.waiting) > MOST_NAMED else ""
        lines.append(f"{heading('WAITING')}   {counted(len(explained.waiting), 'pod')} that may use it: {shown}{more}")
        lines += [f"  {pod}: {why}" for pod, why in explained.against.items()]
    return "\n".join(lines)
