"""Commands that the console offers to copy exist."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from koord.cli.main import koord

ROOT = Path(__file__).parents[2]
SOURCES = (*(ROOT / "console" / "src").rglob("*.tsx"), *(ROOT / "koord" / "console").rglob("*.py"))
OFFERED = re.compile(r'["`\'(&] ?koord ((?:[a-z-]+ ?)+(?:--[a-z-]+)?)')
PROSE = ("agent", "manager", "scheduler", "descheduler", "is")
"""What follows the name in sentences: `koord agent does not report`."""


def offered() -> list[str]:
    texts = {match.strip() for file in SOURCES for match in OFFERED.findall(file.read_text())}
    return sorted(text for text in texts if text.split()[0] not in PROSE)


@pytest.mark.parametrize("text", offered())
def test_a_command_that_is_offered_exists(text: str) -> None:
    command: click.Command = koord
    for word in text.split():
        context = click.Context(command)
        if word.startswith("--"):
            options = {name for parameter in command.get_params(context) for name in parameter.opts}
            assert word in options, f"koord {text}"
        elif isinstance(command, click.Group):
            following = command.get_command(context, word)
            assert following is not None, f"koord {text}"
            command = following


def test_the_commands_of_panels_are_among_them() -> None:
    assert {"top pending", "top quotas", "colocation rollout status"} <= set(offered())
