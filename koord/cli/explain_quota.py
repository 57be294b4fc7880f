"""`koord explain quota/NAME`: a quota's tree and figures, its running and its waiting pods, as text or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from koord.api.text.counted import counted
from koord.cli import structured
from koord.cli.quota_tables import borrowers, figures_table
from koord.cli.tables import heading, table

if TYPE_CHECKING:
    from koord.offline.explain_quota import QuotaExplained, QuotaPod

WORDS: Final = ("quota", "quotas", "elasticquota", "elasticquotas", "eq")
MOST_NAMED: Final = 10


def quota_name(argument: str) -> str | None:
    """`quota/NAME`, as a name; None where it is something else."""
    kind, _, name = argument.partition("/")
    return name if kind in WORDS and name else None


def print_quota(found: QuotaExplained, output: str) -> None:
    if output != "table":
        structured.say(found, output)
        return
    told = [_first_line(found), _tree(found)]
    if found.used_by:
        told.append(_pods("USED BY", found.used_by, ("POD", "QUOTA", "NODE", "REQUESTS")))
    if found.waiting:
        told.append(_waiting(found))
    if found.frees:
        told.append("\n".join([f"{heading('WHAT HELPS')}   any of these", *(f"  {each}" for each in found.frees)]))
    click.echo("\n\n".join(told))


def _first_line(found: QuotaExplained) -> str:
    name = click.style(f"quota/{found.name}", bold=True)
    if found.problem:
        return f"{name} {click.style('cannot be used', fg='red')}: {found.problem}"
    parts = []
    if found.borrowed:
        parts.append(f"borrows {_listed(found.borrowed)}")
    if found.lends:
        parts.append(f"leaves {_listed(found.lends)} of its min to others")
    parts.append(f"{counted(len(found.used_by), 'pod')} on nodes, {len(found.waiting)} waiting")
    return f"{name} {', '.join(parts)}"


def _tree(found: QuotaExplained) -> str:
    lines = [f"{heading('QUOTA')}   with what is above and below it"]
    lines += [f"  {line}" for line in figures_table((*found.path, *found.below)).splitlines()]
    return "\n".join([*lines, *borrowers(found.borrowers)])


def _pods(title: str, pods: Sequence[QuotaPod], head: tuple[str, ...]) -> str:
    rows = [head, *((each.pod, each.quota, each.node or "-", _listed(each.requests)) for each in pods[:MOST_NAMED])]
    lines = [heading(title), *(f"  {line}" for line in table(rows).splitlines())]
    if len(pods) > MOST_NAMED:
        lines.append(f"  and {len(pods) - MOST_NAMED} more")
    return "\n".join(lines)


def _waiting(found: QuotaExplained) -> str:
    lines = [heading("WAITING")]
    for each in found.waiting[:MOST_NAMED]:
        why = f": {each.why}" if each.why else ""
        lines.append(f"  {each.pod} ({_listed(each.requests)}){why}")
    if len(found.waiting) > MOST_NAMED:
        lines.append(f"  and {len(found.waiting) - MOST_NAMED} more")
    return "\n".join(lines)


def _listed(amounts: object) -> str:
    assert isinstance(amounts, dict)
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items()) or "nothing"
