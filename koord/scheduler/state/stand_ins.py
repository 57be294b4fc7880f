"""Stand-ins: pods that the API server does not know, for an object that is placed and held like a pod.

Their names have a colon, which no pod's name can have. So the key alone shows that it is a stand-in.
"""

from __future__ import annotations

from typing import Final

_MARK: Final = ":"


def stand_in_name(kind: str, name: str) -> str:
    """The name of the pod that stands for an object: `reservation:web`."""
    return f"{kind.lower()}{_MARK}{name}"


def is_stand_in(key: str) -> bool:
    """Whether the key, or the name, of a pod is that of a stand-in."""
    return _MARK in key


def told_name(key: str) -> str:
    """How people name what a key of the state is: `reservation/web`, or the pod's own key."""
    return key.rpartition("/")[2].replace(_MARK, "/", 1) if _MARK in key else key
