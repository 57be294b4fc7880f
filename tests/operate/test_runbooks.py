"""Every alert has a runbook and the reverse, with commands that exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

import click
import pytest

from koord.cli.main import koord
from koord.operate.alerts import ALERTS
from tools.runbooks import ROOT, made

FILES: Final = made()
FOLDER: Final = ROOT / "docs" / "runbooks"
INDENTED: Final = re.compile(r"^    (\S.*)$", re.MULTILINE)


def commands() -> Iterator[tuple[str, str]]:
    """Every command of the pages, with its page."""
    for page in sorted(FOLDER.glob("*.md")):
        look = page.read_text().partition("## Look")[2]
        for line in INDENTED.findall(look):
            yield page.stem, line


@pytest.mark.parametrize("path", FILES)
def test_a_page_says_what_the_alert_says(path: str) -> None:
    assert (ROOT / path).read_text() == FILES[path], "run: python -m tools.runbooks"


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert {page.stem for page in FOLDER.glob("*.md")} == {alert.name for alert in ALERTS}
    for alert in ALERTS:
        text = (ROOT / alert.runbook).read_text()
        for part in ("## What it means", "## Look", "## What helps"):
            assert part in text, f"{alert.runbook} has no {part}"


def test_every_runbook_has_commands_and_they_are_commands_that_koord_has() -> None:
    seen: set[str] = set()
    for page, line in commands():
        seen.add(page)
        program, *words = shlex.split(line.replace("$", ""))
        assert program in ("koord", "kubectl"), f"{page}: {line}"
        if program == "koord":
            parse(koord, words)
    assert seen == {page.stem for page in FOLDER.glob("*.md")}


@pytest.mark.parametrize("page", ["when-something-is-wrong.md", "what-was-it-worth.md"])
def test_commands_of_the_pages_are_commands_that_koord_has(page: str) -> None:
    found = [
        line for line in map(str.strip, (ROOT / "docs" / page).read_text().splitlines()) if line.startswith("koord ")
    ]
    assert found
    for line in found:
        _, *words = shlex.split(line.partition(" > ")[0].removesuffix("|| true").removesuffix("&"))
        parse(koord, words)


def parse(command: click.Command, words: list[str]) -> None:
    """Raises where the command line does not take these words; nothing is run."""
    while isinstance(command, click.Group):
        context = click.Context(command)
        if not words or words[0].startswith("-"):
            break
        found = command.get_command(context, words[0])
        assert found is not None, f"koord has no {words[0]}"
        command, words = found, words[1:]
    command.make_context(command.name, words)


def test_links_between_pages_lead_somewhere() -> None:
    for page in (*FOLDER.glob("*.md"), ROOT / "docs" / "when-something-is-wrong.md"):
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if not target.startswith("https:"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_texts_of_a_page_are_no_longer_than_a_screen() -> None:
    for page in FOLDER.glob("*.md"):
        assert len(page.read_text().splitlines()) < 50, page.name
