"""Keys and certificates of the embedded server: one authority, the server's certificate, certificates for users.

All live in one directory, readable by its owner only, and are kept across restarts: what is still good is used again,
a certificate that names too few hosts, ends before its authority or comes from another one is replaced, and so is a
file that cannot be read, with a warning. A user is a certificate's common name, its groups the organisations.

Certificates do not expire, so that a cluster survives a clock that jumps. Expiry would protect nothing: the authority's
key is in the same directory.
"""

from __future__ import annotations

import base64
import datetime as dt
import logging
import os
import re
import secrets
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from koord.kube.certificates import making
from koord.kube.certificates.making import Issuer, Key

log = logging.getLogger(__name__)

FROM: Final = dt.datetime(1970, 1, 2, tzinfo=dt.UTC)
UNTIL: Final = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)
"""What says that there is no end (RFC 5280)."""
RENEW_BEFORE: Final = dt.timedelta(days=60)
_OWN_NAMES: Final = (
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)

_TOKEN: Final = re.compile(r"[\w.~+/=-]{8,}", re.ASCII)

Suits = Callable[[x509.Certificate], bool]
"""Whether a kept certificate still says what is wanted."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates. `Authority.open` finds or makes one in a directory."""

    def __init__(self, directory: Path, issuer: Issuer) -> None:
        self.directory, self._issuer = directory, issuer
        self.pem = making.pem_of(issuer.certificate)

    @classmethod
    def open(cls, directory: Path, now: dt.datetime | None = None) -> Authority:
        """The authority kept in `directory`, or a new one if there is none that lasts."""
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        now = now or dt.datetime.now(dt.UTC)
        certificate, key = _load(directory / "ca.crt"), _load_key(directory / "ca.key")
        if certificate is None or key is None or not _lasts(certificate, now) or not making.fits(certificate, key):
            key = making.new_key()
            certificate = making.certificate(making.name("koord-ca"), key, FROM, UNTIL - FROM)
            write_private(directory / "ca.key", making.key_pem(key))
            write_private(directory / "ca.crt", making.pem_of(certificate))
        return cls(directory, Issuer(certificate, key))

    def server(self, hosts: Iterable[str] = ()) -> tuple[Path, Path]:
        """Files of the server's certificate and key, good for loopback, its names in a cluster, and `hosts`."""
        names = tuple(dict.fromkeys(name for name in (*_OWN_NAMES, socket.gethostname(), *hosts) if name))
        subject = making.name("kube-apiserver")
        return self._kept("apiserver", subject, making.SERVER, names, lambda kept: making.is_good_for(kept, names))

    def client(self, user: str, groups: Sequence[str] = ()) -> Credential:
        """A credential for a user, kept under the user's name."""
        subject = making.name(user, groups)
        certificate, key = self._kept(
            "client-" + _file_name(user), subject, making.CLIENT, (), lambda kept: kept.subject == subject
        )
        return Credential(certificate.read_bytes(), key.read_bytes())

    def _kept(
        self,
        stem: str,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        hosts: Sequence[str],
        suits: Suits,
    ) -> tuple[Path, Path]:
        certificate_file, key_file = self.directory / f"{stem}.crt", self.directory / f"{stem}.key"
        kept, key = _load(certificate_file), _load_key(key_file)
        if kept and key and self._always_good(kept) and making.fits(kept, key) and self._signed(kept) and suits(kept):
            return certificate_file, key_file
        key = making.new_key()
        made = making.certificate(subject, key, FROM, UNTIL - FROM, by=self._issuer, hosts=hosts, usage=usage)
        write_private(key_file, making.key_pem(key))
        write_private(certificate_file, making.pem_of(made))
        return certificate_file, key_file

    def _always_good(self, certificate: x509.Certificate) -> bool:
        """As long as its authority is."""
        ends = self._issuer.certificate.not_valid_after_utc
        return certificate.not_valid_before_utc <= FROM and certificate.not_valid_after_utc >= ends

    def _signed(self, certificate: x509.Certificate) -> bool:
        return making.is_signed(certificate, self._issuer.certificate)


def signing_key(directory: Path) -> ec.EllipticCurvePrivateKey:
    """The key that signs service account tokens: kept, since tokens are to outlive restarts."""
    path = directory / "sa.key"
    key = _load_key(path)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = making.new_key()
        write_private(path, making.key_pem(key))
    return key


def static_token(directory: Path, user: str) -> str:
    """A user's bearer token, random and kept."""
    path = directory / f"token-{_file_name(user)}"
    if path.exists():
        kept = path.read_bytes().strip().decode(errors="replace")
        if _TOKEN.fullmatch(kept):
            return kept
        _warn_of(path)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    token = secrets.token_urlsafe(32)
    write_private(path, token.encode())
    return token


def server_context(certificate: Path, key: Path, authority: Path) -> ssl.SSLContext:
    """TLS for the server: a client certificate is welcome, not needed, and must be signed by the authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    # None of the clients comes back with a ticket, and making two is a sixth of a handshake's cost.
    context.num_tickets = 0
    return context


def kubeconfig(
    path: Path,
    server: str,
    authority_pem: bytes,
    user: str,
    *,
    credential: Credential | None = None,
    token: str = "",
    cluster: str = "koord",
    namespace: str = "",
) -> Path:
    """Write a kubeconfig for one user, with a client certificate or a token. JSON, which is YAML."""
    if (credential is None) == (not token):
        raise ValueError(f"the kubeconfig of {user} needs either a client certificate or a token")
    entry: dict[str, str] = {"token": token}
    if credential is not None:
        entry = {
            "client-certificate-data": _data(credential.certificate),
            "client-key-data": _data(credential.key),
        }
    context = {"cluster": cluster, "user": user, **({"namespace": namespace} if namespace else {})}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": cluster, "cluster": {"server": server, "certificate-authority-data": _data(authority_pem)}}
        ],
        "users": [{"name": user, "user": entry}],
        "contexts": [{"name": cluster, "context": context}],
        "current-context": cluster,
    }
    write_private(path, msgspec.json.format(msgspec.json.encode(config), indent=2) + b"\n")
    return path


def write_private(path: Path, data: bytes) -> None:
    """Replace a file's content at once; only the owner can ever read it."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _lasts(certificate: x509.Certificate, now: dt.datetime) -> bool:
    return certificate.not_valid_before_utc <= now and certificate.not_valid_after_utc - now > RENEW_BEFORE


def _load(path: Path) -> x509.Certificate | None:
    if not path.exists():
        return None
    certificate = next(iter(making.certificates_in(path.read_bytes())), None)
    if certificate is None:
        _warn_of(path)
    return certificate


def _load_key(path: Path) -> Key | None:
    if not path.exists():
        return None
    key = making.key_in(path.read_bytes())
    if key is None:
        _warn_of(path)
    return key


def _warn_of(path: Path) -> None:
    log.warning("%s cannot be read and is replaced: credentials that rely on the old one no longer work", path)


def _file_name(user: str) -> str:
    """A user's name as part of a file name: colons and slashes are no good there."""
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in user)


def _data(blob: bytes) -> str:
    return base64.b64encode(blob).decode()
