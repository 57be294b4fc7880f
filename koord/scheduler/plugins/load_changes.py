"""What would have to change for a busy node to take a pod: another limit there, or a pod that requests less.

The limit is set on the node itself (its usage-thresholds annotation), so that other nodes keep theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Container, Pod
from koord.api.protocol.annotations.load import USAGE_THRESHOLDS, AggregatedThresholds
from koord.api.text.quantity import amount, render
from koord.scheduler.framework.change import Change, listed
from koord.scheduler.plugins.load_threshold import needed_percent


class Excess(NamedTuple):
    """A resource that would exceed a node's limit."""

    resource: str
    percent: int
    load: int
    "With the pod, in the resource's unit."
    capacity: int
    adds: int
    "What the pod is taken to use."
    left: int
    "What it might use."
    asked: str
    "The resource name that the pod requests."


class Limit(NamedTuple):
    """Which of a node's limits rejects a pod."""

    percent: Mapping[str, int]
    of_prod: bool
    aggregation: tuple[str, float] | None


def higher_limit(node: Node, limit: Limit, excess: Sequence[Excess]) -> Change | None:
    """The node with limits that let the pod in; None where that would be more than it has."""
    needed = {over.resource: needed_percent(over.load, over.capacity) for over in excess}
    if max(needed.values()) > 100:
        return None
    own = USAGE_THRESHOLDS.read(node.metadata, "Node")
    wanted = {**{name: percent for name, percent in limit.percent.items() if percent}, **needed}
    if limit.of_prod:
        own = replace(own, prod_usage_thresholds=wanted)
    elif limit.aggregation is not None:
        kind, duration_s = limit.aggregation
        part = AggregatedThresholds(wanted, kind, f"{duration_s:g}s")  # type: ignore[arg-type]  # read from the API
        own = replace(own, aggregated_usage=part)
    else:
        own = replace(own, usage_thresholds=wanted)
    said = {**node.metadata.annotations, USAGE_THRESHOLDS.key: USAGE_THRESHOLDS.render(own)}
    words = [f"{needed[over.resource]}% {over.resource} usage instead of {over.percent}%" for over in excess]
    changed = replace(node, metadata=replace(node.metadata, annotations=said))
    return Change(f"a limit of {listed(words)} there, or that much less usage", node=changed, size=2.0)


def smaller_load(pod: Pod, excess: Sequence[Excess]) -> Change | None:
    """The pod with requests and limits so low that its estimated usage is within what is left."""
    words, size = [], 1.0
    for over in excess:
        asks = [_most(container, over.asked) for container in pod.spec.containers]
        now = sum(asks)
        less = now * over.left // over.adds if over.adds else 0
        if less <= 0 or less >= now:
            return None
        containers = tuple(
            _with(container, over.asked, own * less // now) if own else container
            for container, own in zip(pod.spec.containers, asks, strict=True)
        )
        pod = replace(pod, spec=replace(pod.spec, containers=containers))
        words.append(f"{render(over.asked, less)} {over.asked} instead of {render(over.asked, now)}")
        size += 1 - less / now
    return Change(f"requests and limits of {listed(words)}", pod=pod, size=size)


def _most(container: Container, name: str) -> int:
    resources = container.resources
    return max(amount(name, amounts_of.get(name, 0)) for amounts_of in (resources.requests, resources.limits))


def _with(container: Container, name: str, most: int) -> Container:
    """The container with its requests and limits capped at `most`."""
    resources = container.resources
    requests, limits = (
        {**amounts_of, name: render(name, min(most, amount(name, amounts_of[name])))}
        if name in amounts_of
        else amounts_of
        for amounts_of in (resources.requests, resources.limits)
    )
    return replace(container, resources=replace(resources, requests=requests, limits=limits))
