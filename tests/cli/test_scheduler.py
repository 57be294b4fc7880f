"""`koord scheduler` as a user runs it: bad configurations, health, metrics, the end."""

from __future__ import annotations

import re
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.cli.test_main import koord
from tests.minicluster.hollow.embedded import Embedded, embedded
from tests.waiting import until

KIND = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Embedded]:
    with embedded() as running:
        yield running


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{KIND}profiles:\n- schedulerName: a\n- schedulerName: a\n", "profiles[1].schedulerName"),
        (f"{KIND}podMaxBackoffSeconds: 0\n", "podMaxBackoffSeconds"),
        (f"{KIND}extenders:\n- urlPrefix: http://x\n", "extenders are not supported"),
        (f"{KIND}profiles: [{{plugins: {{filter: {{enabled: [{{name: Nonsense}}]}}}}}}]\n", "Nonsense"),
        ("kind: Pod\napiVersion: v1\n", "kind"),
        ("a: [", "scheduler.yaml:2:1"),
    ],
    ids=["twice", "backoff", "extenders", "plugin", "another kind", "no YAML"],
)
def test_a_bad_configuration_is_told_with_its_place_and_nothing_runs(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(text)
    done = koord("scheduler", "--config", str(path), "--kubeconfig", str(tmp_path / "none"))
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_configuration_that_is_not_there_is_bad_usage(tmp_path: Path) -> None:
    done = koord("scheduler", "--config", str(tmp_path / "none.yaml"))
    assert done.returncode == 2
    assert "none.yaml" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--shard", "3/2"), "K from 1 to N"), (("--shard-label", "pool"), "--shard-label needs --shard K/N")],
)
def test_a_shard_that_is_none_is_bad_usage(options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = koord("scheduler", *options, "--kubeconfig", str(tmp_path / "none"))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_its_help_says_whose_pods_it_schedules() -> None:
    done = koord("scheduler", "--help")
    assert done.returncode == 0
    for word in ("--config", "--leader-elect", "--alone", "--metrics-address", "spec.schedulerName"):
        assert word in done.stdout


def test_it_answers_for_its_health_and_ends_when_told(server: Embedded, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-m", "koord", "scheduler", "--kubeconfig", str(server.kubeconfig)]
        arguments = ["--metrics-address", "127.0.0.1:0", "--enable-workload-auditor"]
        process = subprocess.Popen([*command, *arguments], stderr=log)
        try:
            address = _said(tmp_path / "log", r"address=(\S+)", process)
            _said(tmp_path / "log", r"(live.run: scheduling)", process)
            for path in ("/livez", "/readyz"):
                assert _get(f"http://{address}{path}")[0] == 200
            for path in ("/metrics", "/apis/v1/__services__", "/debug/flags/v"):
                assert _get(f"http://{address}{path}")[0] == 401
            token = (server.dir / "pki" / "token-admin").read_text().strip()
            status, text = _get(f"http://{address}/metrics", token)
            assert status == 200
            for name in (
                "scheduler_schedule_attempts_total",
                "scheduler_scheduling_attempt_duration_seconds",
                'scheduler_pending_pods{queue="active"} 0.0',
                "scheduler_queue_incoming_pods_total",
                "scheduler_preemption_victims",
                "scheduler_framework_extension_point_duration_seconds",
                "scheduler_workload_auditor_preemption_to_victim_deleted_seconds",
                "rest_client_requests_total",
            ):
                assert name in text
            assert _get(f"http://{address}/apis/v1/__services__", token)[0] == 200
            assert (
                _put(f"http://{address}/debug/flags/d", b"true", token) == "successfully set debugFilterFailure to true"
            )
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 0
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def test_it_serves_with_a_certificate(server: Embedded, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    own = authority.issue_cert("127.0.0.1")
    own.cert_chain_pems[0].write_to_path(str(tmp_path / "tls.crt"))
    own.private_key_pem.write_to_path(str(tmp_path / "tls.key"))
    files = ["--tls-cert-file", str(tmp_path / "tls.crt"), "--tls-private-key-file", str(tmp_path / "tls.key")]
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-m", "koord", "scheduler", "--kubeconfig", str(server.kubeconfig), *files]
        process = subprocess.Popen([*command, "--metrics-address", "127.0.0.1:0"], stderr=log)
        try:
            address = _said(tmp_path / "log", r"address=(\S+)", process)
            context = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
            with urllib.request.urlopen(f"https://{address}/livez", timeout=60, context=context) as answer:
                assert answer.status == 200
        finally:
            process.terminate()
            process.wait(timeout=60)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--metrics-address", "0.0.0.0:10259"), "--tls-cert-file"),
        (("--metrics-address", "127.0.0.1:0", "--tls-cert-file", __file__), "go together"),
        (
            ("--metrics-address", "127.0.0.1:0", "--tls-cert-file", __file__, "--tls-private-key-file", __file__),
            "cannot serve TLS",
        ),
        (("--metrics-address", "nowhere"), "nowhere"),
    ],
)
def test_an_address_that_others_can_reach_needs_a_certificate(
    arguments: tuple[str, ...], told: str, server: Embedded
) -> None:
    done = koord("scheduler", "--kubeconfig", str(server.kubeconfig), *arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def _said(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    def match() -> re.Match[str] | None:
        assert process.poll() is None, log.read_text()
        return re.search(pattern, log.read_text())

    said = until(match, what=log.read_text)
    assert said is not None
    return said.group(1)


def _get(url: str, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def _put(url: str, body: bytes, token: str) -> str:
    headers = {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, data=body, method="PUT", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(answer.read().decode())
