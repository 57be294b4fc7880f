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


def print_quota(explained: QuotaExplained, output: str) -> None:
    if output != "table":
        structured.say(explained, output)
        return
    paragraphs = [_first_line(explained), _tree(explained)]
    if explained.used_by:
        paragraphs.append(_pods("USED BY", explained.used_by, ("POD", "QUOTA", "NODE", "REQUESTS")))
    if explained.waiting:
        paragraphs.append(_waiting(explained))
    if explained.frees:
        paragraphs.append(
            "\n".join([f"{heading('WHAT HELPS')}   any of these", *(f"  {helping}" for helping in explained.frees)])
        )
    click.echo("\n\n".join(paragraphs))


def _first_line(explained: QuotaExplained) -> str:
    name = click.style(f"quota/{explained.name}", bold=True)
    if explained.problem:
        return f"{name} {click.style('cannot be used', fg='red')}: {explained.problem}"
    parts = []
    if explained.borrowed:
        parts.append(f"borrows {_listed(explained.borrowed)}")
    if explained.lends:
        parts.append(f"leaves {_listed(explained.lends)} of its min to others")
    parts.append(f"{counted(len(explained.used_by), 'pod')} on nodes, {len(explained.waiting)} waiting")
    return f"{name} {', '.join(parts)}"


def _tree(explained: QuotaExplained) -> str:
    lines = [f"{heading('QUOTA')}   with what is above and below it"]
    lines += [f"  {line}" for line in figures_table((*explained.path, *explained.below)).splitlines()]
    return "\n".join([*lines, *borrowers(explained.borrowers)])


def _pods(title: str, pods: Sequence[QuotaPod], head: tuple[str, ...]) -> str:
    rows = [head, *((pod.pod, pod.quota, pod.node or "-", _listed(pod.requests)) for pod in pods[:MOST_NAMED])]
    lines = [heading(title), *(f"  {line}" for line in table(rows).splitlines())]
    if len(pods) > MOST_NAMED:
        lines.append(f"  and {len(pods) - MOST_NAMED} more")
    return "\n".join(lines)


def _waiting(explained: QuotaExplained) -> str:
    lines = [heading("WAITING")]
    for pod in explained.waiting[:MOST_NAMED]:
        why = f": {pod.why}" if pod.why else ""
        lines.append(f"  {pod.pod} ({_listed(pod.requests)}){why}")
    if len(explained.waiting) > MOST_NAMED:
        lines.append(f"  and {len(explained.waiting) - MOST_NAMED} more")
    return "\n".join(lines)


def _listed(amounts: object) -> str:
    assert isinstance(amounts, dict)
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items()) or "nothing"
