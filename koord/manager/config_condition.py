"""Whether slo-controller-config applies as written, reported on the ConfigMap itself.

A ConfigMap has no status, so the condition stands in an annotation, in Kubernetes' usual form. A map that never had a
fault gets none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from koord.api.configuration.slo_config import Problem
from koord.api.kubernetes.core import ConfigMap
from koord.api.kubernetes.meta import Condition
from koord.api.protocol.annotations.forms import json_list
from koord.api.protocol.annotations.value import Annotation, AnnotationError
from koord.api.protocol.names import AnnotationKey
from koord.api.text.timestamp import from_seconds

IN_FORCE: Final = "InForce"
CONDITIONS: Final = Annotation(
    AnnotationKey("koordinator.sh/config-conditions"), json_list(Condition), (), on=("ConfigMap",)
)
"""koord's own addition to the protocol: no other component reads or writes it."""


def wanted(config: ConfigMap, problems: Sequence[Problem], now_s: float) -> Mapping[str, str] | None:
    """The annotation to write; None if the existing one, or its absence, is correct."""
    present = _present(config)
    if not problems and (present is None or present.status == "True"):
        return None
    condition = _condition(problems)
    if present is not None and (present.status, present.message) == (condition.status, condition.message):
        return None
    changed = present is None or present.status != condition.status
    since = from_seconds(now_s) if changed or present is None else present.last_transition_time
    condition_now = Condition(
        condition.type, condition.status, last_transition_time=since, reason=condition.reason, message=condition.message
    )
    return {CONDITIONS.key: CONDITIONS.render((condition_now,))}


def _condition(problems: Sequence[Problem]) -> Condition:
    if not problems:
        return Condition(IN_FORCE, "True", reason="Valid", message="every section applies as written")
    message = "; ".join(f"{problem}" for problem in problems)
    return Condition(IN_FORCE, "False", reason=problems[0].event_reason, message=message)


def _present(config: ConfigMap) -> Condition | None:
    try:
        conditions = CONDITIONS.read(config.metadata)
    except AnnotationError:
        return None
    return next((condition for condition in conditions if condition.type == IN_FORCE), None)
