"""Groups of tests by what they need, and whether this machine has it.

Each group is a pytest marker. What is absent is skipped, with one line on how to get it; `KOORD_REQUIRE=root,kubectl`
turns an absent group into a failure of the run. `conftest.py` applies this.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

from tests.control_plane import APISERVER, find_binary, missing_binaries
from tests.yarn.real_hadoop import missing_yarn

Version = tuple[int, int]

OLDEST_KUBECTL: Version = (1, 28)
OLDEST_CLUSTER: Version = (1, 35)


def missing_root() -> str | None:
    return None if os.geteuid() == 0 else "run the tests as root"


def missing_kubectl(oldest: Version = OLDEST_KUBECTL) -> str | None:
    return _older("kubectl", oldest, "version", "--client")


def missing_browser() -> str | None:
    return None if shutil.which("chromium") else "apt-get install chromium"


def missing_guest() -> str | None:
    return None if shutil.which("qemu-system-x86_64") else "apt-get install qemu-system-x86"


def missing_cluster() -> str | None:
    absent = missing_binaries()
    if absent:
        return f"put {', '.join(absent)} where $KUBEBUILDER_ASSETS points, or on PATH"
    # Whoever names one wants to know how it does.
    return _older("kube-apiserver", OLDEST_CLUSTER, "--version") if APISERVER == "kube-apiserver" else None


def missing_gpu() -> str | None:
    return None if Path("/dev/nvidiactl").exists() else "run on a machine with an NVIDIA GPU"


def missing_runtime() -> str | None:
    if os.geteuid() != 0:
        return "run the tests as root"
    absent = [name for name in ("containerd", "runc", "ctr", "busybox") if not shutil.which(name)]
    return "apt-get install containerd runc busybox-static" if absent else None


def missing_prometheus() -> str | None:
    absent = [name for name in ("prometheus", "promtool") if not shutil.which(name)]
    return "apt-get install prometheus" if absent else None


def missing_npm() -> str | None:
    return None if shutil.which("npm") else "install Node.js with npm"


def missing_helm() -> str | None:
    return None if find_binary("helm") else "go install helm.sh/helm/v3/cmd/helm@latest, and put it on PATH"


@cache
def _older(name: str, oldest: Version, *asked: str) -> str | None:
    """How to get a binary that is absent, or older than tests need."""
    how = f"install {name} {oldest[0]}.{oldest[1]} or later"
    binary = find_binary(name)
    if binary is None:
        return how
    try:
        said = subprocess.run([binary, *asked], capture_output=True, text=True, timeout=60, check=True).stdout
    except (subprocess.SubprocessError, OSError):
        said = ""
    found = re.search(r"v(\d+)\.(\d+)", said)
    if found is None:
        return f"{how} ({binary} does not tell its version)"
    version = int(found[1]), int(found[2])
    return None if version >= oldest else f"{how} (found {version[0]}.{version[1]})"


GROUPS: dict[str, Callable[[], str | None]] = {
    "root": missing_root,
    "kubectl": missing_kubectl,
    "browser": missing_browser,
    "guest": missing_guest,
    "cluster": missing_cluster,
    "gpu": missing_gpu,
    "yarn": missing_yarn,
    "runtime": missing_runtime,
    "helm": missing_helm,
    "npm": missing_npm,
    "prometheus": missing_prometheus,
}
