"""Looking into a running scheduler over HTTP, and attempts that take too long."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import aiohttp
import pytest

from koord.api.kinds import PODS
from koord.api.scheduler_config import SHIPPED
from koord.kube.health import HealthServer
from koord.kube.metrics import Metrics
from koord.scheduler.live.diagnosis import Inspection
from koord.scheduler.live.run import Options
from tests.scheduler.live.embedded import make_nodes, pod_manifest, scheduling, serving, until, until_bound


async def asked(port: int, path: str, method: str = "GET", body: str = "") -> tuple[int, str]:
    url = f"http://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.request(method, url, data=body) as answer:
        return answer.status, await answer.text()


async def test_flags_answer_to_put_alone() -> None:
    inspection = Inspection()
    async with HealthServer("127.0.0.1:0", metrics=Metrics(process=False)) as server:
        assert (await asked(server.port, "/debug/flags/s", "PUT", "5"))[0] == 404
        server.add_paths(inspection.handle)
        assert await asked(server.port, "/debug/flags/s", "PUT", "5") == (200, "successfully set debugTopNScores to 5")
        assert inspection.flags.top_scores == 5
        assert (await asked(server.port, "/debug/flags/s", "PUT", "five"))[0] == 400
        assert (await asked(server.port, "/debug/flags/f", "GET"))[0] == 406
        assert (await asked(server.port, "/debug/flags/x", "PUT", "1"))[0] == 404
        assert (await asked(server.port, "/debug/flags/v", "PUT", "loud"))[0] == 400
        assert (await asked(server.port, "/nothing"))[0] == 404
        assert (await asked(server.port, "/livez"))[0] == 200


async def test_who_does_not_lead_does_not_answer() -> None:
    async with HealthServer("127.0.0.1:0") as server:
        server.add_paths(Inspection().handle)
        status, text = await asked(server.port, "/apis/v1/__services__")
        assert (status, json.loads(text)) == (503, {"message": "the instance is not leader"})


async def test_services_of_a_running_scheduler(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    inspection = Inspection()
    options = Options(alone=True, inspection=inspection)
    async with serving(tmp_path) as client, HealthServer("127.0.0.1:0") as server:
        server.add_paths(inspection.handle)
        await make_nodes(client, 2)
        async with scheduling(client, SHIPPED, options=options):
            _, text = await asked(server.port, "/apis/v1/__services__")
            assert json.loads(text) == {
                "GET": [
                    "/apis/v1/__services__",
                    "/apis/v1/nodes/:nodeName",
                    "/apis/v1/plugins/LoadAwareScheduling/node/:nodeName",
                ]
            }
            inspection.flags.top_scores, inspection.flags.filter_failures, inspection.flags.diagnoses = 2, True, True
            with caplog.at_level(logging.INFO):
                await client.create(PODS, pod_manifest("small"))
                await client.create(PODS, pod_manifest("giant", cpu="50"))
                where = (await until_bound(client, "small"))["small"]

                async def is_told() -> bool:
                    return bool((await client.get(PODS, "giant", namespace="default")).status.conditions)

                await until(is_told)
            status, text = await asked(server.port, f"/apis/v1/nodes/{where}")
            told = json.loads(text)
            assert status == 200
            assert [pod["key"] for pod in told["pods"]] == ["default/small"]
            status, text = await asked(server.port, "/apis/v1/nodes/none")
            assert (status, json.loads(text)) == (404, {"message": "cannot find node none"})
            path = f"/apis/v1/plugins/LoadAwareScheduling/node/{where}"
            status, text = await asked(server.port, path)
            assert status == 200
            assert [pod["pod"] for pod in json.loads(text)["pods"]] == ["default/small"]
            assert (await asked(server.port, "/apis/v1/plugins/Nobody/x"))[0] == 404
            assert (await asked(server.port, "/apis/v1/nodes/n", "POST"))[0] == 405
    logged = caplog.text
    assert "Top2 scores for Pod: default/small, feasibleNodes: 2" in logged
    assert 'Failed to filter for Pod "default/giant" on Node "node-000"' in logged
    assert "dump diagnosis for default/giant" in logged
