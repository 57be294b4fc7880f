"""The import rules as one table: who may import whom, and who may reach the world or a terminal.

Read by import-linter (see pyproject.toml) and by the test of the docs. A row is `package (marks): allowed packages`.
The longest row that fits a module is its row, and a package may always import itself. Packages of koord are named
without `koord.`. Every package needs a row, so a new package fails until it gets one. `*` allows everything:
all of koord to a row of koord, all of koord and its workshop to a row of the workshop. `^` is a pure part of the
package above: it may import the other pure parts, and the pure packages that this package may import.
`x.{a b}` stands for two rows, `x.a` and `x.b`.

Everything else follows from the table:

- A row is pure unless it is marked `world` or ends with `.live`: no network, event loop, clock, process or chance.
  A pure row may only allow pure rows.
- Only a row marked `terminal` knows click and rich.
- A row marked `light`, and every row that it reaches, imports no heavy library: it runs on every node.
"""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

PRODUCT: Final = "koord"
WORKSHOP: Final = ("koord_minicluster", "koord_bench", "koord_chaos")
EVERYTHING: Final = "*"
PART: Final = "^"
WORLD: Final = frozenset({"aiohttp", "asyncio", "socket", "subprocess", "time", "random"})
TERMINAL: Final = frozenset({"click", "rich"})
HEAVY: Final = frozenset({"numpy", "rich", "grpc", "cryptography", "click"})
PROJECT: Final = Path(__file__).parents[1] / "pyproject.toml"
BEGIN: Final = "<!-- imports: written by `python -m tools.layers docs/architecture/imports.md` -->"
END: Final = "<!-- end of imports -->"
_ROW: Final = re.compile(
    r"(?P<package>[\w.]+)(?:\{(?P<names>[\w ]+)\})?(?: \((?P<marks>[\w, ]+)\))?:(?P<allowed>[\w.*^ ]*)"
)


@dataclass(frozen=True, slots=True)
class Row:
    package: str
    marks: frozenset[str]
    allowed: frozenset[str]
    above: str = ""
    "Of a pure part: the package that it belongs to."

    @property
    def is_pure(self) -> bool:
        return "world" not in self.marks and not self.package.endswith(".live")

    @property
    def is_product(self) -> bool:
        return self.package.split(".")[0] not in WORKSHOP


Table = dict[str, Row]


def parse(rows: list[str]) -> Table:
    """From the lines of pyproject.toml to rows by package."""
    table: Table = {}
    for line in rows:
        match = _ROW.fullmatch(line)
        if match is None:
            raise ValueError(f"{line!r} is not a row: write 'package (marks): allowed packages'")
        marks = frozenset(mark.strip() for mark in (match["marks"] or "").split(",") if mark.strip())
        for name in (match["names"] or "").split() or [""]:
            package = match["package"] + name
            table[package] = Row(package, marks, frozenset(match["allowed"].split()))
    parts = {name: _above(name, table) for name, row in table.items() if PART in row.allowed}
    for name, above in parts.items():
        others = {other for other in parts if parts[other] == above}
        allowed = {other for other in table[above].allowed if table[other].is_pure}
        table[name] = Row(name, frozenset(), frozenset(others | allowed), above)
    return table


def _above(package: str, table: Table) -> str:
    row = row_of(package.rpartition(".")[0], table)
    if row is None:
        raise ValueError(f"{package} is a part of no package that has a row")
    return row.package


def row_of(module: str, table: Table) -> Row | None:
    """The row of a module: `koord.scheduler.live.run` stands in `scheduler.live` rather than in `scheduler`."""
    parts = module.split(".")
    if parts[0] == PRODUCT:
        parts = parts[1:]
    for length in range(len(parts), 0, -1):
        if (row := table.get(".".join(parts[:length]))) is not None:
            return row
    return None


def may_import(importer: Row, imported: Row) -> bool:
    if importer.package in (imported.package, imported.above) or imported.package in importer.allowed:
        return True
    return EVERYTHING in importer.allowed and (imported.is_product or not importer.is_product)


def is_ours(module: str) -> bool:
    return module.split(".")[0] in (PRODUCT, *WORKSHOP)


def light_rows(table: Table) -> frozenset[str]:
    """The rows marked light, and all that they reach."""
    reached: set[str] = set()
    queue = [name for name, row in table.items() if "light" in row.marks]
    while queue:
        name = queue.pop()
        if name not in reached:
            reached.add(name)
            queue += table[name].allowed - {EVERYTHING}
    return frozenset(reached)


def forbidden_libraries(row: Row, light: frozenset[str]) -> frozenset[str]:
    forbidden = frozenset[str]()
    if row.is_pure and EVERYTHING not in row.allowed:
        forbidden |= WORLD
    if "terminal" not in row.marks:
        forbidden |= TERMINAL
    if row.package in light:
        forbidden |= HEAVY
    return forbidden


def faults_of(table: Table) -> list[str]:
    """What is wrong with the table itself."""
    faults = []
    for name, row in table.items():
        for allowed in sorted(row.allowed - {EVERYTHING}):
            if allowed not in table:
                faults.append(f"{name} may import {allowed}, which has no row")
            elif row.is_pure and not table[allowed].is_pure:
                faults.append(f"{name} is pure and may import {allowed}, which reaches the world")
            elif row.is_product and not table[allowed].is_product:
                faults.append(f"{name} is of the product and may import {allowed}, which is of the workshop")
    return faults


def project_rows() -> list[str]:
    """The table in pyproject.toml."""
    contracts = tomllib.loads(PROJECT.read_text())["tool"]["importlinter"]["contracts"]
    (rows,) = [contract["rows"] for contract in contracts if contract["type"] == "table"]
    return list(rows)


def markdown(rows: list[str]) -> str:
    """The table for the docs."""
    lines = ["| package | may import | besides |", "| --- | --- | --- |"]
    for name, row in parse(rows).items():
        if row.above:
            continue
        allowed = (
            "everything" if EVERYTHING in row.allowed else ", ".join(f"`{package}`" for package in sorted(row.allowed))
        )
        marks = sorted(row.marks) or ([] if row.is_pure else ["world"])
        lines.append(f"| `{name}` | {allowed or 'nothing of koord'} | {', '.join(marks)} |")
    return "\n".join(lines)


def rewritten(page: str, rows: list[str]) -> str:
    """A page with the table between its two marks made again."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{markdown(rows)}\n{END}{after}"


class ImportTable(Contract):
    rows: list[str] = fields.ListField(subfield=fields.StringField())  # type: ignore[assignment]  # a descriptor

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        table = parse(self.rows)
        light = light_rows(table)
        faults = faults_of(table)
        for module in sorted(graph.modules):
            if not is_ours(module) or module == PRODUCT:
                continue
            row = row_of(module, table)
            if row is None:
                faults.append(f"{module} has no row: add one that says what it may import")
                continue
            forbidden = forbidden_libraries(row, light)
            for imported in sorted(graph.find_modules_directly_imported_by(module)):
                if reason := _refusal(row, imported, table, forbidden):
                    details = graph.get_import_details(importer=module, imported=imported)
                    where = ", ".join(str(detail["line_number"]) for detail in details)
                    faults.append(f"{module} (line {where}) imports {imported}: {reason}")
        return ContractCheck(kept=not faults, metadata={"faults": faults})

    def render_broken_contract(self, check: ContractCheck) -> None:
        metadata: dict[str, Any] = check.metadata
        for fault in metadata["faults"]:
            output.print_error(fault)


def _refusal(row: Row, imported: str, table: Table, forbidden: frozenset[str]) -> str:
    """Why a module of a row may not import another one; empty where it may."""
    if not is_ours(imported):
        return f"the row {row.package} has no mark for it" if imported.split(".")[0] in forbidden else ""
    other = row_of(imported, table)
    if imported == PRODUCT or other is None or may_import(row, other):
        return ""
    return f"the row {row.package} does not allow {other.package}"


def main(arguments: list[str]) -> int:
    """Write the table into pages; with `--check`, say which pages have another one."""
    is_check = arguments[:1] == ["--check"]
    stale = []
    for name in arguments[is_check:]:
        page = Path(name)
        before = page.read_text()
        after = rewritten(before, project_rows())
        if is_check:
            stale += [name] * (after != before)
        else:
            page.write_text(after)
    for name in stale:
        print(f"{name} has an old table. Write it again: python -m tools.layers {name}", file=sys.stderr)
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
