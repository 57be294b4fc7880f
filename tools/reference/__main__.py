"""`python -m tools.reference` writes the pages of docs/reference."""

from __future__ import annotations

from tools.reference import ROOT, made


def main() -> None:
    for path, text in made()[0].items():
        (ROOT / path).parent.mkdir(exist_ok=True)
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    main()
