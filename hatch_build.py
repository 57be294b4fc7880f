"""Which build a wheel is: `koord version` reads it from the file that is made here.

The date is the commit's, not the clock's, so that the same commit gives the same wheel. A wheel that is made from a
source distribution keeps what the source distribution says.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILE = "koord/build.json"


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or Path(self.root, FILE).exists():
            return
        commit, date = _git(self.root, "%H"), _git(self.root, "%cI")
        if not commit:
            return
        changed = bool(_ask(self.root, "status", "--porcelain", "--untracked-files=no"))
        made = Path(tempfile.mkdtemp(), "build.json")
        made.write_text(json.dumps({"commit": commit + ("-changed" if changed else ""), "date": date}) + "\n")
        build_data["force_include"][str(made)] = FILE


def _git(root: str, form: str) -> str:
    return _ask(root, "log", "-1", f"--format={form}") if Path(root, ".git").exists() else ""


def _ask(root: str, *args: str) -> str:
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", root, *args], capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
