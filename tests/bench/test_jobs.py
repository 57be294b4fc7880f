"""The benchmark of jobs decides about what it says it does."""

from __future__ import annotations

from koord_bench import jobs, quota_trees


def test_three_of_ten_gangs_do_not_fit_and_are_tried_again() -> None:
    gang_decisions = jobs.decided(nodes=200, gangs=20)
    assert (gang_decisions.pods, gang_decisions.failed, len(gang_decisions.retries_s)) == (2 * sum(jobs.SIZES), 6, 6)


def test_all_alike_members_have_their_places() -> None:
    assert jobs.alike(nodes=100, number=50) > 0


def test_quotas_of_all_levels_are_asked() -> None:
    quota_costs = quota_trees.measured((2, 2, 2), pods=50)
    assert quota_costs.quotas == 14
    assert quota_costs.check_us > 0
