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


def print_reservation(found: ReservationExplained, output: str, paragraphs: Callable[[Explanation], list[str]]) -> None:
    """`paragraphs`: renders where a pod would go, or why it is pending."""
    if output != "table":
        structured.say(found, output)
        return
    told = [_first_line(found), _figures(found)]
    if found.explanation is not None:
        told += paragraphs(found.explanation)
    click.echo("\n\n".join(told))


def _first_line(found: ReservationExplained) -> str:
    name, phase = click.style(f"reservation/{found.name}", bold=True), found.phase
    where = f" on {found.node}" if found.node else ""
    told = f": {found.message}" if found.message else ""
    return f"{name} is {click.style(phase, fg=_COLOURS.get(phase))}{where}{told}"


def _figures(found: ReservationExplained) -> str:
    lines = [f"{heading('FOR')}   {'; or '.join(found.owners)}"]
    if found.allocatable:
        each = [
            f"{name} {found.allocated.get(name, '0')} of {has} used, {found.left[name]} left"
            for name, has in found.allocatable.items()
        ]
        lines.append(f"{heading('ROOM')}   {'; '.join(each)}")
    if found.holds:
        lines.append(f"{heading('HOLDS')}   {'; '.join(found.holds)}")
    rules = ["for one owner" if found.allocate_once else "for many owners", f"policy {found.allocate_policy}"]
    rules.append("never expires" if found.expires is None else f"expires at {found.expires}")
    lines.append(f"{heading('RULES')}   {', '.join(rules)}")
    if found.waiting:
        shown = ", ".join(found.waiting[:MOST_NAMED])
        more = f" and {len(found.waiting) - MOST_NAMED} more" if len(found.waiting) > MOST_NAMED else ""
        lines.append(f"{heading('WAITING')}   {counted(len(found.waiting), 'pod')} that may use it: {shown}{more}")
        lines += [f"  {pod}: {why}" for pod, why in found.against.items()]
    return "\n".join(lines)
