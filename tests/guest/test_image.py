"""What a guest is given, without booting it: that takes minutes, and `make test` does not."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys

from tests.guest import boot, image

LISTED = """
import importlib, sys
for story in sys.argv[1:]:
    importlib.import_module(story)
ours = ("koord.", "koord_minicluster.", "tests.")
print(*(name for name, module in sys.modules.items() if name.startswith(ours) and hasattr(module, "__file__")))
"""


def stories() -> list[str]:
    """The modules of tests that a guest runs: its first process cannot be imported here."""
    source = (image.PROJECT / "tests/guest/init.py").read_text()
    listed = re.search(r"^STORIES = \((.*)\)$", source, re.MULTILINE)
    assert listed is not None
    return [f"tests.agent.test_real_{name}" for name in re.findall(r'"(\w+)"', listed[1])]


def test_a_guest_has_every_module_of_the_project_that_its_tests_import() -> None:
    command = [sys.executable, "-c", LISTED, *stories()]
    run = subprocess.run(command, cwd=image.PROJECT, capture_output=True, text=True, check=True, timeout=60)
    packed = image.of_project().names
    missing = [
        module
        for module in run.stdout.split()
        if not any(f"{place}/{module.replace('.', '/')}{end}" in packed for place, end in PLACES)
    ]
    assert not missing


PLACES = [(image.SITE, ".pyc"), (image.SITE, "/__init__.pyc"), ("work", ".py"), ("work", "/__init__.py")]


def test_a_guest_has_every_test_that_it_is_to_run() -> None:
    tests = [name for story in stories() for name in dir(importlib.import_module(story)) if name.startswith("test_")]
    for guest in boot.GUESTS:
        for part in guest.tests:
            assert any(part in test for test in tests), f"{guest.name}: no test is named {part}"
