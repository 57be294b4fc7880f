"""The servers that the API benchmark compares: the embedded one, and kube-apiserver with etcd where they are installed.

Each runs in processes of its own on loopback with TLS, RBAC and durable storage, in a directory that goes with it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from koord.kube.cluster_config import ClusterConfig
from koord.kube.kubeconfig import parse, resolve
from koord.kube.program import own_program
from koord_bench.children import start_child
from koord_minicluster.apiserver import certs

READY_WITHIN_S = 60.0
ASSETS = "/usr/local/kubebuilder/bin"
MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that answers."""

    config: ClusterConfig
    start_s: float
    "From the start of its first process until it said that it was ready."
    processes: tuple[subprocess.Popen[bytes], ...]
    kubeconfig: Path
    "An administrator's."

    def rss_mb(self) -> float:
        return sum(rss_mb(process.pid) for process in self.processes)

    def cpu_s(self) -> float:
        """What its processes have used, all threads."""
        return sum(cpu_s(process.pid) for process in self.processes)


def find_binary(name: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Where a binary of the real control plane is, or None."""
    for folder in (environ.get("KUBEBUILDER_ASSETS"), ASSETS):
        if folder and os.access(path := Path(folder, name), os.X_OK):
            return path
    found = shutil.which(name)
    return Path(found) if found else None


def versions(*names: str) -> str:
    """What is installed of these, as in `kube-apiserver v1.35.0, etcd 3.6.1`."""
    return ", ".join(_version(name, binary) for name in names if (binary := find_binary(name)))


def _version(name: str, binary: Path) -> str:
    said = subprocess.run([str(binary), "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    found = re.search(r"v?\d+\.\d+\.\d+\S*", said)
    return f"{name} {found.group() if found else 'of unknown version'}"


@contextmanager
def embedded() -> Iterator[RunningServer]:
    with _directory() as directory, (directory / "log").open("wb") as log:
        started = time.perf_counter()
        command = [*own_program(), "apiserver", "--data-dir", str(directory / "data")]
        process = start_child(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        with ended(process):
            kubeconfig = directory / "data" / "kubeconfig"
            _until(lambda: kubeconfig.exists(), process, directory / "log")
            config = resolve(parse(kubeconfig.read_text(), str(kubeconfig)))
            _until(lambda: _ready(config), process, directory / "log")
            yield RunningServer(config, time.perf_counter() - started, (process,), kubeconfig)


@contextmanager
def real() -> Iterator[RunningServer | None]:
    """etcd with its normal durability and kube-apiserver; None where they are not installed."""
    etcd, apiserver = find_binary("etcd"), find_binary("kube-apiserver")
    if etcd is None or apiserver is None:
        yield None
        return
    with _directory() as directory, (directory / "log").open("wb") as log:
        ports = free_ports(3)
        url = f"https://127.0.0.1:{ports[2]}"
        kubeconfig = _credentials(directory, url)

        def start(*command: str) -> subprocess.Popen[bytes]:
            return start_child(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=directory)

        started = time.perf_counter()
        client, peer = f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"
        storage = start(
            str(etcd),
            "--name=default",
            f"--data-dir={directory}/etcd",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=error",
        )
        with ended(storage):
            server = start(
                str(apiserver),
                f"--etcd-servers={client}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                f"--secure-port={ports[2]}",
                f"--cert-dir={directory}",
                f"--client-ca-file={directory}/ca.crt",
                f"--tls-cert-file={directory}/apiserver.crt",
                f"--tls-private-key-file={directory}/apiserver.key",
                f"--service-account-issuer={url}",
                f"--service-account-key-file={directory}/sa.pub",
                f"--service-account-signing-key-file={directory}/sa.key",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--authorization-mode=RBAC",
                # Without a controller manager no namespace gets its service account.
                "--disable-admission-plugins=ServiceAccount",
            )
            with ended(server):
                config = resolve(parse(kubeconfig.read_text(), str(kubeconfig)))
                _until(lambda: _ready(config), server, directory / "log")
                yield RunningServer(config, time.perf_counter() - started, (server, storage), kubeconfig)


def _credentials(directory: Path, url: str) -> Path:
    """Everything that the real server reads at its start; gives an administrator's kubeconfig."""
    authority = certs.Authority.open(directory)
    authority.server()
    signing = certs.signing_key(directory)
    certs.write_private(
        directory / "sa.key",
        signing.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        ),
    )
    (directory / "sa.pub").write_bytes(
        signing.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    kubeconfig = directory / "kubeconfig"
    admin = authority.client("admin", [MASTERS])
    certs.kubeconfig(kubeconfig, url, authority.pem, "admin", credential=admin)
    return kubeconfig


@contextmanager
def _directory() -> Iterator[Path]:
    """On disk where possible: in memory, durability would cost nothing."""
    with tempfile.TemporaryDirectory(prefix="koord-bench-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)


def _until(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{process.args!r} does not serve:\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.02)


def _ready(config: ClusterConfig) -> bool:
    context = ssl.create_default_context(cadata=config.ca_data.decode())
    try:
        with urllib.request.urlopen(f"{config.server}/readyz", context=context, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _status_kb(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise LookupError(field)


def rss_mb(pid: int) -> float:
    """What a process has of memory now."""
    return _status_kb(pid, "VmRSS") / 1024


def cpu_s(pid: int) -> float:
    """Finer than the ticks of /proc/PID/stat; threads that ended are not in it, and these servers keep theirs."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
