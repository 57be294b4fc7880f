"""Identities of lease holders: koord and Koordinator compete for the same leases; koord's identities have a mark."""

from __future__ import annotations

from typing import Final

_MARK: Final = "_koord-"
"""In the identity of each candidate of koord's. Koordinator's have none."""


def identity(name: str, unique: str) -> str:
    """Of a candidate: readable in `kubectl get lease`, no other's, and known as koord's."""
    return f"{name}{_MARK}{unique}"


def is_koords(holder: str) -> bool:
    """Whether a lease's holder is a component of koord's."""
    return _MARK in holder


def is_anothers(holder: str) -> bool:
    """Whether a lease's holder is a component of another system."""
    return bool(holder) and not is_koords(holder)


def process_of(holder: str) -> str:
    """The pod, or the host, of a holder; Koordinator names them in the same way."""
    return holder.partition("_")[0]
