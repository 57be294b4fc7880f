"""The glossary names classes that exist, each of them once."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARED = {"Change", "Policy", "Shape", "Step"}
"""Names that the glossary places in a package, because others have them too."""


def _classes() -> Counter[str]:
    found: Counter[str] = Counter()
    for root in ("koord", "workshop"):
        for path in (ROOT / root).rglob("*.py"):
            found.update(name for node in ast.parse(path.read_text()).body if (name := _named(node)) is not None)
    return found


def _named(node: ast.stmt) -> str | None:
    match node:
        case ast.ClassDef(name=name):
            return name
        case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
            return name
        case _:
            return None


def test_a_class_of_the_glossary_means_one_thing() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text()
    named = re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)*)`", page[page.index("## Classes") :])
    assert len(named) > 15
    classes = _classes()
    assert [name for name in named if not classes[name]] == []
    assert [name for name in named if classes[name] > 1 and name not in SHARED] == []
