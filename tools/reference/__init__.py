"""The pages of docs/reference, made from the code: `python -m tools.reference` writes them, and a test compares.

structs     the fields of typed objects as tables
kinds       the kinds and their fields
settings    slo-controller-config, the scheduler's and the descheduler's configuration, feature gates
commands    every command with its arguments and options
metrics     every metric with its labels
__main__    the command

The words come from the code alone: a field, an option or a metric without a description fails the test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import Final

WIDE: Final = 100
ROOT: Final = Path(__file__).parents[2]


def made() -> tuple[dict[str, str], list[str]]:
    """The pages by path, and the fields, options, gates and metrics that lack a description."""
    from tools.reference import commands, kinds, metrics, settings

    pages, undescribed = {}, []
    for name, page in (
        ("kinds", kinds.page),
        ("configuration", settings.configuration),
        ("feature-gates", settings.feature_gates),
        ("commands", commands.page),
        ("metrics", metrics.page),
    ):
        text, missing = page()
        pages[f"docs/reference/{name}.md"] = wrapped(text)
        undescribed += missing
    return pages, undescribed


def wrapped(text: str) -> str:
    """Paragraphs wrap as those of all pages; tables, headings and code stay unchanged."""
    blocks = re.split(r"\n{2,}", text.strip())
    return "\n\n".join(line for block in blocks for line in _block(block)) + "\n"


def _block(block: str) -> Iterator[str]:
    if block.startswith(("|", "#", "```")):
        yield block
    else:
        yield "\n".join(wrap(" ".join(block.split()), WIDE, break_long_words=False, break_on_hyphens=False))
