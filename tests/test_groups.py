"""Tests that need a newer binary than the machine has are skipped with a line that says which."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from koord_bench import api_servers
from tests import groups


@pytest.fixture
def assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    groups._older.cache_clear()
    yield tmp_path
    groups._older.cache_clear()


def install(folder: Path, name: str, says: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\necho '{says}'\n")
    (folder / name).chmod(0o755)


def test_an_old_kubectl_serves_the_tests_that_it_can(assets: Path) -> None:
    install(assets, "kubectl", "Client Version: v1.32.4-dispatcher")
    assert groups.missing_kubectl() is None
    assert groups.missing_kubectl(oldest=(1, 35)) == "install kubectl 1.35 or later (found 1.32)"


def test_a_kubectl_that_tells_no_version_is_named(assets: Path) -> None:
    install(assets, "kubectl", "hello")
    assert groups.missing_kubectl() == f"install kubectl 1.28 or later ({assets}/kubectl does not tell its version)"


@pytest.mark.parametrize(
    ("version", "missing"), [("v1.35.8", None), ("v1.34.1", "install kube-apiserver 1.35 or later (found 1.34)")]
)
def test_the_real_server_must_be_as_new_as_what_was_recorded_of_it(
    assets: Path, version: str, missing: str | None
) -> None:
    install(assets, "kube-apiserver", f"Kubernetes {version}")
    install(assets, "etcd", "etcd Version: 3.6.1")
    assert groups.missing_cluster() == missing
    assert api_servers.versions("kube-apiserver", "etcd") == f"kube-apiserver {version}, etcd 3.6.1"
