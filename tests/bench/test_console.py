"""The benchmark of the console measures what it says, at a size at which a test may."""

from __future__ import annotations

import pytest

from koord_bench import console
from koord_bench.harness import Size


def test_every_figure_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "QUICK", Size(nodes=40, pods_a_node=5))
    results = console.run(quick=True)
    assert [result.unit for result in results] == ["MiB", "% of a core", "ms", "kB", "ms", "kB"]
    assert all(result.value > 0 for result in results)
