"""A server of pods for measuring clients: `python -m koord_bench.pod_server` in a process of its own.

It answers lists of N pods in pages over TLS, a watch with M changes to them in turn, each its own chunk as API servers
send them, and a WatchList. It prints its port and certificate as one line of JSON, and ends when its standard input
does. Plain sockets and threads, because it must keep ahead of the client that is measured.
"""

from __future__ import annotations

import argparse
import json
import socket
import ssl
import sys
import tempfile
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from koord_bench.pods import pod_json

LIST_VERSION = 900_000_000
EVENTS_A_WRITE = 16


class PodServer:
    def __init__(self, pods: int, events: int) -> None:
        self.pods, self.events = pods, events
        self.certificate, context = _identity()
        self._tls = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        try:
            with self._tls.wrap_socket(connection, server_side=True) as secure:
                requests = secure.makefile("rb")
                while line := requests.readline():
                    while requests.readline() not in (b"\r\n", b""):
                        pass
                    self._answer(secure, dict(parse_qsl(urlsplit(line.split()[1].decode()).query)))
        except OSError:
            return

    def _answer(self, secure: ssl.SSLSocket, query: dict[str, str]) -> None:
        if "watch" not in query:
            body = self._page(int(query.get("continue", "0")), int(query.get("limit", "0")) or self.pods)
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            secure.sendall(head.encode() + body)
            return
        secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        pending: list[bytes] = []
        for line in self._initial() if "sendInitialEvents" in query else self._changes():
            pending.append(b"%x\r\n%s\r\n" % (len(line), line))
            if len(pending) == EVENTS_A_WRITE:
                secure.sendall(b"".join(pending))
                pending.clear()
        secure.sendall(b"".join(pending))
        secure.recv(1)

    def _page(self, start: int, limit: int) -> bytes:
        stop = min(start + limit, self.pods)
        metadata = {"resourceVersion": str(LIST_VERSION)}
        if stop < self.pods:
            metadata |= {"continue": str(stop), "remainingItemCount": self.pods - stop}  # type: ignore[dict-item]
        head = b'{"kind":"PodList","apiVersion":"v1","metadata":%s,"items":[' % json.dumps(metadata).encode()
        return head + b",".join(pod_json(i) for i in range(start, stop)) + b"]}\n"

    def _initial(self) -> Iterator[bytes]:
        for i in range(self.pods):
            yield b'{"type":"ADDED","object":%s}\n' % pod_json(i)
        yield (
            b'{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%d",'
            b'"annotations":{"k8s.io/initial-events-end":"true"}}}}\n' % LIST_VERSION
        )

    def _changes(self) -> Iterator[bytes]:
        pods = [_around_version(pod_json(i)) for i in range(self.pods)]
        for number in range(1, self.events + 1):
            before, after = pods[number % len(pods)]
            yield b'{"type":"MODIFIED","object":%s"%d"%s}\n' % (before, LIST_VERSION + number, after)


def _around_version(pod: bytes) -> tuple[bytes, bytes]:
    """A pod's JSON before and after its version."""
    start = pod.index(b'"resourceVersion":') + len(b'"resourceVersion":')
    return pod[:start], pod[pod.index(b",", start) :]


def _identity() -> tuple[str, ssl.SSLContext]:
    """A certificate for loopback, as PEM, and the context that shows it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "koord bench")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "identity.pem")
        path.touch(mode=0o600)
        path.write_bytes(
            certificate
            + key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        context.load_cert_chain(path)
    return certificate.decode(), context


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", type=int, required=True)
    parser.add_argument("--events", type=int, default=0)
    options = parser.parse_args()
    server = PodServer(options.pods, options.events)
    threading.Thread(target=server.serve, daemon=True).start()
    sys.stdout.write(json.dumps({"port": server.port, "certificate": server.certificate}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
