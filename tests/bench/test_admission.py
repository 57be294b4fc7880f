"""The benchmark of admission measures what it says, at a size at which a test may."""

from __future__ import annotations

import pytest

from koord_bench import admission
from koord_bench.harness import Size


def test_every_case_gives_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "QUICK", Size(pods=50, seconds=0.3))
    results = admission.run(quick=True)
    assert len(results) == 6
    assert all(result.value > 0 for result in results)
    assert {result.metric: result.goal for result in results}["CPU of both questions, p99"] == 1000
