"""Numbers with their nouns: `1 pod`, `2 pods`."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
