"""Cgroups that systemd makes: slices for pods and scopes for containers, as kubelet and a runtime ask it to.

Only where a machine is the test's own and systemd its first process, as in a guest: slices have their places below the
root, so the whole machine is the node. Whoever writes beside systemd is corrected by it when it next looks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tests.waiting import until

IN_USE = os.environ.get("KOORD_TEST_CGROUPS") == "systemd"
PODS = "kubepods.slice"
WITHIN_S = 60.0
_SETTINGS = Path("/run/systemd/system.control")
"""Where systemd keeps what it was told at run time."""


def systemctl(*words: str) -> str:
    done = subprocess.run(
        ["systemctl", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert done.returncode == 0, f"systemctl {' '.join(words)}: {done.stderr}"
    return done.stdout.strip()


def start(path: Path) -> None:
    """The unit whose directory this is."""
    name, above = path.name, path.parent.name
    if name.endswith(".slice"):
        systemctl("start", name)
    else:
        # Its first process holds it; systemd ends a scope without any.
        command = ["systemd-run", "--quiet", "--scope", f"--slice={above}", f"--unit={name}", "--property=Delegate=yes"]
        _holding.append(subprocess.Popen([*command, "sleep", "3600"], stdin=subprocess.DEVNULL))
    _until(path, exists=True)


def stop(path: Path) -> None:
    """With all that is below, and runs there."""
    systemctl("stop", path.name)
    _until(path, exists=False)
    _holding[:] = [process for process in _holding if process.poll() is None]


def stop_all(path: Path) -> None:
    """Pods, and what was ever said of them."""
    stop(path)
    shutil.rmtree(_SETTINGS, ignore_errors=True)
    systemctl("daemon-reload")


def tell(directory: str, *properties: str) -> None:
    """As kubelet tells it limits; systemd writes them, now and whenever it writes."""
    systemctl("set-property", "--runtime", Path(directory).name or PODS, *properties)


def cpu_quota(milli: int) -> str:
    return f"CPUQuota={milli / 10:g}%"


def _until(path: Path, *, exists: bool) -> None:
    until(lambda: path.exists() == exists, WITHIN_S, what=f"{path} is {'there' if exists else 'gone'}")


_holding: list[subprocess.Popen[bytes]] = []
