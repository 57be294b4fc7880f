"""Settings from one place: what is laid over what is set elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from koord.api.machinery.struct import Struct


@dataclass(frozen=True, slots=True)
class Layer:
    """Settings from one place. `where` is what a user would call it: `colocation-config.nodeConfigs[1]`."""

    where: str
    settings: Struct
