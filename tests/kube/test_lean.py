"""The HTTP client without the machine's certificate authorities, which others still find."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
import os, sys
before = dict(os.environ)
__import__(sys.argv[1])
from aiohttp.connector import _SSL_CONTEXT_VERIFIED as shared
print(len(shared.get_ca_certs()), shared.verify_mode.name, dict(os.environ) == before)
"""


@pytest.mark.parametrize("module", ["koord.kube.lean", "koord.kube.client"])
def test_the_clients_own_context_trusts_nobody_and_the_environment_is_as_it_was(module: str) -> None:
    environ = {**os.environ, "SSL_CERT_FILE": "/etc/some.pem"}
    command = [sys.executable, "-P", "-c", CODE, module]
    process = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert process.stdout.split() == ["0", "CERT_REQUIRED", "True"], process.stderr
