"""The import rules as one table: who may import whom. Read by import-linter (see pyproject.toml) and by the docs' test.

A row is `package: what it may import`; the longest row that fits a module is its row. Every top-level package must have
one, so a new package fails until somebody has decided where it stands. A package may import itself.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any, Final

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

ROOT = "koord"
EVERYTHING = "*"
PROJECT: Final = Path(__file__).parents[1] / "pyproject.toml"
BEGIN: Final = "<!-- imports: written by `python -m tools.layers docs/architecture.md` -->"
END: Final = "<!-- end of imports -->"


def parse(rows: list[str]) -> dict[str, frozenset[str]]:
    """From `kube: api certificates` to what may be imported, by package."""
    table = {}
    for row in rows:
        package, _, allowed = row.partition(":")
        table[package.strip()] = frozenset(allowed.split())
    return table


def row_of(module: str, table: dict[str, frozenset[str]]) -> str | None:
    """The row that a module stands in: `koord.scheduler.live.run` in `scheduler.live` rather than in `scheduler`."""
    parts = module.split(".")[1:]
    for length in range(len(parts), 0, -1):
        if (name := ".".join(parts[:length])) in table:
            return name
    return None


def rows_of_the_project() -> list[str]:
    """The table as pyproject.toml has it."""
    contracts = tomllib.loads(PROJECT.read_text())["tool"]["importlinter"]["contracts"]
    (rows,) = [each["rows"] for each in contracts if each["type"] == "allowed"]
    return list(rows)


def markdown(rows: list[str]) -> str:
    """The table for people."""
    lines = ["| package | may import |", "| --- | --- |"]
    for package, allowed in parse(rows).items():
        named = "everything" if EVERYTHING in allowed else ", ".join(f"`{each}`" for each in sorted(allowed))
        lines.append(f"| `{package}` | {named or 'nothing of koord'} |")
    return "\n".join(lines)


def rewritten(page: str, rows: list[str]) -> str:
    """A page with the table between its two marks made anew."""
    before, found, rest = page.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise ValueError(f"the page needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{markdown(rows)}\n{END}{after}"


class Allowed(Contract):
    rows: list[str] = fields.ListField(subfield=fields.StringField())  # type: ignore[assignment]  # a descriptor

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        table = parse(self.rows)
        unplaced, broken = set(), []
        for module in sorted(graph.modules):
            if not module.startswith(f"{ROOT}."):
                continue
            mine = row_of(module, table)
            if mine is None:
                unplaced.add(module.split(".")[1])
                continue
            for imported in sorted(graph.find_modules_directly_imported_by(module)):
                theirs = row_of(imported, table) if imported.startswith(f"{ROOT}.") else None
                if theirs is None or theirs == mine or EVERYTHING in table[mine] or theirs in table[mine]:
                    continue
                lines = [each["line_number"] for each in graph.get_import_details(importer=module, imported=imported)]
                broken.append((module, imported, mine, theirs, lines))
        unknown = {each for allowed in table.values() for each in allowed} - set(table) - {EVERYTHING}
        return ContractCheck(
            kept=not (unplaced or broken or unknown),
            metadata={"unplaced": sorted(unplaced), "broken": broken, "unknown": sorted(unknown)},
        )

    def render_broken_contract(self, check: ContractCheck) -> None:
        found: dict[str, Any] = check.metadata
        for package in found["unplaced"]:
            output.print_error(f"koord.{package} has no row: add one that says what it may import")
        for name in found["unknown"]:
            output.print_error(f"{name} is allowed to somebody and has no row of its own")
        for module, imported, mine, theirs, lines in found["broken"]:
            where = ", ".join(map(str, lines))
            output.print_error(f"{module} (line {where}) imports {imported}: the row {mine} does not allow {theirs}")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(rewritten(page.read_text(), rows_of_the_project()))
