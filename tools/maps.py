"""Check the maps of packages: a package whose docstring lists its modules lists all of them, and no others.

A map is a table (`| `module`, `other` | what they have |`) or lines `module.py   what it has`. Part of
`make layers`; `python -m tools.maps` prints one line per package that is wrong.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = (
    "koord",
    "workshop/minicluster/koord_minicluster",
    "workshop/bench/koord_bench",
    "workshop/chaos/koord_chaos",
)
_LINE: Final = re.compile(r"([\w]+)(?:\.py|/)\s")


def listed(docstring: str) -> set[str]:
    """The modules and folders that a docstring lists."""
    names: set[str] = set()
    for line in docstring.splitlines():
        if line.startswith("|"):
            names |= {name.rstrip("/") for name in re.findall(r"`([\w]+/?)`", line.split("|")[1])}
        elif (match := _LINE.match(line)) is not None:
            names.add(match[1])
    return names


def present(folder: Path) -> set[str]:
    """The modules and folders of a package."""
    modules = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("__")}
    return modules | {path.parent.name for path in folder.glob("*/__init__.py")}


def faults(root: Path = ROOT) -> Iterator[str]:
    for package in PACKAGES:
        for init in sorted((root / package).rglob("__init__.py")):
            names = listed(ast.get_docstring(ast.parse(init.read_text())) or "")
            if not names or (wrong := names ^ present(init.parent)) == set():
                continue
            missing, extra = sorted(wrong - names), sorted(wrong & names)
            where = init.relative_to(root)
            if missing:
                yield f"{where}: the map lacks {', '.join(missing)}"
            if extra:
                yield f"{where}: the map lists {', '.join(extra)}, which the package does not have"


if __name__ == "__main__":
    problems = list(faults())
    print(*problems, sep="\n", end="\n" if problems else "")
    sys.exit(bool(problems))
