"""What koord promises, as a page: every invariant of `koord_chaos` with its sentence.

`python -m tools.promises` checks docs/what-we-promise.md, `python -m tools.promises --write` writes it.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Final

from koord_chaos.invariants.promises import PROMISES

PAGE: Final = Path(__file__).parents[1] / "docs" / "what-we-promise.md"
BEGIN: Final = "<!-- promises: written by `python -m tools.promises --write` -->"
END: Final = "<!-- end of promises -->"


def chapters() -> str:
    lines: list[str] = []
    for chapter in PROMISES:
        evidence = textwrap.fill(chapter.evidence, 100, break_on_hyphens=False)
        lines += ["", f"## {chapter.title}", "", evidence, "", "| promise | invariant |", "| --- | --- |"]
        lines += [f"| {invariant.promise} | `{invariant.name}` |" for invariant in chapter.invariants]
    return "\n".join([*lines[1:], ""])


def rewritten(page: str) -> str:
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{chapters()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    text = PAGE.read_text()
    if "--write" in sys.argv[1:]:
        PAGE.write_text(rewritten(text))
    elif rewritten(text) != text:
        sys.exit(f"{PAGE.name} differs from the invariants; run: python -m tools.promises --write")
