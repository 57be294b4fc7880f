"""What a pod's own limit explains is not a neighbour's fault, whatever the timeline."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.agent.interference.control import Memory, Node, decide
from koord.agent.interference.signals import Dimension, Signal
from koord.agent.interference.window import PodWindow, Reading, pod_window
from tests.agent.interference.nodes import BATCH, SERVICE, WINDOW_S

MS = 1e6
QUIET = Reading(wait_ns=0.0, slices=0.0)


def test_delay_is_told_per_slice() -> None:
    # 300 ms in 100 slices of a window of 10 s.
    found = pod_window(QUIET, Reading(wait_ns=300 * MS, slices=100), WINDOW_S, 0.5)
    assert found.signals[Signal.RUN_QUEUE_DELAY] == pytest.approx(3.0)


def test_a_pod_that_hardly_waits_waits_for_nothing() -> None:
    # Five long waits, but 0.5% of the window.
    found = pod_window(QUIET, Reading(wait_ns=50 * MS, slices=5), WINDOW_S, 0.5)
    assert found.signals[Signal.RUN_QUEUE_DELAY] == 0.0


def test_only_delay_beyond_the_pods_own_throttling_counts() -> None:
    # 4 threads, stopped for 100 ms: up to 400 ms of the 1000 ms are its own.
    now = Reading(wait_ns=1000 * MS, slices=100, threads=4, throttled_ns=100 * MS, throttled=1)
    assert pod_window(QUIET, now, WINDOW_S, 0.5).signals[Signal.RUN_QUEUE_DELAY] == pytest.approx(6.0)


def test_delay_that_shows_a_window_after_its_quota_is_still_the_quotas() -> None:
    stopped = Reading(wait_ns=0.0, slices=10, threads=2, throttled_ns=200 * MS, throttled=2)
    first = pod_window(QUIET, stopped, WINDOW_S, 0.5)
    assert first.excuse_ns == 400 * MS
    after = pod_window(stopped, replace(stopped, wait_ns=400 * MS, slices=20), WINDOW_S, 0.5, first)
    assert after.signals[Signal.RUN_QUEUE_DELAY] == 0.0
    assert after.excuse_ns == 0.0, "and only that one"


@pytest.mark.parametrize(
    ("throttled_ns", "busy", "expected"),
    [
        (0.0, 0.2, 30.0),
        (100 * MS, 0.2, 29.0),  # 100 ms are less than a tenth of the 3 s
        (2000 * MS, 0.2, None),  # its own quota is most of it
        (2000 * MS, 0.9, 10.0),  # on a busy host the rest is others'
    ],
)
def test_cpu_pressure_counts_beyond_throttling(throttled_ns: float, busy: float, expected: float | None) -> None:
    now = Reading(stalled_ns={"cpu": 3000 * MS}, throttled_ns=throttled_ns, throttled=throttled_ns)
    found = pod_window(Reading(stalled_ns={"cpu": 0.0}), now, WINDOW_S, busy).signals.get(Signal.CPU_PRESSURE)
    assert found == (None if expected is None else pytest.approx(expected))


def test_a_probe_and_memory_signals_are_not_judged_while_the_pod_meets_its_own_limits() -> None:
    now = Reading(probe=90.0, direct_reclaim=9e9, major_faults=9e9, throttled=3, memory_limit_hits=2)
    before = Reading(probe=1.0, direct_reclaim=0.0, major_faults=0.0)
    assert not pod_window(before, now, WINDOW_S, 0.5).signals


@st.composite
def timelines(draw: st.DrawFn) -> list[tuple[float, int, float, float, float]]:
    """Of windows: throttled time, threads, which part of what that can explain shows as delay at once and later, and
    what a neighbour uses in the meantime."""
    part = st.floats(0, 1)
    calm = [(0.0, 1, 0.0, 0.0, 0.0)] * 8
    return calm + draw(
        st.lists(
            st.tuples(st.floats(0, 8e9), st.integers(1, 64), part, part, st.floats(0, 4000)), min_size=6, max_size=20
        )
    )


@settings(max_examples=30, deadline=None)
@given(timelines())
def test_a_pod_throttled_by_its_own_limit_is_never_called_a_victim(
    timeline: list[tuple[float, int, float, float, float]],
) -> None:
    memory, last, before, owed_ns, now_s = Memory(), PodWindow(), Reading(wait_ns=0.0, slices=0.0), 0.0, 0.0
    for throttled_ns, threads, at_once, later, used in timeline:
        delay_ns = throttled_ns * threads * at_once
        waited_ns, owed_ns = delay_ns + owed_ns, throttled_ns * threads * (1 - at_once) * later
        stalled_ns = before.stalled_ns.get("cpu", 0.0) + throttled_ns
        now = Reading(
            wait_ns=(before.wait_ns or 0.0) + waited_ns,
            slices=(before.slices or 0.0) + 50,
            threads=threads,
            throttled_ns=before.throttled_ns + throttled_ns,
            throttled=before.throttled + (throttled_ns > 0),
            stalled_ns={"cpu": stalled_ns, "io": stalled_ns},
            probe=1.0 + throttled_ns,
        )
        now_s += WINDOW_S
        last = pod_window(before, now, WINDOW_S, host_busy=0.95, last=last)
        windows = {"web": last, "build": PodWindow({}, {Dimension.CPU: used})}
        outcome = decide(
            Node(now_s, WINDOW_S, windows, {"web": SERVICE, "build": BATCH}, may_act=True), memory
        )  # fmt: skip
        assert not outcome.findings
        memory, before = outcome.memory, now
