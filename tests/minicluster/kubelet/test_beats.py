from __future__ import annotations

import pytest

from koord_minicluster.kubelet.beats import STATUS_S, Beats, renew_period_s


@pytest.mark.parametrize(("nodes", "period_s"), [(1, 10), (100, 10), (500, 10), (800, 16), (5000, 20)])
def test_leases_are_renewed_as_often_as_kubelets_do_until_that_is_too_much(nodes: int, period_s: float) -> None:
    assert renew_period_s(nodes) == period_s


def test_nodes_that_register_together_are_spread_over_the_period() -> None:
    shares = [Beats.after_registration(1000.0, 20.0, share) for share in (0.0, 0.5, 1.0)]
    assert [share.lease_s for share in shares] == [1000, 1010, 1020]
    assert [share.status_s for share in shares] == [1000, 1000 + STATUS_S / 2, 1000 + STATUS_S]


def test_a_status_that_was_refused_is_tried_again_with_the_next_lease() -> None:
    beats = Beats().renewed(1000.0, 10.0).reported(1000.0)
    assert beats == Beats(1010.0, 1000.0 + STATUS_S)
    assert beats.failed(1000.0, 10.0) == Beats(1010.0, 1010.0)
