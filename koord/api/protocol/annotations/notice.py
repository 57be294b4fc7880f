"""Notice before an eviction, as pods ask for it and get it; and when pods last saved their work.

A pod asks with `eviction-notice: 5m`. Whoever wants it gone adds itself to `eviction-asked-by`. The earliest deadline
there is `eviction-deadline`, which programs in the pod can read. `eviction_notice` decides what follows.
"""

from __future__ import annotations

from typing import Any, Final

from koord.api.machinery.struct import Struct
from koord.api.protocol import names
from koord.api.protocol.annotations.forms import SWITCH, TEXT, json_list, json_object
from koord.api.protocol.annotations.value import Annotation, Form, Value
from koord.api.text.duration import from_seconds, parse_duration
from koord.api.text.timestamp import Timestamp, micro_from_seconds, parse_timestamp

SHORTEST_S: Final = 1.0
LONGEST_S: Final = 3600.0
DEPLOYMENT: Final = ("Deployment",)


class AskedBy(Struct):
    """Somebody who wants a pod to go, since when, and until when it waits."""

    by: str
    "The component."
    reason: str
    "Why, for programs: as the reason of the DisruptionTarget condition."
    since: Timestamp
    deadline: Timestamp
    message: str = ""
    "Why, for people."
    about: str = ""
    "The object for which the pod has to go, as namespace/name."


class ScaledFirst(Struct):
    """That a Deployment has one replica more, for the time in which one of its pods is replaced."""

    job: str
    "The uid of the PodMigrationJob."
    pod: str
    "The uid of the pod that must go."
    replicas: int
    "Without ours."
    to: int
    since: Timestamp
    marked: str = ""
    "When the old pod had the lowest deletion cost; empty before."
    cost: str = ""
    "The deletion cost that it had itself."


def _parse_notice(text: str) -> float:
    notice_s = parse_duration(text)
    if not SHORTEST_S <= notice_s <= LONGEST_S:
        raise ValueError(
            f"must be a duration from {from_seconds(SHORTEST_S)} to {from_seconds(LONGEST_S)}, not {text[:60]!r}"
        )
    return notice_s


_TIME: Final = Form(parse_timestamp, micro_from_seconds)

EVICTION_NOTICE: Final = Annotation(
    names.OWN_ANNOTATION_EVICTION_NOTICE, Form(_parse_notice, from_seconds), None, bad=None
)
"""How long before it is evicted a pod wants to know, in seconds."""
EVICTION_DEADLINE: Final = Annotation(names.OWN_ANNOTATION_EVICTION_DEADLINE, _TIME, None, bad=None)
EVICTION_ASKED_BY: Final = Annotation(
    names.OWN_ANNOTATION_EVICTION_ASKED_BY, json_list(AskedBy, by_program=True), (), bad=()
)
EVICTION_READY: Final = Annotation(names.OWN_ANNOTATION_EVICTION_READY, TEXT, "")
"""By `true` or the text of the deadline that is meant, a pod says that it can go."""
CHECKPOINTED_AT: Final = Annotation(names.OWN_ANNOTATION_CHECKPOINTED_AT, _TIME, None, bad=None)
"""When a pod last saved what it has computed, as it says."""

SCALE_FIRST: Final = Annotation(names.OWN_ANNOTATION_SCALE_FIRST, SWITCH, False, on=DEPLOYMENT, bad=False)
"""Whether pods of a Deployment are replaced before they go."""
SCALED_FIRST: Final = Annotation(
    names.OWN_ANNOTATION_SCALED_FIRST, json_object(ScaledFirst, by_program=True), None, on=DEPLOYMENT, bad=None
)

VALUES: Final[tuple[Value[Any, Any], ...]] = (
    EVICTION_NOTICE,
    EVICTION_DEADLINE,
    EVICTION_ASKED_BY,
    EVICTION_READY,
    CHECKPOINTED_AT,
    SCALE_FIRST,
    SCALED_FIRST,
)
