"""A short name for the content of a pod template: the same content, the same name.

It only has to be stable within one cluster and safe in object names: names of objects that exist are found by their
content, never by recomputing this. Vowels and look-alikes are left out, so that no word comes out.
"""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from koord.api.machinery.codec import without_nulls

ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(content: object, collisions: int | None = None) -> str:
    """Ten characters. `collisions` counts how often this content's name was found taken by another."""
    digest = hashlib.blake2b(canonical(content), digest_size=8)
    if collisions:
        digest.update(str(collisions).encode())
    return safe_name(int.from_bytes(digest.digest(), "big"), 10)


def safe_name(number: int, length: int) -> str:
    letters = []
    for _ in range(length):
        number, rest = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[rest])
    return "".join(letters)


def canonical(content: object) -> bytes:
    """The same bytes for the same content, whatever the order of its keys."""
    return msgspec.json.encode(without_nulls(content), order="deterministic")
