"""Every command of koord in a page exists with the options that the page gives it, and every page is run by a test."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from koord.cli.main import koord

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "reference"))
FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")
END = {"|", "||", "&&", "&", ";", ">", "(beside"}
PLACEHOLDER = re.compile(r"[A-Z./…]")
NOT_RUN = {"README.md", "demo.md", "development.md"}
"""What they start takes minutes, or goes on until Ctrl-C."""
PRINTED = re.compile(r"\S   ")
"""Columns: no command."""


def commands(text: str) -> Iterator[str]:
    """The commands of koord in a page: in blocks, in indented lines, and within sentences."""
    for block in FENCE.findall(text):
        yield from block.splitlines()
    plain = FENCE.sub("", text)
    yield from (line for line in plain.splitlines() if line.startswith("    "))
    yield from (span.replace("\n", " ") for span in SPAN.findall(plain))


def words_of(line: str) -> list[str]:
    """What follows `koord`, up to the end of the command."""
    command = re.match(r"^\s*(?:sudo )?(?:\.venv/bin/)?koord (.+)$", line)
    if command is None or PRINTED.search(line.partition("#")[0].partition("(")[0].rstrip()):
        return []
    try:
        words = shlex.split(re.sub(r"\$\(.*?\)", "NAME", command[1]), comments=True)
    except ValueError:
        return []
    end = next((at for at, word in enumerate(words) if word in END or word.startswith(">")), len(words))
    return words[:end]


def faults(words: list[str]) -> Iterator[str]:
    """What the command line does not know of a command."""
    command: click.Command = koord
    context = click.Context(koord, info_name="koord")
    options = takes_value(koord) | {"--help": False, "-h": False}
    left = iter(words)
    for word in left:
        if word.startswith("-") and word != "-" and not re.match(r"^-\d", word):
            name, given, _ = word.partition("=")
            if name not in options and not (name[:2] in options and not name.startswith("--")):
                yield f"no option {name}"
            elif options.get(name) and not given:
                next(left, None)
        elif isinstance(command, click.Group):
            if PLACEHOLDER.match(word):
                return
            inner = command.get_command(context, word)
            if inner is None:
                yield f"no command {word}"
                return
            command = inner
            options |= takes_value(command)


def takes_value(command: click.Command) -> dict[str, bool]:
    """The options of a command by all their names."""
    options = [option for option in command.params if isinstance(option, click.Option)]
    return {
        name: not (option.is_flag or option.count)
        for option in options
        for name in (*option.opts, *option.secondary_opts)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_command_in_a_page_exists(page: Path) -> None:
    wrong = [(line, list(faults(words))) for line in commands(page.read_text()) if (words := words_of(line))]
    assert [(line, unknown) for line, unknown in wrong if unknown] == []


def test_a_misspelt_command_or_option_is_found() -> None:
    assert list(faults(["top", "nodes", "--outputs", "json"])) == ["no option --outputs"]
    assert list(faults(["colocation", "of"])) == ["no command of"]
    assert list(faults(["colocation", "off", "--node", "n1"])) == []


def test_each_page_with_commands_to_paste_is_named_by_a_test_that_runs_them() -> None:
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__))
    pages = [page for page in (ROOT / "docs").glob("*.md") if re.search(r"^    [a-z]", page.read_text(), re.MULTILINE)]
    assert [page.name for page in pages if page.name not in NOT_RUN and page.name not in tests] == []
