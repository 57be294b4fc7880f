from __future__ import annotations

from koord.descheduler.job_request import move_name


def test_two_that_see_the_same_jobs_of_a_pod_name_the_next_one_alike() -> None:
    assert move_name("uid", ["first", "second"]) == move_name("uid", ["second", "first"])
    names = {move_name("uid", []), move_name("uid", ["first"]), move_name("other", [])}
    assert len(names) == 3
