"""Name check: finds variables that are named for how a value came to be (`each`, `found`, `known`, `told`) and not for
what it is.

    python -m tools.names              compare the counts with the allowance; part of `make lint`
    python -m tools.names PATH...      list the variables in files and folders
    python -m tools.names --shrink     lower the allowance to the current counts

Counted are assignments, loops, comprehensions, parameters and functions with one of these names. Attributes are not
counted, since they may be part of a format. The allowance (tools/names_allowance.json) has a limit for each top-level
folder. A folder above its limit fails. `--shrink` never raises a limit.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tools.prose import ROOT, folder_of, tracked

ALLOWANCE: Final = ROOT / "tools" / "names_allowance.json"
FILLERS: Final = frozenset({"each", "found", "known", "told"})

_ANY: Final = re.compile(rf"\b(?:{'|'.join(sorted(FILLERS))})\b")


@dataclass(frozen=True)
class Filler:
    path: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name} (better: what it holds, like pod, nodes_by_zone, stale)"


def fillers(path: str, source: str) -> list[Filler]:
    """The places that give a variable, parameter or function one of these names, in order."""
    if not _ANY.search(source):
        return []
    return sorted(
        (Filler(path, line, name) for line, name in _named(ast.parse(source)) if name in FILLERS),
        key=lambda filler: filler.line,
    )


def _named(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                yield node.lineno, name


def complaints(counts: dict[str, int], allowed: dict[str, int]) -> list[str]:
    """One line for each folder above its limit."""
    return [
        f"{folder}: {count} variables named {', '.join(sorted(FILLERS))}, {allowed.get(folder, 0)} allowed. "
        f"List them: python -m tools.names {folder}"
        for folder, count in sorted(counts.items())
        if count > allowed.get(folder, 0)
    ]


def shrunk(counts: dict[str, int], allowed: dict[str, int]) -> dict[str, int]:
    """The new limits: the counts where they are lower."""
    limits = {folder: min(limit, counts.get(folder, 0)) for folder, limit in sorted(allowed.items())}
    return {folder: limit for folder, limit in limits.items() if limit}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.names", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="list the variables below these paths")
    parser.add_argument("--shrink", action="store_true", help="write the current counts as the allowance")
    options = parser.parse_args(arguments)
    sources = {path: source for path, source in tracked(options.paths).items() if path.endswith(".py")}
    listed = [filler for path, source in sources.items() for filler in fillers(path, source)]
    if options.paths:
        print(*listed, f"{len(listed)} variables", sep="\n")
        return 0
    counts = Counter(folder_of(filler.path) for filler in listed)
    allowed: dict[str, int] = json.loads(ALLOWANCE.read_text())
    if options.shrink:
        ALLOWANCE.write_text(json.dumps(shrunk(counts, allowed), indent=2) + "\n")
        return 0
    wrong = complaints(counts, allowed)
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
