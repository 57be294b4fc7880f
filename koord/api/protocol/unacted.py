"""What the protocol has and nothing acts on yet: objects that are stored and pods that ask, with no effect.

One table. The manager says so in an event on each of these objects, `koord explain` on each pod that asks for it, and
`koord status` counts them. When the missing part is built, remove its line, and all three stop.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from koord.api import kinds
from koord.api.kinds import Kind
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import pod_requests

REASON: Final = "NotActedOn"
"""Of the events."""


@dataclass(frozen=True, slots=True)
class Unacted:
    """One line: what is asked for, and what happens instead."""

    name: str
    instead: str
    "A sentence for people."
    kind: Kind[Any] | None = None
    "The kind whose objects nothing acts on."
    labels: frozenset[str] = frozenset()
    "A pod with one of these asks for it."
    annotations: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()

    @property
    def message(self) -> str:
        return f"koord does not act on {self.name} yet: {self.instead}"

    def concerns(self, pod: Pod) -> bool:
        meta = pod.metadata
        return not (
            self.labels.isdisjoint(meta.labels)
            and self.annotations.isdisjoint(meta.annotations)
            and (not self.resources or self.resources.isdisjoint(pod_requests(pod)))
        )


UNACTED: Final[tuple[Unacted, ...]] = (
    Unacted("schedule explanations", "nobody fills them in; koord explain answers", kinds.SCHEDULE_EXPLANATIONS),
)


def asked_in_vain(pod: Pod, table: Iterable[Unacted] = UNACTED) -> tuple[str, ...]:
    """What a pod asks for that nothing acts on, as sentences."""
    return tuple(entry.message for entry in table if entry.concerns(pod))
