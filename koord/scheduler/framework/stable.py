"""What of a class's key is the same in every run: equal seeds are to give equal placements.

Keys hold objects that are known by their address, sets whose order is another in each process, and versions that depend
on how the state came about. They tell classes apart, but have no say in how ties are decided.

    tie = (hash of the node's name ^ hash of the class) * a large odd number, in 32 bits
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

_MIXER: Final = 2654435761
_MASK: Final = 0xFFFFFFFF


class Version(int):
    """A number in a key that only tells states of a cluster apart."""


def stable_hash(key: Hashable, seed: int) -> int:
    """32 bits of a key and a seed, equal wherever the same pods meet the same cluster."""
    return crc32(repr(_stable(key)).encode(), seed & 0xFFFFFFFF)


def ties(names: npt.NDArray[Any], salt: int | npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What decides among equals, by hashes of names."""
    mixed: npt.NDArray[Any] = names ^ (np.uint32(salt) if isinstance(salt, int) else salt)
    mixed *= np.uint32(_MIXER)
    return mixed


def tie(name: int, salt: int) -> int:
    """The same, of one."""
    return (name ^ salt) * _MIXER & _MASK


def _stable(part: object) -> object:
    if isinstance(part, tuple):
        return [_stable(item) for item in part]
    if isinstance(part, frozenset):
        return sorted(repr(_stable(item)) for item in part)
    plain = part is None or type(part) in (str, bytes, int, bool, float)
    return part if plain else type(part).__name__
