"""Real processes killed in the middle of moves.

The suite kills a descheduler beside a cluster in this process, three times. KOORD_KILLS=50 kills descheduler, scheduler
and API server of a whole `koord up`, N of them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random

import pytest

from koord.api.kinds import DEPLOYMENTS, POD_MIGRATION_JOBS, RESERVATIONS
from koord.api.protocol.annotations.notice import SCALE_FIRST, SCALED_FIRST
from koord.kube.client import Client
from koord.kube.errors import ApiError
from tests.descheduler.live.cluster import all_ready, ask, cluster, deploy, pods_of
from tests.minicluster.up.test_end_to_end import up
from tests.waiting import eventually

log = logging.getLogger(__name__)

KILLS = int(os.environ.get("KOORD_KILLS", "0"))
REPLICAS = 4
TTL_S = 150
"""Who is killed again and again is started again after 30 s, and a watch is tried again up to 30 s after that. A job
must outlast both."""
CONFIG = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
profiles:
- name: p
  pluginConfig:
  - name: MigrationController
    args: {objectLimiters: {workload: {duration: 1ms}}, evictQPS: 100}
"""


class Descheduler:
    def __init__(self, data: Path) -> None:
        self._config = data.parent / "descheduler.yaml"
        self._config.write_text(CONFIG)
        self._where, self._log = str(data / "kubeconfig"), data.parent / "descheduler.log"
        self._start()

    def _start(self) -> None:
        flags = ("--kubeconfig", self._where, "--config", str(self._config), "--alone", "--no-leader-elect")
        with self._log.open("ab") as log:
            self.process = subprocess.Popen([sys.executable, "-m", "koord", "descheduler", *flags], stderr=log)

    def kill(self) -> None:
        self.end()
        self._start()

    def end(self) -> None:
        self.process.kill()
        self.process.wait(timeout=60)


@contextmanager
def descheduler(data: Path) -> Iterator[Descheduler]:
    running = Descheduler(data)
    try:
        yield running
    finally:
        running.end()


async def test_a_descheduler_that_is_killed_is_gone_on_with_by_the_next_one(tmp_path: Path) -> None:
    # A node that a pod was moved from is closed to its siblings for minutes: there are others.
    async with cluster(tmp_path / "data", nodes=8) as client:
        with descheduler(tmp_path / "data") as moving:
            await moves_go_on(client, 3, lambda _: moving.kill())


@pytest.mark.skipif(not KILLS, reason="takes minutes: KOORD_KILLS=50 says how many")
@pytest.mark.timeout(120 + TTL_S * KILLS)
async def test_whoever_is_killed_each_job_ends_and_nothing_is_lost_or_left(tmp_path: Path) -> None:
    data = tmp_path / "data"
    # A node that a pod was moved from is closed to its siblings for minutes: there are more nodes than moves.
    with up(data, "--nodes", str(REPLICAS + KILLS), "--descheduler", "off") as running, descheduler(data) as moving:

        def kill(number: int) -> None:
            whom = ("descheduler", "apiserver", "scheduler", "descheduler", "descheduler")[number % 5]
            if whom == "descheduler":
                moving.kill()
            else:
                os.kill(running.component(whom)["pid"], signal.SIGKILL)

        async with Client.from_config(str(data / "kubeconfig")) as client:
            await moves_go_on(client, KILLS, kill)


async def moves_go_on(client: Client, kills: int, kill: Callable[[int], None]) -> None:
    """Every third move is of the only replica of a Deployment that asks for its replacement first."""
    chance, outcomes = Random(kills), dict[str, str]()
    await deploy(client, "web", REPLICAS)
    await deploy(client, "single", 1)
    wish = {"metadata": {"annotations": {SCALE_FIRST.key: "true"}}}
    await client.patch(DEPLOYMENTS, "single", wish, namespace="default")
    for number in range(kills):
        app, replicas = ("single", 1) if number % 3 == 2 else ("web", REPLICAS)
        name, pod = f"move-{number}", chance.choice(await pods_of(client, app))
        uid = (await ask(client, pod, name, ttl=f"{TTL_S}s")).metadata.uid
        await asyncio.sleep(chance.uniform(0.0, 1.0))
        kill(number)
        await eventually(partial(is_over, client, name), TTL_S + 30)
        await eventually(partial(all_ready, client, app, replicas))
        # Here, since old jobs are forgotten.
        status = (await client.get(POD_MIGRATION_JOBS, name)).status
        assert status.reason != "Timeout", status
        outcomes[uid] = str(status.phase)
        log.info("%s ended: %s %s", name, status.phase, status.reason)
    moved = {uid for uid, phase in outcomes.items() if phase == "Succeeded"}
    assert len(moved) > kills // 2, outcomes
    single = await client.get(DEPLOYMENTS, "single", namespace="default")
    assert (single.spec.replicas, SCALED_FIRST.is_on(single.metadata)) == (1, False)
    left = {reservation.metadata.name for reservation in await client.list(RESERVATIONS)}
    assert left <= moved, "those of moves that came to their end, until the jobs are forgotten"


async def is_over(client: Client, name: str) -> bool:
    try:
        return (await client.get(POD_MIGRATION_JOBS, name)).is_over
    except ApiError:
        return False
