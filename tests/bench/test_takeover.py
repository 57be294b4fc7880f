"""The benchmark of a scheduler's take-over, at its small size."""

from __future__ import annotations

import pytest

from koord_bench import takeover


@pytest.mark.long
def test_the_other_scheduler_binds_soon_after_it_has_the_lease() -> None:
    values = {(row.case.partition(",")[0], row.metric): row.value for row in takeover.run(quick=True)}
    assert len(values) == 6
    # The lease itself runs out after 15 seconds.
    assert values["leader killed", "until the other one has the lease"] > 13
    assert all(value > 0 for value in values.values())
