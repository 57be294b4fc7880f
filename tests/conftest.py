"""Test groups: skip what this machine cannot run, fail if it was required, count per group at the end."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.control_plane import ControlPlane
from tests.distribution import place_in_the_queue
from tests.examples import try_a_share
from tests.groups import GROUPS, missing_kubectl
from tests.second_try import NEEDED, SecondTry

GROUP = "group"
"""The property of a test that names a group of it."""

# Sixteen thousand tests are half a million objects, which the collector need not look through again and again.
gc.set_threshold(20_000, 20, 20)

# Everybody judges a change by the same examples, each time; `make explore` looks further.
settings.register_profile(
    "fixed",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=100,
    derandomize=True,
    database=None,
)
settings.register_profile("explore", settings.get_profile("fixed"), derandomize=False, print_blob=False)
settings.load_profile("fixed")


def required_groups() -> list[str]:
    return [name for name in os.environ.get("KOORD_REQUIRE", "").replace(",", " ").split() if name]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--one-try", action="store_true", help="no second try for tests with real processes")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--one-try"):
        config.pluginmanager.register(SecondTry())
    unknown = sorted(set(required_groups()) - set(GROUPS))
    if unknown:
        raise pytest.UsageError(f"KOORD_REQUIRE: unknown {', '.join(unknown)}; groups are {', '.join(GROUPS)}")
    absent = [f"{name} ({how})" for name in required_groups() if (how := GROUPS[name]())]
    if absent:
        raise pytest.UsageError(f"KOORD_REQUIRE: this machine lacks {', '.join(absent)}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    absent = {name: how for name, missing in GROUPS.items() if (how := missing())}
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=place_in_the_queue)
    for item in items:
        try_a_share(item)
        for name in GROUPS:
            if item.get_closest_marker(name) is None:
                continue
            item.user_properties.append((GROUP, name))
            if name in absent:
                item.add_marker(pytest.mark.skip(reason=f"group {name}: {absent[name]}"))
        for marker in item.iter_markers("kubectl"):
            if "kubectl" not in absent and (how := missing_kubectl(**marker.kwargs)):
                item.add_marker(pytest.mark.skip(reason=f"group kubectl: {how}"))


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    ran: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            if not isinstance(report, pytest.TestReport) or (report.when != "call" and outcome != "skipped"):
                continue
            if outcome == NEEDED:
                continue
            # Not by keywords: a folder of tests may be called like a group.
            groups = [str(value) for key, value in report.user_properties if key == GROUP] or ["none"]
            (skipped if outcome == "skipped" else ran).update(groups)
    terminalreporter.section("groups")
    for name in ("none", *GROUPS):
        missing = GROUPS[name]() if name in GROUPS else None
        hint = f"   to run them: {missing}" if missing else ""
        terminalreporter.write_line(f"{name:8} {ran[name]:5} ran {skipped[name]:5} skipped{hint}")


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """The shared control plane. Tests use namespaces and names of their own, and leave it running."""
    with ControlPlane() as plane:
        yield plane


@pytest.fixture
def own_control_plane() -> Iterator[ControlPlane]:
    """A control plane that a test may kill, freeze or fill."""
    with ControlPlane() as plane:
        yield plane
