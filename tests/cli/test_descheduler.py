"""`koord descheduler` from its command line: configurations that cannot be meant, and those that change."""

from __future__ import annotations

from pathlib import Path

import pytest

from koord.cli.main import run
from koord.kube import reload
from tests.descheduler.live.cluster import configured, descheduling
from tests.scheduler.live.embedded import serving
from tests.waiting import eventually


def test_every_fault_of_a_configuration_is_named_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "faulty.yaml"
    file.write_text(
        """
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
deschedulingInterval: soon
profiles:
- name: p
  plugins: {balance: {enabled: [{name: LowNodeLoad}, {name: MakeItGood}]}}
  pluginConfig:
  - name: LowNodeLoad
    args: {lowThresholds: {cpu: 80}, highThresholds: {cpu: 60}}
  - name: MigrationController
    args: {evictQPS: -1, maxMigratingPerNode: many}
"""
    )
    assert run(["descheduler", "--config", str(file)]) == 2
    said = capsys.readouterr().err
    for each in ("deschedulingInterval", "lowThresholds.cpu", "evictQPS", "maxMigratingPerNode"):
        assert each in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--feature-gates", "Nonsense=true"), "Nonsense"),
        (("--plugin", "nowhere.py:Nothing"), "nowhere.py:Nothing"),
        (("--config", "examples/scheduler/config.yaml"), "must be DeschedulerConfiguration"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["descheduler", *words]) == 2
    assert told in capsys.readouterr().err


async def test_a_running_one_keeps_the_last_valid_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from koord_minicluster.up.bootstrap import bootstrap

    monkeypatch.setattr(reload, "LOOK_EVERY_S", 0.05)
    caplog.set_level("INFO")
    said = {"text": "deschedulingInterval: 0s\nprofiles: [{name: p}]"}

    async def told(words: str) -> bool:
        return any(words in record.message for record in caplog.records)

    async with serving(tmp_path) as client:
        await bootstrap(client)
        async with descheduling(client, said["text"], reload=lambda: configured(said["text"])):
            said["text"] = "deschedulingInterval: never"
            await eventually(lambda: told("the configuration stays unchanged"))
            assert not await told("takes effect")
            said["text"] = "deschedulingInterval: 200ms\nprofiles: [{name: other}]"
            await eventually(lambda: told("the configuration has changed, and takes effect"))
