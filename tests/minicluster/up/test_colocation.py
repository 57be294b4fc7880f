"""The switch under `koord up`: with the manager there, and with the manager killed a moment before."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.minicluster.up.test_end_to_end import BATCH_POD, koord, kubectl, up
from tests.waiting import until

pytestmark = pytest.mark.kubectl

LENT = "jsonpath={.items[*].status.allocatable.kubernetes\\.io/batch-cpu}"


@pytest.mark.parametrize("manager", ["is there", "was killed"])
def test_off_takes_back_what_is_lent_and_evicts_if_asked(tmp_path: Path, manager: str) -> None:
    data = tmp_path / "data"
    where = ("--kubeconfig", str(data / "kubeconfig"))
    with up(data, "--nodes", "2") as running:
        until(lambda: len(kubectl(data, "get", "nodes", "-o", LENT).split()) == 2)
        (tmp_path / "pod.yaml").write_text(BATCH_POD)
        kubectl(data, "apply", "-f", str(tmp_path / "pod.yaml"))
        kubectl(data, "wait", "--for=condition=Ready", "pod/job", "--timeout=60s")
        if manager == "was killed":
            os.kill(running.component("manager")["pid"], signal.SIGKILL)
        done = koord("colocation", "off", "--evict", "--yes", "-o", "json", *where)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["evicted"] == ["default/job"]
        assert all(node["lends"] == {} and not node["on"] for node in told["nodes"].values())
        assert kubectl(data, "get", "nodes", "-o", LENT) == ""
        until(lambda: kubectl(data, "get", "pods", "-o", "name") == "")
        # The supervisor brings the manager back; it finds the switch where it was left. Pods are admitted by it.
        until(lambda: kubectl(data, "apply", "-f", str(tmp_path / "pod.yaml"), check=False) != "")
        said = "jsonpath={.status.conditions[?(@.type=='PodScheduled')].message}"
        until(lambda: "Insufficient kubernetes.io/batch-cpu" in kubectl(data, "get", "pod", "job", "-o", said))
        assert kubectl(data, "get", "nodes", "-o", LENT) == ""
        assert koord("colocation", "on", *where).returncode == 0
        kubectl(data, "wait", "--for=condition=Ready", "pod/job", "--timeout=60s")
