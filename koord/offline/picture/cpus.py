"""CPUs: every core as its threads in brackets, each with the letter of the pod that has it.

    NUMA node 0, socket 0   CPUs 0-15   8 free, 8 in whole cores; cpu 8 of 16, memory 4Gi of 64Gi
      [aa][aa][aa][aa][..][..][..][..]
    a shop/web 0-7

`.` is free, `x` no pod gets, `+` several pods have.
"""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase
from typing import Final

from koord.api.text.cpuset import CPUSet
from koord.api.text.quantity import render
from koord.offline.picture.section import Line, NodeView, Section, Span
from koord.scheduler.plugins.numa.figures import CPUFigures, NUMAFigures, figures

CORES_A_LINE: Final = 16
LETTERS: Final = (ascii_lowercase + ascii_uppercase).replace("x", "")
COLOURS: Final = ("green", "cyan", "yellow", "magenta", "blue", "red")
FREE, CLOSED, SEVERAL, NO_LETTER = ".", "x", "+", "*"


def cpus(seen: NodeView) -> Section | None:
    (of_node,) = figures([seen.node], [] if seen.topology is None else [seen.topology], seen.holders)
    if not of_node.numa_nodes:
        return None
    owners = _owners(of_node)
    lines: list[Line] = []
    for numa in of_node.numa_nodes:
        lines.append((Span(_head(numa)),))
        reserved = CPUSet.parse(numa.reserved)
        drawn = [_core(core, owners, reserved) for core in numa.cores]
        for first in range(0, len(drawn), CORES_A_LINE):
            lines.append((Span("  "), *(span for core in drawn[first : first + CORES_A_LINE] for span in core)))
    for i, pod in enumerate(pod for pod in of_node.pods if pod.cpuset):
        letter = LETTERS[i] if i < len(LETTERS) else NO_LETTER
        lines.append((Span(f"{letter} ", _colour(letter)), Span(f"{pod.pod} {pod.cpuset}")))
    for pod in of_node.pods:
        if not pod.cpuset:
            lines.append((Span(f"{pod.pod} shares NUMA node {', '.join(map(str, pod.numa_nodes))}"),))
    return Section("cpus", _title(of_node), tuple(lines), of_node)


def _owners(of_node: CPUFigures) -> dict[int, str]:
    """By CPU, the letter of its pod."""
    owners: dict[int, str] = {}
    for i, pod in enumerate(pod for pod in of_node.pods if pod.cpuset):
        letter = LETTERS[i] if i < len(LETTERS) else NO_LETTER
        for cpu in CPUSet.parse(pod.cpuset):
            owners[cpu] = SEVERAL if cpu in owners else letter
    return owners


def _core(core: tuple[int, ...], owners: dict[int, str], reserved: CPUSet) -> list[Span]:
    letters = [owners.get(cpu, CLOSED if cpu in reserved else FREE) for cpu in core]
    return [Span("["), *(Span(letter, _colour(letter)) for letter in letters), Span("]")]


def _colour(letter: str) -> str:
    return COLOURS[LETTERS.index(letter) % len(COLOURS)] if letter in LETTERS else ""


def _head(numa: NUMAFigures) -> str:
    amounts = ", ".join(
        f"{name} {render(name, zone_amount.taken)} of {render(name, zone_amount.allocatable)} taken"
        for name, zone_amount in sorted(numa.amounts.items())
        if name in ("cpu", "memory")
    )
    free = f"{numa.free_cpus} free, {numa.free_in_whole_cores} of them in whole cores"
    where = f"NUMA node {numa.number}, socket {numa.socket}, CPUs {numa.cpuset}: {free}"
    return f"{where}; {amounts}" if amounts else where


def _title(of_node: CPUFigures) -> str:
    rules = [f"NUMA policy {of_node.numa_policy}" if of_node.numa_policy else ""]
    rules.append(f"binds all pods ({of_node.cpu_bind_policy})" if of_node.cpu_bind_policy else "")
    rules_said = [rule for rule in rules if rule]
    return "; ".join([f"{FREE} is free, {CLOSED} no pod gets", *rules_said])
