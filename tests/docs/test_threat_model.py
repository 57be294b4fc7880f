"""Each line of the threat model names tests, and these exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "threat-model.md"
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@cache
def names_in(path: str) -> frozenset[str]:
    functions = ast.FunctionDef, ast.AsyncFunctionDef
    return frozenset(
        node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, functions)
    )


def lines() -> list[str]:
    """The lines of all tables, without their heads."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [row for row in rows if not row.startswith(("| the attack", "| ---"))]


def test_every_attack_names_the_tests_that_hold_it() -> None:
    assert len(lines()) > 20
    assert [line for line in lines() if not _TEST.search(line.rpartition("|")[0].rpartition("|")[2])] == []


def test_every_test_that_is_named_exists() -> None:
    named = _TEST.findall(PAGE.read_text())
    missing = [f"{path}::{test}" for path, test in named if not (ROOT / path).exists() or test not in names_in(path)]
    assert missing == []
