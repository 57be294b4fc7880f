"""Groups of tests by what they need, and whether this machine has it.

Each group is a pytest marker. What is absent is skipped, with one line on how to get it; `KOORD_REQUIRE=root,kubectl`
turns an absent group into a failure of the run. `conftest.py` applies this.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.control_plane import find_binary, missing_binaries

OLDEST_KUBECTL = (1, 28)


def missing_root() -> str | None:
    return None if os.geteuid() == 0 else "run the tests as root"


@cache
def missing_kubectl() -> str | None:
    how = f"install kubectl {OLDEST_KUBECTL[0]}.{OLDEST_KUBECTL[1]} or later"
    binary = find_binary("kubectl")
    if binary is None:
        return how
    try:
        done = subprocess.run(
            [binary, "version", "--client", "-o", "json"], capture_output=True, timeout=20, check=True
        )
        version = json.loads(done.stdout)["clientVersion"]
        found = (int(version["major"]), int(version["minor"].rstrip("+")))
    except (subprocess.SubprocessError, ValueError, KeyError):
        return f"{how} ({binary} does not tell its version)"
    return None if found >= OLDEST_KUBECTL else f"{how} (found {found[0]}.{found[1]})"


def missing_browser() -> str | None:
    return None if shutil.which("chromium") else "apt-get install chromium"


def missing_guest() -> str | None:
    return None if shutil.which("qemu-system-x86_64") else "apt-get install qemu-system-x86"


def missing_cluster() -> str | None:
    absent = missing_binaries()
    return f"put {', '.join(absent)} where $KUBEBUILDER_ASSETS points, or on PATH" if absent else None


def missing_gpu() -> str | None:
    return None if Path("/dev/nvidiactl").exists() else "run on a machine with an NVIDIA GPU"


GROUPS: dict[str, Callable[[], str | None]] = {
    "root": missing_root,
    "kubectl": missing_kubectl,
    "browser": missing_browser,
    "guest": missing_guest,
    "cluster": missing_cluster,
    "gpu": missing_gpu,
}
