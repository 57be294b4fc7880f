"""Whether slo-controller-config may be stored. Programs read the refusal, so it has the protocol's form:
`___{"reason":"ConfigParamInvalid","message":"..."}___`, with the reason of the first fault and the words of all.

Beside what `slo_config_check` judges, thresholds that people set must be in order (`thresholds`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from koord.api.configuration.slo_config import parse
from koord.api.configuration.slo_config_check import Refusal, judge
from koord.api.configuration.slo_config_types import COLOCATION, RESOURCE_THRESHOLD
from koord.api.configuration.threshold_order import of_config
from koord.api.machinery.faults import Fault, Invalid


def verdict(
    data: Mapping[str, str],
    old: Mapping[str, str] | None,
    nodes: Mapping[str, Mapping[str, str]],
    *,
    names_required: bool,
) -> tuple[str, tuple[str, ...]]:
    """The refusal, empty where there is none, and warnings."""
    judged = judge(data, old, nodes=nodes, names_required=names_required)
    refusals, warnings = list(judged.refusals), [str(fault) for fault in judged.warnings]
    if not refusals and _changed(data, old):
        refusals += [Refusal("ConfigParamInvalid", fault) for fault in _disorder(data, warnings)]
    if not refusals:
        return "", tuple(dict.fromkeys(warnings))
    message = "; ".join(str(refusal.fault) for refusal in refusals)
    body = msgspec.json.encode({"reason": refusals[0].reason, "message": message}).decode()
    return f"___{body}___", tuple(dict.fromkeys(warnings))


def _changed(data: Mapping[str, str], old: Mapping[str, str] | None) -> bool:
    return any(data.get(key) and data.get(key) != (old or {}).get(key) for key in (COLOCATION, RESOURCE_THRESHOLD))


def _disorder(data: Mapping[str, str], warnings: list[str]) -> tuple[Fault, ...]:
    """Thresholds out of order, for the cluster and for each kind of node that an entry is for."""
    try:
        findings = of_config(parse(data))
    except Invalid:
        # Something that was stored before is broken; a repair elsewhere is still possible.
        return ()
    warnings += findings.warnings
    return findings.faults
