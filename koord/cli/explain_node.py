"""`koord explain node/NAME`: a picture of the node, and how batch and mid resources are calculated, as text or JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from koord.api.text.counted import counted
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
    "mark": "safety mark",
    "margin": "margin",
    "services": "services",
    "more": "more",
    "amount": "amount",
    "counted": "counted",
    "room": "room",
    "requests": "requests",
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
        explanation, notes = explain_of(
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
        first, *others = _paragraphs(explanation)
        click.echo("\n\n".join([first, *(_drawn(drawing) for drawing in drawn), *others]))
    else:
        picture = {drawing.name: drawing.data for drawing in drawn}
        structured.say({**msgspec.to_builtins(explanation), "picture": picture}, output)
    return 0


def _drawn(section: Section) -> str:
    lines = ["".join(click.style(*span) if span.colour else span.text for span in line) for line in section.lines]
    return "\n".join([f"{heading(section.name.upper())}   {section.title}", *(f"  {line}" for line in lines)])


def _paragraphs(explanation: NodeExplanation) -> list[str]:
    paragraphs = [_head(explanation)]
    paragraphs += [
        _resource(resource) for resource in explanation.resources if resource.lines or resource.published is not None
    ]
    paragraphs += [_pods(explanation.pods)] if explanation.pods and explanation.colocation else []
    paragraphs += [_zones(explanation)] if explanation.zones else []
    changed = [setting for setting in explanation.settings if setting.set_in != "default"]
    paragraphs += [_settings(changed)] if changed else []
    paragraphs += [f"{heading('NOTES')}\n" + _indented("\n".join(explanation.notes))] if explanation.notes else []
    return paragraphs


def _head(explanation: NodeExplanation) -> str:
    from koord.manager.lending.freshness import duration

    name = click.style(explanation.node, bold=True)
    if explanation.why_off:
        return f"{name} lends nothing: {explanation.why_off}"
    report = explanation.report
    if report.distrusted:
        return f"{name} lends nothing: {report.distrusted}"
    lent = ", ".join(
        f"{resource.resource.removeprefix(_SHORT)} {amount(resource, resource.recomputed)}"
        for resource in explanation.resources
        if resource.recomputed is not None and resource.resource.startswith(_SHORT)
    )
    age, left = duration(report.age_seconds or 0), duration(report.stale_in_seconds or 0)
    ahead = f"; the node's clock is {duration(report.ahead_seconds)} ahead" if report.ahead_seconds > 1 else ""
    return f"{name} lends {lent}\nmeasured {age} ago; stale in {left}, after which nothing is lent{ahead}"


def _resource(resource: ResourceExplanation) -> str:
    policy = f"   by {resource.policy}" if resource.policy else ""
    title = f"{heading(resource.resource)}{policy}"
    if resource.recomputed is None:
        said = f"not lent: {resource.why_none}" if resource.why_none else "not lent"
        return f"{title}\n{_indented(said)}\n{_indented(_published(resource))}"
    lines = [line for line in resource.lines if not _says_nothing(line, resource)]
    width = max(len(number(resource, figure)) for figure in (resource.recomputed, *(line.amount for line in lines)))
    names = max(len(_NAMES.get(line.name, line.name)) for line in lines)
    rows = [
        f"{_SIGNS[line.op]:<2} {number(resource, line.amount):>{width}}  {_NAMES.get(line.name, line.name):<{names}}  "
        f"{_in_words(resource, line.why)}".rstrip()
        for line in lines
    ]
    rows.append(f"=  {number(resource, resource.recomputed):>{width}}  {_result(resource)}")
    return f"{title}\n{_indented(chr(10).join(rows))}\n{_indented(_published(resource))}"


def _says_nothing(line: Line, resource: ResourceExplanation) -> bool:
    """Whether a line has no effect on the result and is left out."""
    if line.name == "requests" and line.op == "atLeast":
        return bool(resource.recomputed) and (resource.recomputed or 0) > line.amount
    if line.name == "nothing":
        return bool(resource.recomputed)
    return line.name == "limit" and line.why.startswith("100% ")


def _published(resource: ResourceExplanation) -> str:
    if resource.matches:
        return click.style("published as it is here", fg="green") if resource.published is not None else "not published"
    shown = "" if resource.published is None else f"published {number(resource, resource.published)}: "
    return click.style(f"{shown}{resource.why_different}", fg="yellow")


def number(resource: ResourceExplanation, figure: int) -> str:
    """A figure in a column."""
    if resource.unit == "bytes":
        return f"{figure / GIB:.2f} GiB"
    unit = "m" if resource.unit == "milli-cores" else ""
    return f"{figure:,}{unit}".replace(",", " ")


def amount(resource: ResourceExplanation, figure: int | None) -> str:
    """A figure as a phrase for people: 1.5 cores."""
    if figure is None:
        return "nothing"
    if resource.unit == "milli-cores":
        return f"{figure / 1000:g} cores"
    if resource.unit == "bytes":
        return bytes_said(figure)
    return str(figure)


def _result(resource: ResourceExplanation) -> str:
    """The remark of the last line: the figure in its other notation."""
    return f"{resource.recomputed} bytes" if resource.unit == "bytes" else amount(resource, resource.recomputed)


def _in_words(resource: ResourceExplanation, why: str) -> str:
    """The explanation of a term, with byte counts in readable units."""
    if resource.unit != "bytes":
        return why
    return _LARGE.sub(lambda match: bytes_said(int(match[0])), why)


def bytes_said(figure: int) -> str:
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(figure) >= size:
            return f"{figure / size:.1f} {unit}"
    return f"{figure} B"


def _pods(pods: tuple[PodExplanation, ...]) -> str:
    from koord.manager.node_resource.explain import BELOW_PROD, LENT_TO

    listed = [pod for pod in pods if pod.why not in (LENT_TO, BELOW_PROD)]
    lent_to, below_prod = (sum(pod.why == why for pod in pods) for why in (LENT_TO, BELOW_PROD))
    rows = [("POD", "CLASS", "QOS", "REQUESTED", "USED", "COUNTED", "WHY")]
    for pod in listed[:MOST_PODS]:
        used = (
            "not measured" if pod.used_cpu is None else f"{pod.used_cpu / 1000:g} / {bytes_said(pod.used_memory or 0)}"
        )
        rows.append(
            (
                pod.pod,
                pod.priority_class.removeprefix("koord-") or "-",
                pod.qos or "-",
                f"{pod.requested_cpu / 1000:g} / {bytes_said(pod.requested_memory)}",
                used,
                f"{pod.counted_cpu / 1000:g} / {bytes_said(pod.counted_memory)}",
                pod.why,
            )
        )
    more = f"\n  and {len(listed) - MOST_PODS} more (all of them with -o json)" if len(listed) > MOST_PODS else ""
    left_out = [f"{counted(lent_to, 'pod')} on what is lent"] if lent_to else []
    left_out += [f"{counted(below_prod, 'batch or free pod')} without a request for it"] if below_prod else []
    below = f"; not counted: {', '.join(left_out)}" if left_out else ""
    title = f"{heading('PODS')}   cores and memory that count against batch{below}"
    return f"{title}\n{_indented(table(rows))}{more}" if listed else f"{title}\n  none"


def _zones(explanation: NodeExplanation) -> str:
    rows = [("ZONE", "BATCH-CPU", "BATCH-MEMORY")]
    for zone in explanation.zones:
        cpu, memory = (zone.resources.get(f"{_SHORT}batch-{name}", 0) for name in ("cpu", "memory"))
        rows.append((zone.zone, f"{cpu / 1000:g}", bytes_said(memory)))
    return f"{heading('ZONES')}\n{_indented(table(rows, right=frozenset({1, 2})))}"


def _settings(changed: list[Setting]) -> str:
    rows = [("SETTING", "VALUE", "SET IN")]
    rows += [(setting.field, _value(setting.value), setting.set_in) for setting in changed]
    return f"{heading('SETTINGS')}   that are not the default\n{_indented(table(rows))}"


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
