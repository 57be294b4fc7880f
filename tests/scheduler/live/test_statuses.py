"""Quotas and PodGroups on an API server say exactly what is true once nothing changes any more."""

from __future__ import annotations

from pathlib import Path

from koord.kube.locate import locate
from koord_bench.api_servers import RunningServer
from koord_bench.statuses import Truth, lateness
from tests.scheduler.live.embedded import make_nodes, scheduling, serving


async def test_after_jobs_came_and_went_every_object_says_what_a_new_scheduler_would(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with serving(tmp_path) as client:
        await make_nodes(client, 2, cpu="16")
        async with scheduling(client):
            server = RunningServer(locate(str(kubeconfig)), 0.0, (), kubeconfig)
            found = await lateness(server, (2, 2), seconds=1.0, jobs_a_second=4.0, lives_s=1.0)
    assert (found.quotas, found.wrong) == (6, 0)
    assert found.pods > 0


def test_who_says_what_was_true_until_a_second_ago_is_a_second_late() -> None:
    truth = Truth()
    truth.becomes(0.0, 1)
    truth.says_so(0.0, 1)
    truth.becomes(5.0, 2)
    truth.becomes(5.5, 3)
    assert truth.late_s(6.0) == 1.0
    truth.says_so(6.0, 2)
    assert truth.late_s(6.0) == 0.5
    truth.says_so(6.5, 3)
    assert truth.late_s(9.0) == 0.0
