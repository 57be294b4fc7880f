"""What `koord deschedule --live` uses: the settings of the descheduler that runs."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from koord.api.configuration.descheduler_config import DeschedulerConfiguration
from koord.api.kinds import LEASES
from koord.api.protocol.names import LEASE_DESCHEDULER, NAMESPACE_KOORDINATOR
from koord.cli.main import run as koord
from koord.descheduler.live.run import DeschedulerOptions
from koord.descheduler.live.run import run as run_descheduler
from koord.descheduler.settings_in_force import settings_of
from koord.kube.client import Client
from koord.kube.errors import NotFound
from koord_minicluster.up.bootstrap import bootstrap
from tests.descheduler.live.cluster import QUIET, configured, running
from tests.scheduler.live.embedded import serving
from tests.waiting import eventually


async def in_force(client: Client) -> DeschedulerConfiguration | None:
    try:
        lease = await client.get(LEASES, LEASE_DESCHEDULER, namespace=NAMESPACE_KOORDINATOR)
    except NotFound:
        return None
    return settings_of(lease, time.time())


async def test_the_leader_says_its_settings_and_a_dry_run_goes_by_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koord.kube.reload.LOOK_EVERY_S", 0.1)
    given = [configured(QUIET)]
    options = DeschedulerOptions(elect=True, dry_run=True, reload=lambda: given[-1])

    async def said(interval: str) -> bool:
        config = await in_force(client)
        return config is not None and config.descheduling_interval == interval and config.dry_run

    async with serving(tmp_path) as client:
        await bootstrap(client)
        kubeconfig = str(tmp_path / "kubeconfig")
        arguments = ["deschedule", "--live", "--kubeconfig", kubeconfig]
        assert await asyncio.to_thread(koord, arguments) == 0
        assert "no descheduler of koord's runs on the cluster" in capsys.readouterr().err
        async with running(lambda ready: run_descheduler(client, given[0], options=options, on_ready=ready)):
            await eventually(lambda: said("0s"))
            given.append(configured(QUIET.replace("0s", "7m0s")))
            await eventually(lambda: said("7m0s"))
            assert await asyncio.to_thread(koord, arguments) == 0
            assert "with the settings of the descheduler that runs" in capsys.readouterr().err
