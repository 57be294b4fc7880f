"""koord alone, as a cluster's image has it: no cluster on one machine, no benchmarks, and a word that says so."""

from __future__ import annotations

import subprocess
import sys

import pytest

from koord.cli.main import COMMANDS

HIDDEN = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in ("koord_minicluster", "koord_bench", "koord_chaos"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
from koord.cli.main import main
main(sys.argv[1:])
"""
EXTRAS = {"koord_minicluster": "up", "koord_bench": "bench", "koord_chaos": "chaos"}


def koord(*args: str) -> subprocess.CompletedProcess[str]:
    """Run koord in a process that cannot import the workshop."""
    return subprocess.run(
        [sys.executable, "-c", HIDDEN, *args], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    "name", sorted(name for name, entry in COMMANDS.items() if not entry.module.startswith("koord."))
)
def test_a_command_of_the_workshop_says_in_one_line_what_to_install(name: str) -> None:
    extra = EXTRAS[COMMANDS[name].module.partition(".")[0]]
    answer = koord(name)
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr == f'Error: koord {name} is not installed here: pip install "koord[{extra}]"\n'


def test_commands_of_the_product_do_without_it() -> None:
    for name in ("status", "plan", "agent", "install"):
        answer = koord(name, "--help")
        assert answer.returncode == 0, answer.stderr


def test_the_help_lists_all_commands() -> None:
    answer = koord("--help")
    assert answer.returncode == 0
    assert all(name in answer.stdout for name in COMMANDS)
