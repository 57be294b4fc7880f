"""`koord explain node/NAME`: a picture of the node, and how batch and mid resources are calculated, as text or JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from koord.cli import structured
from koord.cli.inputs import read_manifests, say_of
from koord.cli.progress import Progress
from koord.cli.tables import heading, table

if TYPE_CHECKING:
    from koord.manager.node_resource.explain import Line, NodeExplanation, PodExplanation, ResourceExplanation, Setting
    from koord.offline.picture.section import Section

MOST_PODS: Final = 10
GIB: Final = 1 << 30
_LARGE: Final = re.compile(r"\b[0-9]{6,}\b")
_SIGNS: Final = {"start": " ", "minus": "-", "plus": "+", "atMost": "<=", "atLeast": ">=", "becomes": "="}
_NAMES: Final = {
    "capacity": "capacity",
    "safetyMargin": "kept free",
    "system": "system",
    "reserved": "reserved",
    "pods": "pods",
    "limit": "at most",
    "nothing": "never below nothing",
    "prodReclaimable": "reclaimable",
    "unused": "not more than is unused",
    "unallocated": "not asked for",
    "static": "fixed share",
    "normalization": "normalised",
    "thirdParty": "other systems",
    "devices": "devices",
    "rounded": "in whole units",
}
_SHORT: Final = "kubernetes.io/"


def explain_node(
    name: str,
    paths: Sequence[str],
    namespace: str,
    now_s: float,
    output: str,
    *,
    live: bool,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Prints how a node's figures are calculated. Returns the exit code."""
    import msgspec

    from koord.offline.node_resources import explain_node as explain_of
    from koord.offline.picture.picture import picture_of

    seen = None
    with Progress() as progress:
        manifests = read_manifests(paths, namespace=namespace, progress=progress)
        if live:
            from koord.offline.live.node_snapshot import with_node

            progress.say(f"looking at {name}")
            manifests, seen = with_node(manifests, name, kubeconfig, context, now_s)
        told, notes = explain_of(
            manifests,
            name,
            now_s=now_s,
            written_s=seen.written_s if seen is not None else None,
            who=seen.manager if seen is not None else "",
            remarks=seen.remarks if seen is not None else (),
        )
    for note in notes:
        click.echo(f"note: {note}", err=True)
    say_of(manifests, {})
    drawn = picture_of(manifests, name)
    if output == "table":
        first, *others = _paragraphs(told)
        click.echo("\n\n".join([first, *(_drawn(each) for each in drawn), *others]))
    else:
        picture = {each.name: each.data for each in drawn}
        structured.say({**msgspec.to_builtins(told), "picture": picture}, output)
    return 0


def _drawn(section: Section) -> str:
    lines = ["".join(click.style(*span) if span.colour else span.text for span in line) for line in section.lines]
    return "\n".join([f"{heading(section.name.upper())}   {section.title}", *(f"  {line}" for line in lines)])


def _paragraphs(told: NodeExplanation) -> list[str]:
    found = [_head(told)]
    found += [_resource(each) for each in told.resources if each.lines or each.published is not None]
    found += [_pods(told.pods)] if told.pods and told.colocation else []
    found += [_zones(told)] if told.zones else []
    changed = [each for each in told.settings if each.set_in != "default"]
    found += [_settings(changed)] if changed else []
    found += [f"{heading('NOTES')}\n" + _indented("\n".join(told.notes))] if told.notes else []
    return found


def _head(told: NodeExplanation) -> str:
    from koord.manager.lending.freshness import duration

    name = click.style(told.node, bold=True)
    if told.why_off:
        return f"{name} lends nothing: {told.why_off}"
    report = told.report
    if report.distrusted:
        return f"{name} lends nothing: {report.distrusted}"
    lent = ", ".join(
        f"{each.resource.removeprefix(_SHORT)} {amount(each, each.recomputed)}"
        for each in told.resources
        if each.recomputed is not None and each.resource.startswith(_SHORT)
    )
    age, left = duration(report.age_seconds or 0), duration(report.stale_in_seconds or 0)
    ahead = f"; the node's clock is {duration(report.ahead_seconds)} ahead" if report.ahead_seconds > 1 else ""
    return f"{name} lends {lent}\nmeasured {age} ago; stale in {left}, after which nothing is lent{ahead}"


def _resource(each: ResourceExplanation) -> str:
    policy = f"   by {each.policy}" if each.policy else ""
    title = f"{heading(each.resource)}{policy}"
    if each.recomputed is None:
        said = f"not lent: {each.why_none}" if each.why_none else "not lent"
        return f"{title}\n{_indented(said)}\n{_indented(_published(each))}"
    lines = [line for line in each.lines if not _says_nothing(line, each)]
    width = max(len(number(each, figure)) for figure in (each.recomputed, *(line.amount for line in lines)))
    names = max(len(_NAMES.get(line.name, line.name)) for line in lines)
    rows = [
        f"{_SIGNS[line.op]:<2} {number(each, line.amount):>{width}}  {_NAMES.get(line.name, line.name):<{names}}  "
        f"{_in_words(each, line.why)}".rstrip()
        for line in lines
    ]
    rows.append(f"=  {number(each, each.recomputed):>{width}}  {_result(each)}")
    return f"{title}\n{_indented(chr(10).join(rows))}\n{_indented(_published(each))}"


def _says_nothing(line: Line, each: ResourceExplanation) -> bool:
    """Whether a line has no effect on the result and is left out."""
    if line.name == "nothing":
        return bool(each.recomputed)
    return line.name == "limit" and line.why.startswith("100% ")


def _published(each: ResourceExplanation) -> str:
    if each.matches:
        return click.style("published as it is here", fg="green") if each.published is not None else "not published"
    shown = "" if each.published is None else f"published {number(each, each.published)}: "
    return click.style(f"{shown}{each.why_different}", fg="yellow")


def number(each: ResourceExplanation, figure: int) -> str:
    """A figure in a column."""
    if each.unit == "bytes":
        return f"{figure / GIB:.2f} GiB"
    unit = "m" if each.unit == "milli-cores" else ""
    return f"{figure:,}{unit}".replace(",", " ")


def amount(each: ResourceExplanation, figure: int | None) -> str:
    """A figure as a phrase for people: 1.5 cores."""
    if figure is None:
        return "nothing"
    if each.unit == "milli-cores":
        return f"{figure / 1000:g} cores"
    if each.unit == "bytes":
        return bytes_said(figure)
    return str(figure)


def _result(each: ResourceExplanation) -> str:
    """The remark of the last line: the figure in its other notation."""
    return f"{each.recomputed} bytes" if each.unit == "bytes" else amount(each, each.recomputed)


def _in_words(each: ResourceExplanation, why: str) -> str:
    """The explanation of a term, with byte counts in readable units."""
    if each.unit != "bytes":
        return why
    return _LARGE.sub(lambda found: bytes_said(int(found[0])), why)


def bytes_said(figure: int) -> str:
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(figure) >= size:
            return f"{figure / size:.1f} {unit}"
    return f"{figure} B"


def _pods(pods: tuple[PodExplanation, ...]) -> str:
    counted = [each for each in pods if each.counted_cpu or each.counted_memory or each.why != "runs on what is lent"]
    lent_to = len(pods) - len(counted)
    rows = [("POD", "CLASS", "QOS", "REQUESTED", "USED", "COUNTED", "WHY")]
    for each in counted[:MOST_PODS]:
        used = (
            "not measured"
            if each.used_cpu is None
            else f"{each.used_cpu / 1000:g} / {bytes_said(each.used_memory or 0)}"
        )
        rows.append(
            (
                each.pod,
                each.priority_class.removeprefix("koord-") or "-",
                each.qos or "-",
                f"{each.requested_cpu / 1000:g} / {bytes_said(each.requested_memory)}",
                used,
                f"{each.counted_cpu / 1000:g} / {bytes_said(each.counted_memory)}",
                each.why,
            )
        )
    more = f"\n  and {len(counted) - MOST_PODS} more (all of them with -o json)" if len(counted) > MOST_PODS else ""
    below = f"; {lent_to} more run on what is lent" if lent_to else ""
    title = f"{heading('PODS')}   cores and memory that count against batch{below}"
    return f"{title}\n{_indented(table(rows))}{more}" if counted else f"{title}\n  none"


def _zones(told: NodeExplanation) -> str:
    rows = [("ZONE", "BATCH-CPU", "BATCH-MEMORY")]
    for each in told.zones:
        cpu, memory = (each.resources.get(f"{_SHORT}batch-{name}", 0) for name in ("cpu", "memory"))
        rows.append((each.zone, f"{cpu / 1000:g}", bytes_said(memory)))
    return f"{heading('ZONES')}\n{_indented(table(rows, right=frozenset({1, 2})))}"


def _settings(changed: list[Setting]) -> str:
    rows = [("SETTING", "VALUE", "SET IN")]
    rows += [(each.field, _value(each.value), each.set_in) for each in changed]
    return f"{heading('SETTINGS')}   that are not the default\n{_indented(table(rows))}"


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
