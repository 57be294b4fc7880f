"""`koord status` on a cluster that koord did not start."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.control_plane import ControlPlane

pytestmark = pytest.mark.cluster


def status(plane: ControlPlane, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "koord", "status", "--kubeconfig", str(plane.kubeconfig), *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )


def test_a_cluster_without_koord_says_what_is_missing(own_control_plane: ControlPlane) -> None:
    done = status(own_control_plane, "-o", "json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["server"]["reachable"]
    assert told["server"]["version"].startswith("v1.")
    assert all(check["ok"] for check in told["server"]["checks"])
    assert any(check["name"] == "etcd" for check in told["server"]["checks"])
    assert "reservations.scheduling.koordinator.sh" in " ".join(told["missingKinds"])
    failed = {check["name"]: check["problems"] for check in told["checks"] if not check["ok"]}
    assert set(failed) == {"kinds", "namespace", "priority classes", "webhooks", "nodes"}
    assert "koord crds | kubectl apply" in failed["kinds"][0]["how"]


def test_a_server_that_is_gone_is_told_in_a_sentence(own_control_plane: ControlPlane) -> None:
    own_control_plane.stop_apiserver(kill=True)
    done = status(own_control_plane)
    assert done.returncode == 1
    assert "does not answer" in done.stdout
    assert "fix: " in done.stdout
    assert "Traceback" not in done.stderr
