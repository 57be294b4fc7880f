"""`python -m tools.site FOLDER` builds the site there."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.site.build import build


def main(arguments: list[str]) -> None:
    if len(arguments) != 1:
        sys.exit("usage: python -m tools.site FOLDER")
    out = Path(arguments[0])
    if out.exists() and not (out / "search.js").exists() and any(out.iterdir()):
        sys.exit(f"{out} has other files in it: give an empty folder, or one that was built before")
    number = build(Path(__file__).parents[2], out)
    print(f"{number} pages: {out / 'index.html'}")


if __name__ == "__main__":
    main(sys.argv[1:])
