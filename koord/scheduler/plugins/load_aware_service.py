"""What LoadAwareScheduling counts on a node, for people who look into a running scheduler."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from koord.api.text.quantity import render
from koord.api.text.timestamp import from_seconds
from koord.scheduler.state.pods import PodRecord

if TYPE_CHECKING:
    from koord.scheduler.plugins.load_reports import Report
    from koord.scheduler.plugins.load_rows import Share


def load_told(
    resources: Sequence[str],
    pods: Iterable[PodRecord],
    report: Report | None,
    shares: Mapping[str, Share],
    prod: Collection[str],
) -> dict[str, object]:
    """Pods by the time of their placement, and the views of the node's load that follow from its report, if any.

    nodeDelta is added to what the node reports; nodeEstimated is used if there is no report. prodUsage is what the
    report says of `prod`, the node's pods that are prod by their class and by the report, and of the system where that
    counts; prodDelta is added to it.
    """
    records = sorted(pods, key=lambda record: (record.placed_s or 0.0, record.key))
    figures: dict[str, object] = {}
    if records:
        figures["pods"] = [{"timestamp": from_seconds(record.placed_s or 0.0), "pod": record.key} for record in records]
    if report is None or report.usage is None:
        return figures

    def total(vectors: Iterable[Iterable[int]]) -> list[int]:
        return [sum(amounts) for amounts in zip([0] * len(resources), *vectors, strict=True)]

    measured = total(report.used_by(key) for key in prod)
    in_all = total(share.prod for share in shares.values())
    for name, vector in (
        ("nodeUsage", report.usage),
        ("prodUsage", total((measured, report.system))),
        ("nodeDelta", total(share.delta for share in shares.values())),
        ("prodDelta", [a - b for a, b in zip(in_all, measured, strict=True)]),
        ("nodeEstimated", total(share.full for share in shares.values())),
    ):
        figures[name] = {resource: render(resource, n) for resource, n in zip(resources, vector, strict=True)}
    nothing = [0] * len(resources)
    figures["nodeDeltaPods"] = sorted(key for key, share in shares.items() if any(share.delta))
    figures["prodDeltaPods"] = sorted(
        key
        for key, share in shares.items()
        if any(a > b for a, b in zip(share.prod, report.used_by(key) if key in prod else nothing, strict=True))
    )
    figures["nodeEstimatedPods"] = sorted(key for key, share in shares.items() if any(share.full))
    return figures
