"""`koord bench`, as a user runs it: what it says beside its figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from koord.cli.main import run
from koord_bench import api_servers
from koord_bench.harness import Result


@pytest.fixture
def _nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(api_servers, "ASSETS", str(tmp_path))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    figure = Result("apiserver", "create", "pods", 1.0, "pods/s")
    monkeypatch.setattr("koord_bench.apiserver.run", lambda quick, progress: [figure])


@pytest.mark.usefixtures("_nothing_installed")
@pytest.mark.parametrize("output", ["table", "json"])
def test_a_figure_without_a_baseline_comes_with_the_reason(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "apiserver", "-o", output]) == 0
    captured = capsys.readouterr()
    assert (
        "note: apiserver has no baseline from kube-apiserver, etcd: not found where $KUBEBUILDER_ASSETS" in captured.err
    )
    assert "note" not in captured.out


def test_what_takes_long_is_said_before(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("koord_bench.colocation.run", lambda quick, progress, options: [])
    monkeypatch.setattr("koord_bench.colocation_table.table", lambda results: "")
    assert run(["bench", "colocation"]) == 0
    assert "colocation takes about 18 minutes" in capsys.readouterr().err
    assert run(["bench", "colocation", "--quick"]) == 0
    assert not capsys.readouterr().err
