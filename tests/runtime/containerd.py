"""A real containerd of the test's own: its own root, state and socket, two images made here, and cgroups below one
directory that goes with it."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import grpc

from tests.control_plane import find_binary
from tests.waiting import until

CONFIG = """
version = 2
root = "{folder}/root"
state = "{folder}/run"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{folder}/cni-bin"
    conf_dir = "{folder}/cni"
"""
NEWER = """
version = 3
root = "{folder}/root"
state = "{folder}/run"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  socket_path = "{folder}/nri.sock"
  plugin_path = "{folder}/nri-plugins"
  plugin_config_path = "{folder}/nri-conf"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "localhost/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true
  cdi_spec_dirs = ["{folder}/cdi"]
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{folder}/cni-bin"]
    conf_dir = "{folder}/cni"
"""
"""Of containerd 2, which has NRI."""
BETWEEN = CONFIG.replace(
    '[plugins."io.containerd.grpc.v1.cri"]\n',
    """[plugins."io.containerd.nri.v1.nri"]
  disable = false
  socket_path = "{folder}/nri.sock"
  plugin_path = "{folder}/nri-plugins"
  plugin_config_path = "{folder}/nri-conf"
[plugins."io.containerd.grpc.v1.cri"]
  enable_cdi = true
  cdi_spec_dirs = ["{folder}/cdi"]
""",
)
"""Of containerd 1.7, which has NRI and CDI if they are switched on."""

PAUSE, BUSYBOX = "localhost/pause:1", "localhost/busybox:1"
WITHIN_S = 30.0
CONTROLLERS = Path("/sys/fs/cgroup")


@dataclass(slots=True)
class Containerd:
    folder: Path
    parent: str
    "The cgroup below which pods lie."
    command: Sequence[str]
    env: Mapping[str, str]
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begins, or begins again: containers live on without it."""
        with (self.folder / "containerd.log").open("ab") as log:
            self._process = subprocess.Popen(self.command, stdout=log, stderr=log, start_new_session=True, env=self.env)
        _until_served(self.socket, self._process)

    def stop(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(60)
            self._process.kill()
            self._process.wait()

    @property
    def socket(self) -> Path:
        return self.folder / "containerd.sock"

    @property
    def nri(self) -> Path:
        return self.folder / "nri.sock"


def newer_containerd() -> Path | None:
    """One with NRI, where there is one: by $KOORD_CONTAINERD, or beside the control plane's binaries."""
    found = Path(os.environ.get("KOORD_CONTAINERD") or find_binary("containerd") or "")
    return found if found.is_absolute() and found.parent != Path("/usr/bin") else None


@cache
def _is_of_one(binary: Path) -> bool:
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    return re.search(r" v?1\.", said) is not None


@contextmanager
def containerd(folder: Path, newer: Path | None = None, within: Sequence[str] = ()) -> Iterator[Containerd]:
    """Debian's, which has no NRI; or a newer one by its path. `within`: what to start it by."""
    config = CONFIG if newer is None else BETWEEN if _is_of_one(newer) else NEWER
    (folder / "config.toml").write_text(config.format(folder=folder))
    parent = f"/koord-test-{uuid.uuid4().hex[:8]}"
    command = [*within, str(newer or "containerd"), "-c", str(folder / "config.toml")]
    # The shim lies beside it.
    env = {**os.environ, "PATH": f"{newer.parent if newer else ''}:{os.environ['PATH']}"}
    found = Containerd(folder, parent, command, env)
    try:
        found.start()
        for name, run in ((PAUSE, ["/bin/sleep", "100000"]), (BUSYBOX, ["/bin/sh"])):
            image = folder / "image.tar"
            image.write_bytes(_image(name, run))
            _ctr(folder, "images", "import", str(image))
        yield found
    finally:
        _end_all(folder)
        found.stop(signal.SIGTERM)
        _remove_cgroups(parent)
        _unmount(folder)


def _ctr(folder: Path, *command: str) -> str:
    run = ["ctr", "-a", str(folder / "containerd.sock"), "-n", "k8s.io", *command]
    return subprocess.run(run, capture_output=True, text=True, timeout=60, check=True).stdout


def _until_served(socket: Path, process: subprocess.Popen[bytes]) -> None:
    with grpc.insecure_channel(f"unix:{socket}") as channel:

        def answers() -> bool:
            assert process.poll() is None, (socket.parent / "containerd.log").read_text()[-2000:]
            ask: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/runtime.v1.RuntimeService/Version")
            ask(b"", timeout=1)
            return True

        until(answers, WITHIN_S, what="containerd answers", retry_on=grpc.RpcError)


def _image(name: str, command: list[str]) -> bytes:
    """An OCI layout with one layer: a static busybox and links to it."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        binary = Path(shutil.which("busybox") or "").resolve()
        tar.add(binary, "bin/busybox", filter=_plain)
        for link in ("sh", "sleep", "cat", "env", "ls", "grep"):
            entry = tarfile.TarInfo(f"bin/{link}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
        for directory in ("proc", "sys", "dev", "tmp", "etc"):
            entry = tarfile.TarInfo(directory)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
    blobs: dict[str, bytes] = {}

    def blob(data: bytes, media: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(data)}

    kind = "application/vnd.oci.image"
    rootfs = blob(layer.getvalue(), f"{kind}.layer.v1.tar")
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": command, "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [rootfs["digest"]]},
    }
    about = blob(json.dumps(config).encode(), f"{kind}.config.v1+json")
    manifest = blob(
        json.dumps({"schemaVersion": 2, "config": about, "layers": [rootfs]}).encode(), f"{kind}.manifest.v1+json"
    )
    index = {"schemaVersion": 2, "manifests": [{**manifest, "annotations": {"io.containerd.image.name": name}}]}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, data in (
            ("oci-layout", b'{"imageLayoutVersion":"1.0.0"}'),
            ("index.json", json.dumps(index).encode()),
            *((f"blobs/sha256/{digest}", data) for digest, data in blobs.items()),
        ):
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mode, entry.uid, entry.gid = 0o755, 0, 0
    return entry


def _end_all(folder: Path) -> None:
    """The processes of containers that a test left, by the pids that containerd gives, and their shims."""
    with suppress(subprocess.SubprocessError, OSError):
        for line in _ctr(folder, "tasks", "ls").splitlines()[1:]:
            pid = line.split()[1]
            with suppress(ProcessLookupError, ValueError):
                if int(pid) > 1:
                    os.kill(int(pid), signal.SIGKILL)
        for name in _ctr(folder, "containers", "ls", "-q").split():
            for what in ("tasks", "rm", "-f", name), ("containers", "rm", name):
                with suppress(subprocess.CalledProcessError):
                    _ctr(folder, *what)
    for shim in _shims(folder):
        with suppress(ProcessLookupError):
            os.kill(shim, signal.SIGKILL)


def _shims(folder: Path) -> Iterator[int]:
    """Of this containerd: they name its socket, and outlive it."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = entry.read_bytes().split(b"\0")
            if b"containerd-shim" in words[0] and os.fsencode(folder / "containerd.sock") in words:
                yield int(entry.parent.name)


def _remove_cgroups(parent: str) -> None:
    for root in CONTROLLERS.glob(f"*{parent}"):
        for directory in sorted((path for path in root.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts)):
            with suppress(OSError):
                directory.rmdir()
        with suppress(OSError):
            root.rmdir()


def _unmount(folder: Path) -> None:
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for mount in sorted((mount for mount in mounts if mount.startswith(f"{folder}/")), key=len, reverse=True):
        subprocess.run(["umount", "-l", mount], check=False, capture_output=True, timeout=60)
