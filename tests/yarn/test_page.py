"""The commands of the page "Run Hadoop jobs on idle nodes" that set it up, as they stand there.

`koord install --with yarn` itself needs a cluster with nodes that run images; the others are run here. Those that need
Hadoop are run beside it: test_up_yarn.py and test_real_yarn.py.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml

from koord.api import kinds
from koord.cli.main import run as koord
from koord.kube.client import Client
from koord.yarn.live.run import read_clusters
from koord.yarn.nodes import node_facts
from tests.control_plane import find_binary
from tests.manager.live.managing import fresh, make_node
from tests.scheduler.live.embedded import serving

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "yarn"
PAGE = (ROOT / "docs" / "run-hadoop-jobs.md").read_text()


async def typed(line: str, folder: Path) -> str:
    kubectl = find_binary("kubectl")
    assert kubectl is not None
    path = os.pathsep.join([str(Path(sys.executable).parent), str(kubectl.parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(folder / "kubeconfig"), "HOME": str(folder)}
    process = await asyncio.create_subprocess_shell(
        line, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    return printed.decode()


async def data_of(client: Client) -> dict[str, str]:
    config_map = await client.get(kinds.CONFIG_MAPS, "hadoop-conf", namespace="koordinator-system")
    return dict(config_map.data)


@pytest.mark.kubectl
async def test_the_commands_that_set_it_up_do_what_the_page_says(tmp_path: Path) -> None:
    made, dry, label, annotate, *rest = [
        each
        for each in re.findall(r"`((?:kubectl|koord install) [^`]*)`", PAGE.replace("\n   ", ""))
        if each != "koord install --with yarn"
    ]
    assert rest == ["kubectl annotate node n1 yarn.hadoop.apache.org/node-id-"]
    conf = tmp_path / "conf"
    conf.mkdir()
    for name, text in yaml.safe_load((EXAMPLES / "hadoop-conf.yaml").read_text())["data"].items():
        (conf / name).write_text(text)
    async with serving(tmp_path) as client:
        await fresh(client)
        await make_node(client, "n1")
        await typed(f"kubectl apply -f {EXAMPLES}/hadoop-conf.yaml", tmp_path)
        applied = await data_of(client)
        await client.delete(kinds.CONFIG_MAPS, "hadoop-conf", namespace="koordinator-system")
        assert "--from-file=/etc/hadoop/conf" in made
        await typed(made.replace("/etc/hadoop/conf", str(conf)), tmp_path)
        assert await data_of(client) == applied
        assert read_clusters(str(conf))[""].managers[0].rpc == "rm.example.com:8032"
        assert "koord-yarn-copilot" in await typed(dry, tmp_path)
        await typed(label, tmp_path)
        await typed(f"kubectl apply -f {EXAMPLES}/node-manager.yaml", tmp_path)
        daemons = yaml.safe_load((EXAMPLES / "node-manager.yaml").read_text())
        node = await client.get(kinds.NODES, "n1")
        assert daemons["spec"]["template"]["spec"]["nodeSelector"].items() <= node.metadata.labels.items()
        await typed(annotate, tmp_path)
        declared = node_facts(await client.get(kinds.NODES, "n1")).declared
        assert declared is not None
        assert declared.node_id == "n1.example.com:8041"
        await typed(rest[0], tmp_path)
        assert node_facts(await client.get(kinds.NODES, "n1")).declared is None


def test_the_copilots_unit_gives_it_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    unit = (EXAMPLES / "koord-yarn-copilot.service").read_text()
    (line,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    program, *arguments = shlex.split(line)
    assert Path(program).name == "koord"
    assert koord([*arguments, "--help"]) == 0
    assert "Usage: koord yarn copilot" in capsys.readouterr().out
