"""The benchmark of schedulers that share a cluster, at its small size."""

from __future__ import annotations

import pytest

from koord_bench import scale, shards
from koord_bench.harness import Report


@pytest.mark.long
def test_one_two_and_four_schedulers_bind_all_pods() -> None:
    report = Report("scale", quick=True)
    shards.add_rows(report, scale.QUICK)
    rates = [row.value for row in report.rows if row.metric == "bound pods"]
    assert len(rates) == 3
    assert min(rates) > 0
