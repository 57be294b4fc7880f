"""Writes what is made from koord's alerts: the head of each runbook, and the list of all in "When something is wrong".

    python -m tools.runbooks

A test says when they are out of date.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from koord.operate.alerts import ALERTS, RUNBOOKS, Alert

ROOT: Final = Path(__file__).parents[1]
INDEX: Final = "docs/when-something-is-wrong.md"
BEGIN, END = "<!-- made by `python -m tools.runbooks` -->", "<!-- end of what is made -->"


def made() -> dict[str, str]:
    """All files, by path."""
    by_name: dict[str, list[Alert]] = {}
    for alert in ALERTS:
        by_name.setdefault(alert.name, []).append(alert)
    pages = {INDEX: _between(INDEX, _list(by_name))}
    for name, alerts in by_name.items():
        path = f"{RUNBOOKS}/{name}.md"
        pages[path] = _between(path, _head(alerts))
    return pages


def _between(path: str, text: str) -> str:
    page = (ROOT / path).read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def _list(by_name: dict[str, list[Alert]]) -> str:
    lines = ["| alert | severity | it says |", "| --- | --- | --- |"]
    for name, (alert, *_) in by_name.items():
        says = _plain(alert.summary) if len(by_name[name]) == 1 else "no pod of a component answers"
        lines.append(f"| [{name}](runbooks/{name}.md) | {alert.severity} | {says} |")
    return "\n".join(lines)


def _plain(summary: str) -> str:
    """Values that Prometheus fills in are shown as dots."""
    text = summary
    while "{{" in text:
        before, _, rest = text.partition("{{")
        text = before + "…" + rest.partition("}}")[2]
    return text.replace("……", "…")


def _head(alerts: list[Alert]) -> str:
    first = alerts[0]
    expressions = "\n".join(f"    {alert.expr}" for alert in alerts)
    return f"Severity: {first.severity}. It fires when this holds for {first.wait}:\n\n{expressions}\n"


def main() -> None:
    for path, text in made().items():
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    main()
