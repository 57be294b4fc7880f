"""A test with real processes may fail once; a pure test may not, and a first try that failed is always shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.second_try import REAL_FILES, REAL_GROUPS

ROOT = Path(__file__).parents[1]

CONFTEST = """
from tests.second_try import SecondTry

def pytest_addoption(parser):
    parser.addoption("--one-try", action="store_true")

def pytest_configure(config):
    config.addinivalue_line("markers", "root: has processes")
    if not config.getoption("--one-try"):
        config.pluginmanager.register(SecondTry())
"""
TESTS = """
import pytest

servers = 0
attempts = 0

@pytest.fixture(scope="session")
def machine():
    return object()

@pytest.fixture(scope="module")
def server(machine):
    global servers
    servers += 1
    return []

@pytest.mark.root
def test_neighbour(server):
    assert servers == 1

@pytest.mark.root
def test_slow(server, tmp_path):
    global attempts
    attempts += 1
    assert server == [], "left by the first try"
    server.append("created")
    (tmp_path / "file").touch(exist_ok=False)
    assert attempts == 2, "was slow"

@pytest.mark.root
def test_server_is_new(server):
    assert servers == 2

@pytest.fixture
def late(request):
    yield
    request.config.lates = getattr(request.config, "lates", 0) + 1
    assert request.config.lates == 2, "ended late"

@pytest.mark.root
def test_ends_late(late):
    pass
"""
BROKEN = """
import pytest

def test_pure():
    assert False, "pure"

@pytest.mark.root
@pytest.mark.timeout(1)
def test_hangs():
    import time
    time.sleep(30)

@pytest.mark.root
def test_after_a_second_try_in_vain():
    assert False, "never works"
"""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_sometimes.py").write_text(TESTS)
    (folder / "test_broken.py").write_text(BROKEN)
    (folder / "pytest.ini").write_text("[pytest]\n")
    plain = ("-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:hypothesispytest", "-p", "no:asyncio")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plain, *options],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("workers", [(), ("-n", "1", "--dist", "loadfile")])
def test_a_second_try_sets_everything_up_anew(tmp_path: Path, workers: tuple[str, ...]) -> None:
    done = run(tmp_path, "test_sometimes.py", *workers)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed, 2 second try" in done.stdout
    assert "AssertionError: was slow" in done.stdout
    assert "AssertionError: ended late" in done.stdout
    named = [line for line in done.stdout.splitlines() if line.startswith("needed a second try: ")]
    assert named == [f"needed a second try: test_sometimes.py::test_{name}" for name in ("slow", "ends_late")]


def test_what_fails_twice_and_what_is_pure_fails(tmp_path: Path) -> None:
    done = run(tmp_path, "test_broken.py")
    assert done.returncode == 1
    assert "3 failed, 1 second try" in done.stdout, done.stdout + done.stderr
    assert "needed a second try: test_broken.py::test_pure" not in done.stdout


def test_one_try_gives_none(tmp_path: Path) -> None:
    done = run(tmp_path, "test_sometimes.py", "--one-try")
    assert done.returncode == 1
    assert "second try" not in done.stdout


def test_what_has_a_second_try_exists(pytestconfig: pytest.Config) -> None:
    assert [path for path in REAL_FILES if not (ROOT / path).is_file()] == []
    known = {line.partition(":")[0].partition("(")[0] for line in pytestconfig.getini("markers")}
    assert set(REAL_GROUPS) <= known
