"""`python -m tools.reference` writes the pages of docs/reference; `--check` says whether they are up to date."""

from __future__ import annotations

import sys

from tools.reference import ROOT, made


def main(arguments: list[str]) -> None:
    pages, undescribed = made()
    if undescribed:
        sys.exit(f"no description: {', '.join(undescribed)}")
    if arguments == ["--check"]:
        stale = [path for path, text in pages.items() if (ROOT / path).read_text() != text]
        if stale:
            sys.exit(f"not up to date: {', '.join(stale)}; run: python -m tools.reference")
        return
    for path, text in pages.items():
        (ROOT / path).parent.mkdir(exist_ok=True)
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
