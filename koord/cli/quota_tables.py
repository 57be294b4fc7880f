"""Quotas on a terminal: the path from a pod's quota to the root, and the trees with bars of `koord top quotas`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from koord.api.protocol import names
from koord.api.text.counted import counted
from koord.cli import structured
from koord.cli.tables import heading, short, table

if TYPE_CHECKING:
    from koord.offline.quotas import QuotaTop
    from koord.scheduler.plugins.quota.figures import Borrower, QuotaFigures, QuotaPath

WIDTH: Final = 24
UNBOUNDED: Final = 1 << 53
"""A max of this size or more counts as unlimited."""


def quota_path(above: QuotaPath) -> str:
    """For `koord explain`: figures at every level, the quotas that borrow, and what would free their share."""
    lines = [f"{heading('QUOTA')}   {above.quota} and what is above it", *_indented(figures_table(above.path))]
    lines += borrowers(above.borrowers)
    if above.frees:
        lines.append("  any of these would give the pod room:")
        lines += [f"    {change}" for change in above.frees]
    return "\n".join(lines)


def figures_table(quotas: Iterable[QuotaFigures]) -> str:
    """One line per resource that a quota limits."""
    rows: list[tuple[str, ...]] = [("QUOTA", "RESOURCE", "REQUEST", "USED", "RUNTIME", "MIN", "MAX")]
    for quota in quotas:
        for key in sorted(quota.max):
            figures = (quota.request, quota.used, quota.runtime, quota.min, quota.max)
            rows.append((quota.name, key, *(str(listed.get(key, "0")) for listed in figures)))
    return table(rows, right=_RIGHT)


def borrowers(listed: Sequence[Borrower]) -> list[str]:
    """Lines about the quotas that use more than their min."""
    if not listed:
        return []
    return [
        "  who uses more than its min:",
        *(
            f"    {borrower.quota}, beside {borrower.beside}, uses {borrower.resource} {borrower.used}: "
            f"{borrower.borrowed} more than the {borrower.guaranteed} that it is guaranteed"
            for borrower in listed
        ),
    ]


_RIGHT: Final = frozenset(range(2, 7))


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.splitlines()]


def show_quotas(bars: bool | None, kubeconfig: str | None, context: str | None, output: str) -> int:
    quotas = asyncio.run(_look(kubeconfig, context))
    if output != "table":
        structured.say({"quotas": quotas}, output)
        return 0
    if not quotas:
        click.echo("there are no quotas")
        return 0
    drawn = sys.stdout.isatty() if bars is None else bars
    click.echo(quota_table(quotas, drawn=drawn))
    for quota in quotas:
        if quota.problem:
            click.echo(f"{quota.quota}: {quota.problem}", err=True)
    full = [quota for quota in quotas if not quota.is_parent and _is_short(quota)]
    if full:
        click.echo(f"{counted(len(full), 'quota')} with pods that wait for room: koord explain POD says what helps")
    return 0


class Family(NamedTuple):
    """The two resources of a band that a quota can limit."""

    band: str
    cpu: str
    memory: str


FAMILIES: Final = (
    Family("-", "cpu", "memory"),
    Family("batch", names.RESOURCE_BATCH_CPU, names.RESOURCE_BATCH_MEMORY),
    Family("mid", names.RESOURCE_MID_CPU, names.RESOURCE_MID_MEMORY),
)


def quota_table(quotas: list[QuotaTop], *, drawn: bool) -> str:
    """One line per quota, below its parent; its bar shows usage (#), the current share (|) and the max. Quotas of lent
    resources have one line per band, and then all lines name their band."""
    lines = [(quota, family) for quota in quotas for family in _families(quota)]
    banded = any(family is not FAMILIES[0] for _, family in lines)
    head = ("QUOTA", *(("BAND",) if banded else ()))
    figures = tuple(f"{key} {word}" for key in ("CPU", "MEMORY") for word in ("USED", "REQUEST", "RUNTIME"))
    rows: list[tuple[str, ...]] = [(*head, *figures, "CPU MIN", "CPU MAX", *(("CPU",) if drawn else ()))]
    for quota, family in lines:
        cells = [
            short(word, amounts.get(key, 0)) if key in quota.max or key in amounts else "-"
            for word, key in (("cpu", family.cpu), ("memory", family.memory))
            for amounts in (quota.used, quota.request, quota.runtime)
        ]
        bounds = [_bound(quota.min.get(family.cpu)), _bound(quota.max.get(family.cpu))]
        name = ("  " * quota.depth + quota.quota, *((family.band,) if banded else ()))
        rows.append((*name, *cells, *bounds, *((_bar(quota, family.cpu),) if drawn else ())))
    first = len(head)
    return table(rows, right=frozenset(range(first, first + len(figures) + 2)))


def _families(quota: QuotaTop) -> list[Family]:
    """The resources that the quota limits, otherwise cpu and memory."""
    families = [family for family in FAMILIES if family.cpu in quota.max or family.memory in quota.max]
    return families or [FAMILIES[0]]


def _bound(amount: int | None) -> str:
    if amount is None:
        return "-"
    return "none" if amount >= UNBOUNDED else short("cpu", amount)


def _bar(quota: QuotaTop, key: str) -> str:
    """Usage as a part of max, or of itself if larger; a line marks the end of the share."""
    most = quota.max.get(key, 0)
    used, share = quota.used.get(key, 0), quota.runtime.get(key, 0)
    whole = max(share, used) if most >= UNBOUNDED or not most else max(most, used)
    if not whole:
        return ""
    filled, ends = round(WIDTH * used / whole), min(WIDTH - 1, round(WIDTH * share / whole))
    cells = ["#" if i < filled else "." for i in range(WIDTH)]
    cells[ends] = "|"
    return "".join(cells)


def _is_short(quota: QuotaTop) -> bool:
    """Whether pods of a quota wait because its share is used up."""
    waiting = {key: amount - quota.used.get(key, 0) for key, amount in quota.request.items()}
    return any(
        amount > 0 and quota.request[key] > quota.runtime.get(key, amount + quota.request[key])
        for key, amount in waiting.items()
    )


async def _look(kubeconfig: str | None, context: str | None) -> list[QuotaTop]:
    from koord.api import kinds
    from koord.kube.client import Client
    from koord.kube.errors import ApiError, NotFound
    from koord.offline.quotas import quotas_of

    try:
        async with Client.from_config(kubeconfig, context) as client:
            return quotas_of(await client.list(kinds.ELASTIC_QUOTAS))
    except NotFound:
        return []
    except ApiError as error:
        raise click.ClickException(str(error)) from None
