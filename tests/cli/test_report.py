"""`koord report`: a Prometheus that cannot answer has its own words for each failure; what right-sizing would save."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from koord.api.kinds import PODS, RECOMMENDATIONS
from koord.cli.main import run as koord
from koord_minicluster.up.bootstrap import bootstrap
from tests.control_plane import free_port
from tests.scheduler.live.embedded import serving

Answer = Callable[[], tuple[int, object]]


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """A server with the same answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, body = answer()
            text = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def series(*points: tuple[float, float], **labels: str) -> dict[str, object]:
    return {"metric": labels, "values": [[time_s, str(value)] for time_s, value in points]}


def matrix(*found: object) -> dict[str, object]:
    return {"status": "success", "data": {"resultType": "matrix", "result": list(found)}}


def recently() -> tuple[int, object]:
    return 200, matrix(series((time.time() - 3690, 4.0), (time.time(), 4.0), resource="kubernetes.io/batch-cpu"))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda: (403, b"no"), "refuses (403 Forbidden): you have no right to read it; --prometheus-token-file"),
        (lambda: (401, b"no"), "refuses (401 Unauthorized)"),
        (lambda: (404, b"<html>"), "does not answer as Prometheus does (404 Not Found): is the URL right?"),
        (lambda: (200, b"<html>"), "does not answer as Prometheus does: is the URL right?"),
        (lambda: (422, {"status": "error", "error": "query timed out"}), "query timed out"),
        (lambda: (200, matrix()), "has no figures of koord in this time: is koord-manager scraped?"),
        (recently, "only since"),
    ],
)
def test_a_prometheus_that_cannot_answer_is_told_by_its_reason(
    answer: Answer, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(answer) as url:
        assert koord(["report", "--since", "7d", "--prometheus", url]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert url in err


def test_a_short_history_says_which_time_would_do(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(recently) as url:
        assert koord(["report", "--prometheus", url]) == 2
        assert "use --since 1h1m" in capsys.readouterr().err
        assert koord(["report", "--prometheus", url, "--since", "1h"]) == 0


def test_a_prometheus_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert koord(["report", "--prometheus", f"http://127.0.0.1:{free_port()}"]) == 2
    assert "cannot be reached: [Errno 111] Connection refused; without --prometheus" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--since", "soon"], "--since 'soon': must be numbers with w, d, h, m or s"),
        (["--prometheus", "localhost:9090"], "must be a URL, as in http://prometheus.monitoring:9090"),
        (["--node-cpu", "0"], "--node-cpu"),
    ],
)
def test_what_means_nothing_is_refused(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert koord(["report", *arguments]) == 2
    assert says in capsys.readouterr().err


def recommended(name: str, cpu: str, memory: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """A pod, a Recommendation for it, and that one's status."""
    resources = {"requests": {"cpu": "4", "memory": "8Gi"}}
    meta = {"name": name, "namespace": "default", "labels": {"app": name}}
    pod = {"metadata": meta, "spec": {"containers": [{"name": "main", "image": "web", "resources": resources}]}}
    target = {"type": "podSelector", "podSelector": {"matchLabels": {"app": name}}}
    wanted = {"containerName": "main", "resources": {"cpu": cpu, "memory": memory}}
    status = {"status": {"podStatus": {"containerStatuses": [wanted]}}}
    return pod, {"metadata": {"name": name, "namespace": "default"}, "spec": {"target": target}}, status


async def test_a_report_says_what_right_sizing_would_save(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with serving(tmp_path) as client:
        await bootstrap(client)
        for name, cpu, memory in (("web", "1", "2Gi"), ("small", "6", "8Gi"), ("right", "4", "8Gi")):
            pod, recommendation, status = recommended(name, cpu, memory)
            await client.create(PODS, pod)
            await client.create(RECOMMENDATIONS, recommendation)
            await client.patch(RECOMMENDATIONS, name, status, namespace="default", subresource="status")
        where = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--node-cpu", "4", "--node-memory", "4")
        assert await asyncio.to_thread(koord, ["report", "--since", "1h", "-o", "json", *where]) == 0
        told = json.loads(capsys.readouterr().out)["rightSizing"]
        # 3 cores and 6 GiB less, and 2 cores more: a quarter of a node by CPU, which is the scarcer of the two.
        assert told["total"] == {"cores": 1.0, "gib": 6.0, "nodes": 0.25}
        assert [workload["workload"] for workload in told["workloads"]] == [
            "default/selector of web",
            "default/selector of small",
        ]
        assert sum(workload["nodes"] for workload in told["workloads"]) == told["total"]["nodes"]
        assert await asyncio.to_thread(koord, ["report", "--since", "1h", *where]) == 0
        assert "RIGHT-SIZING WOULD SAVE" in capsys.readouterr().out
        # Figures of Prometheus, and Recommendations of the cluster.
        with answering(recently) as url:
            line = ["report", "--prometheus", url, "--since", "1h", "-o", "html", *where]
            assert await asyncio.to_thread(koord, line) == 0
        assert "What right-sizing would save" in capsys.readouterr().out


def test_a_report_from_prometheus_needs_no_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with answering(recently) as url:
        line = ["report", "--prometheus", url, "--since", "1h", "--kubeconfig", str(tmp_path / "none")]
        assert koord(line) == 0
    said = capsys.readouterr()
    assert "RIGHT-SIZING" not in said.out
    assert "what right-sizing would save is not known, since the cluster cannot be asked" in said.err
