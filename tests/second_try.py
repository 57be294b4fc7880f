"""One second try for tests in which a real kernel or a real process decides.

These tests may fail once because the machine was busy elsewhere for too long. The failed test then runs again with new
fixtures, including those of its module and of the session. After a failed second try, the file gets no more of them. A
test that needed one is named at the end of the run, with its failure, since it should wait for a condition instead.
Pure tests fail at once, and with `--one-try` (`make tests STRICT=1`) every test does.
"""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

NEEDED = "second try"
"""The outcome of a first try that is not the last."""

REAL_GROUPS = ("root", "kubectl", "browser", "guest", "cluster", "gpu", "yarn", "runtime", "prometheus")
REAL_FILES = (
    "tests/descheduler/live/test_killed_processes.py",
    "tests/docs/test_pages.py",
    "tests/kube/test_shell.py",
    "tests/minicluster/up/test_colocation.py",
    "tests/minicluster/up/test_demo.py",
    "tests/minicluster/up/test_end_to_end.py",
    "tests/minicluster/up/test_full_disk.py",
    "tests/minicluster/up/test_supervisor.py",
    "tests/scheduler/live/test_killed_scheduler.py",
)
"""Files whose tests start, signal or kill real processes, and need nothing that a machine may lack."""

_SECOND = pytest.StashKey[bool]()


def may_try_again(item: pytest.Item) -> bool:
    return item.nodeid.startswith(REAL_FILES) or any(item.get_closest_marker(name) for name in REAL_GROUPS)


class SecondTry:
    """The plugin, registered unless `--one-try` is given."""

    def __init__(self) -> None:
        self._in_vain: set[Path] = set()
        """Files in which a second try failed, too. Their fixtures may take minutes: they are not set up once a test."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        if _SECOND in item.stash or item.path in self._in_vain or not may_try_again(item):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        failed = [report for report in reports if report.failed]
        if failed:
            failed[0].outcome = NEEDED  # type: ignore[assignment] # as other outcomes of plugins, which pytest counts by name
            failed[0].sections += _set_up_nothing(item.session)
            reports = failed[:1]
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        if failed:
            item.stash[_SECOND] = True
            failures = item.session.testsfailed
            # The whole protocol, so that a test's time limit begins again.
            item.ihook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            if item.session.testsfailed > failures:
                self._in_vain.add(item.path)
        else:
            item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def pytest_report_teststatus(self, report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
        return (NEEDED, "R", "SECOND TRY") if report.outcome == NEEDED else None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """What failed in each first try, and the names of the tests once more at the end."""
        first_tries: list[pytest.TestReport] = terminalreporter.stats.get(NEEDED, [])
        if not first_tries:
            return
        terminalreporter.section("first tries that failed")
        for report in first_tries:
            terminalreporter.write_sep("_", report.nodeid)
            terminalreporter.write_line(report.longreprtext)
            for title, text in report.sections:
                terminalreporter.write_sep("-", title)
                terminalreporter.write_line(text)
        for report in first_tries:
            terminalreporter.write_line(f"needed a second try: {report.nodeid}", yellow=True)


def _set_up_nothing(session: pytest.Session) -> list[tuple[str, str]]:
    """Takes down every fixture that still is set up, and returns what went wrong with that."""
    try:
        session._setupstate.teardown_exact(None)
    except Exception:  # noqa: BLE001 - the failure that is reported came before
        return [("taking fixtures down", traceback.format_exc())]
    return []
