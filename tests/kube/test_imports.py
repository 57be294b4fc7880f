"""The wire is part of the node agent, which is a tax on every node: it must stay light to import."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numpy", "rich", "grpc", "cryptography", "yaml", "click", "prometheus_client")


@pytest.mark.parametrize("module", ["koord.kube.client", "koord.kube.locate", "koord.kube.exec_plugin"])
def test_the_client_imports_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []
