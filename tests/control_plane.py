"""A real control plane for tests: etcd and kube-apiserver on loopback, with temporary certificates.

The binaries are found as the ecosystem's test tools find them: $KUBEBUILDER_ASSETS, else /usr/local/kubebuilder/bin,
else PATH. $KOORD_APISERVER names another kube-apiserver, of an older version perhaps. `ControlPlane` is a context
manager; what it started is stopped, and its directory removed, at the end.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from koord.operate.install.versions import read as read_version
from tests.waiting import until

READY_WITHIN_S = 90.0
APISERVER = os.environ.get("KOORD_APISERVER", "kube-apiserver")
_NAMED = read_version(APISERVER.rpartition("-")[2])
STREAMS_LISTS = _NAMED is None or _NAMED >= (1, 34)
REQUIRED_BINARIES = ("etcd", APISERVER)


def _folders() -> list[Path]:
    return [Path(each) for each in (os.environ.get("KUBEBUILDER_ASSETS"), "/usr/local/kubebuilder/bin") if each]


def find_binaries(pattern: str) -> list[str]:
    """Names of those that match it, in the folders for binaries."""
    return sorted({path.name for folder in _folders() for path in folder.glob(pattern) if os.access(path, os.X_OK)})


def find_binary(name: str) -> Path | None:
    """Where a control plane binary is, or None."""
    for folder in _folders():
        if os.access(path := folder / name, os.X_OK):
            return path
    found = shutil.which(name)
    return Path(found) if found else None


def missing_binaries() -> list[str]:
    return [name for name in REQUIRED_BINARIES if find_binary(name) is None]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ControlPlane:
    """etcd + kube-apiserver. `kubeconfig` is an administrator's; `kubectl(...)` runs against it."""

    def __init__(
        self, *apiserver_flags: str, etcd: str = "etcd", apiserver: str = APISERVER, within: Sequence[str] = ()
    ) -> None:
        """`etcd` and `apiserver` name the binaries. `within`: what to start all by, a network namespace perhaps."""
        self.dir = Path(tempfile.mkdtemp(prefix="koord-control-plane-"))
        self.etcd_port, self.etcd_peer_port, self.port = free_port(), free_port(), free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.kubeconfig = self.dir / "kubeconfig"
        self._apiserver_flags, self._within = apiserver_flags, within
        self._etcd_binary, self._apiserver_binary = etcd, apiserver
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> ControlPlane:
        try:
            self._write_certificates()
            self._start_etcd()
            self.start_apiserver()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        for name in ("kube-apiserver", "etcd"):
            self._end(name, signal.SIGKILL)
        shutil.rmtree(self.dir, ignore_errors=True)

    def start_apiserver(self) -> None:
        """Start the API server and wait until it is ready."""
        self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={self.dir}",
            f"--client-ca-file={self.dir}/ca.crt",
            f"--kubelet-client-certificate={self.dir}/admin.crt",
            f"--kubelet-client-key={self.dir}/admin.key",
            f"--tls-cert-file={self.dir}/server.crt",
            f"--tls-private-key-file={self.dir}/server.key",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.dir}/sa.pub",
            f"--service-account-signing-key-file={self.dir}/sa.key",
            f"--token-auth-file={self.dir}/tokens.csv",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
            *self._apiserver_flags,
            binary=self._apiserver_binary,
        )
        self._wait_until_ready()

    def stop_apiserver(self, *, kill: bool = False) -> None:
        """End the API server, gently or with SIGKILL; etcd keeps what it has."""
        self._end("kube-apiserver", signal.SIGKILL if kill else signal.SIGTERM)

    def compact_etcd(self) -> None:
        """Drop all history before the present revision, so that old resource versions answer 410."""
        status = self._etcd("/v3/maintenance/status", {})
        header = status["header"]
        assert isinstance(header, dict)
        self._etcd("/v3/kv/compaction", {"revision": header["revision"], "physical": True})

    def lose_etcd(self) -> None:
        """Replace the storage by an empty one, as after a disaster without a backup. The API server must be down."""
        self._end("etcd", signal.SIGKILL)
        shutil.rmtree(self.dir / "etcd")
        self._start_etcd()

    def kubectl(
        self, *args: str, stdin: str | None = None, check: bool = True, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        binary = find_binary("kubectl")
        assert binary, "no kubectl"
        done = subprocess.run(
            [*self._within, str(binary), "--kubeconfig", str(self.kubeconfig), *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env={**os.environ, "HOME": str(self.dir)},
        )
        assert not check or done.returncode == 0, f"kubectl {' '.join(args)}: {done.stderr}"
        return done

    def pid(self, name: str = "kube-apiserver") -> int:
        return self._processes[name].pid

    def log(self, name: str = "kube-apiserver") -> str:
        return (self.dir / f"{name}.log").read_text(errors="replace")

    def _write_certificates(self) -> None:
        ca = trustme.CA()
        server = ca.issue_cert("127.0.0.1", "localhost", "kubernetes.default.svc")
        admin = ca.issue_cert("admin@koord.test", common_name="admin", organization_name="system:masters")
        (self.dir / "ca.crt").write_bytes(ca.cert_pem.bytes())
        (self.dir / "ca.key").write_bytes(ca.private_key_pem.bytes())
        (self.dir / "server.crt").write_bytes(b"".join(blob.bytes() for blob in server.cert_chain_pems))
        (self.dir / "server.key").write_bytes(server.private_key_pem.bytes())
        (self.dir / "admin.crt").write_bytes(admin.cert_chain_pems[0].bytes())
        (self.dir / "admin.key").write_bytes(admin.private_key_pem.bytes())
        (self.dir / "tokens.csv").write_text(
            'admin-token,token-admin,1,"system:masters"\nnobody-token,nobody,2,"strangers"\n'
        )
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (self.dir / "sa.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        (self.dir / "sa.pub").write_bytes(
            key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )
        self.write_kubeconfig(
            self.kubeconfig,
            {
                "client-certificate-data": _data(admin.cert_chain_pems[0].bytes()),
                "client-key-data": _data(admin.private_key_pem.bytes()),
            },
        )

    def write_kubeconfig(self, path: Path, user: dict[str, object]) -> Path:
        """A kubeconfig for this server with the given user entry; JSON, which is YAML."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {
                        "server": self.url,
                        "certificate-authority-data": _data((self.dir / "ca.crt").read_bytes()),
                    },
                }
            ],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
            "current-context": "test",
        }
        path.write_text(json.dumps(config, indent=1))
        path.chmod(0o600)
        return path

    def _start_etcd(self) -> None:
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{self.etcd_peer_port}"
        self._start(
            "etcd",
            "--name=default",
            f"--data-dir={self.dir}/etcd",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=error",
            binary=self._etcd_binary,
        )

    def _start(self, name: str, *flags: str, binary: str = "") -> None:
        path = find_binary(binary or name)
        assert path, f"no {binary or name}"
        with (self.dir / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*self._within, str(path), *flags],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=self.dir,
                # They live for minutes: their memory may grow further before it is worth collecting.
                env={"GOGC": "400", **os.environ},
            )

    def _end(self, name: str, how: signal.Signals) -> None:
        process = self._processes.pop(name, None)
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=60)

    def _wait_until_ready(self) -> None:
        context = ssl.create_default_context(cafile=str(self.dir / "ca.crt"))
        context.load_cert_chain(self.dir / "admin.crt", self.dir / "admin.key")

        def is_ready() -> bool:
            for name, process in self._processes.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended with {process.returncode}:\n{self.log(name)[-4000:]}")
            if self._within:
                self.kubectl("get", "--raw", "/readyz")
                return True
            with urllib.request.urlopen(f"{self.url}/readyz", context=context, timeout=5):
                return True

        until(is_ready, READY_WITHIN_S, what=lambda: self.log()[-4000:], retry_on=(OSError, AssertionError))

    def _etcd(self, path: str, body: dict[str, object]) -> dict[str, object]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.etcd_port}{path}", data=json.dumps(body).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            result: dict[str, object] = json.load(answer)
        return result


def _data(blob: bytes) -> str:
    return base64.b64encode(blob).decode()


@contextmanager
def kubernetes_controllers(plane: ControlPlane) -> Iterator[None]:
    """Kubernetes' own controllers, for a block."""
    binary = find_binary("kube-controller-manager")
    assert binary
    with (plane.dir / "controller-manager.log").open("wb") as log:
        process = subprocess.Popen(
            [
                str(binary),
                f"--kubeconfig={plane.kubeconfig}",
                "--leader-elect=false",
                "--secure-port=0",
                f"--service-account-private-key-file={plane.dir}/sa.key",
                "--controllers=*,-nodeipam,-node-route-controller,-service-lb-controller",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        process.kill()
        process.wait(timeout=60)
