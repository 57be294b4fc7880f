"""Where one plugin outweighs all others on few rows, to judge those alone finds the row that judging all rows finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.scheduler.framework import pod_class
from koord.scheduler.framework.leading import Lead
from koord.scheduler.framework.pod_class import PodClass
from koord.scheduler.plugins.reservation.judges import Filling
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Row
from tests.scheduler.framework.reserved import Reserved

LEAD = Lead(Filling(lambda row: 0, {}, Cluster()), most_of_others=100)


@settings(max_examples=12)
@given(seed=st.integers(0, 2**32), has_services=st.booleans())
def test_owners_go_where_they_would_if_every_node_were_judged(seed: int, has_services: bool) -> None:
    leading, judging = (Reserved(seed, has_services=has_services) for _ in range(2))
    led, leads = 0, PodClass._leading

    def counted(self: PodClass, lead: Lead) -> Row | None:
        nonlocal led
        found = leads(self, lead)
        led += found is not None
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PodClass, "_leading", counted)
        for _ in range(150):
            leading.step()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pod_class, "lead_of", lambda facets, parts: None)
        for _ in range(150):
            judging.step()
    assert leading.placed == judging.placed
    assert led > 0


@pytest.mark.parametrize(
    ("totals", "at_odds", "best"),
    [
        ([500, 700], False, 1),
        ([500, 700], True, None),  # 700 - 500 is no more than twice what the others may be wrong by
        ([400, 700], True, 1),
        ([50, 100], False, None),  # a row that does not lead may have as much
        ([-(1 << 61), -(1 << 61)], False, None),
    ],
)
def test_a_leading_row_wins_where_no_other_can_have_more(totals: list[int], at_odds: bool, best: int | None) -> None:
    assert LEAD.winner(np.array(totals), at_odds=at_odds) == best
