"""Remedies: what would make room for a pod, or a job, that fits nowhere."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Move:
    """A pod that will fit on a node once some others are gone."""

    pod: str
    node: str
    victims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Remedy:
    """How a pod that fits nowhere could be helped."""

    node: str | None = None
    "Where it, or the first pod of a job, will fit once the victims are gone; None where that is nowhere."
    victims: tuple[str, ...] = ()
    "Keys of the pods that have to go."
    message: str = ""
    "What is added to the reasons that users see."
    clears: bool = False
    "Whether the pod is promised no node any more, because none would help."
    others: tuple[Move, ...] = ()
    "Further pods that are helped with it: the members of its job."
    rejects: tuple[str, ...] = ()
    "Groups whose waiting members give up their places."
    final: bool = False
    "Whether the remedies of other plugins do not count, though this one has no node."
    event: tuple[str, str] | None = None
    "An event for the pod beside the usual one: its reason, and its text."

    @property
    def helps(self) -> bool:
        """Whether a pod is promised a place."""
        return self.node is not None or bool(self.others)
