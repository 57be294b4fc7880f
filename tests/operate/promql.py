"""Which metrics and labels an expression of Prometheus names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_LISTS: Final = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR: Final = re.compile(r"(?<![\w.])([A-Za-z_:][\w:]*)(?![\w:])\s*(?:\{([^}]*)\})?(?!\s*\()")
_WORDS: Final = frozenset({"and", "or", "unless", "bool", "offset"})


@dataclass(frozen=True)
class Named:
    metrics: dict[str, frozenset[str]]
    "With the labels that matchers name."
    listed: frozenset[str]
    "Labels of a sum or a join."


def named(expr: str) -> Named:
    listed = {label.strip() for found in _LISTS.findall(expr) for label in found.split(",") if label.strip()}
    # Durations are no names; neither is what stands in quotes.
    bare = re.sub(r"\[[^\]]*\]", "", _LISTS.sub("", expr))
    metrics: dict[str, frozenset[str]] = {}
    for name, matchers in _SELECTOR.findall(re.sub(r'"[^"]*"', '""', bare)):
        if name not in _WORDS and not re.search(rf"\b{name}\s*\(", bare):
            labels = frozenset(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers))
            metrics[name] = metrics.get(name, frozenset()) | labels
    return Named(metrics, frozenset(listed))
