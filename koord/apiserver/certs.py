"""Keys and certificates of the embedded server: one authority, the server's certificate, certificates for users.

All live in one directory, readable by its owner only, and are kept across restarts: what is still good is used again,
what nears its end, names too few hosts or comes from another authority is made anew. Keys are EC P-256, which take a
millisecond to make. A user is a certificate's common name, its groups the organisations.
"""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import os
import secrets
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_YEARS: Final = 10
CERTIFICATE_DAYS: Final = 365
RENEW_BEFORE: Final = dt.timedelta(days=60)
_CLOCK_SKEW: Final = dt.timedelta(minutes=5)
_OWN_NAMES: Final = (
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)

Suits = Callable[[x509.Certificate], bool]
"""Whether a kept certificate still says what is wanted."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates. `Authority.open` finds or makes one in a directory."""

    def __init__(self, directory: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.directory, self._certificate, self._key = directory, certificate, key
        self.pem = certificate.public_bytes(serialization.Encoding.PEM)

    @classmethod
    def open(cls, directory: Path, now: dt.datetime | None = None) -> Authority:
        """The authority kept in `directory`, or a new one if there is none that lasts."""
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        now = now or dt.datetime.now(dt.UTC)
        certificate, key = _load(directory / "ca.crt"), _load_key(directory / "ca.key")
        if certificate is not None and key is not None and _lasts(certificate, now) and _fits(certificate, key):
            return cls(directory, certificate, key)
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _authority_certificate(key, now)
        write_private(directory / "ca.key", _key_pem(key))
        write_private(directory / "ca.crt", certificate.public_bytes(serialization.Encoding.PEM))
        return cls(directory, certificate, key)

    def server(self, hosts: Iterable[str] = (), now: dt.datetime | None = None) -> tuple[Path, Path]:
        """Files of the server's certificate and key, good for loopback, its names in a cluster, and `hosts`."""
        names = dict.fromkeys([*_OWN_NAMES, socket.gethostname(), *hosts])
        alternatives = [_alternative(name) for name in names if name]

        def suits(certificate: x509.Certificate) -> bool:
            has = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            return set(alternatives) <= set(has)

        return self._kept(
            "apiserver", _name("kube-apiserver"), ExtendedKeyUsageOID.SERVER_AUTH, alternatives, suits, now
        )

    def client(self, user: str, groups: Sequence[str] = (), now: dt.datetime | None = None) -> Credential:
        """A credential for a user, kept under the user's name."""
        subject = _name(user, groups)
        certificate, key = self._kept(
            "client-" + _file_name(user),
            subject,
            ExtendedKeyUsageOID.CLIENT_AUTH,
            [],
            lambda kept: kept.subject == subject,
            now,
        )
        return Credential(certificate.read_bytes(), key.read_bytes())

    def _kept(
        self,
        stem: str,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        alternatives: Sequence[x509.GeneralName],
        suits: Suits,
        now: dt.datetime | None,
    ) -> tuple[Path, Path]:
        now = now or dt.datetime.now(dt.UTC)
        certificate_file, key_file = self.directory / f"{stem}.crt", self.directory / f"{stem}.key"
        kept, key = _load(certificate_file), _load_key(key_file)
        if kept and key and _lasts(kept, now) and _fits(kept, key) and self._signed(kept) and suits(kept):
            return certificate_file, key_file
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._issue(key, subject, usage, alternatives, now)
        write_private(key_file, _key_pem(key))
        write_private(certificate_file, certificate.public_bytes(serialization.Encoding.PEM))
        return certificate_file, key_file

    def _signed(self, certificate: x509.Certificate) -> bool:
        try:
            certificate.verify_directly_issued_by(self._certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True

    def _issue(
        self,
        key: ec.EllipticCurvePrivateKey,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        alternatives: Sequence[x509.GeneralName],
        now: dt.datetime,
    ) -> x509.Certificate:
        until = min(now + dt.timedelta(days=CERTIFICATE_DAYS), self._certificate.not_valid_after_utc)
        builder = (
            _builder(subject, self._certificate.subject, key.public_key(), now, until)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def signing_key(directory: Path) -> ec.EllipticCurvePrivateKey:
    """The key that signs service account tokens: kept, since tokens are to outlive restarts."""
    path = directory / "sa.key"
    key = _load_key(path)
    if key is None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = ec.generate_private_key(ec.SECP256R1())
        write_private(path, _key_pem(key))
    return key


def static_token(directory: Path, user: str) -> str:
    """A user's bearer token, random and kept."""
    path = directory / f"token-{_file_name(user)}"
    if path.exists() and (kept := path.read_text().strip()):
        return kept
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


def _authority_certificate(key: ec.EllipticCurvePrivateKey, now: dt.datetime) -> x509.Certificate:
    name = _name("koord-ca")
    until = now + dt.timedelta(days=365 * AUTHORITY_YEARS)
    return (
        _builder(name, name, key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, now: dt.datetime, until: dt.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str, organisations: Sequence[str] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organisations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _lasts(certificate: x509.Certificate, now: dt.datetime) -> bool:
    return certificate.not_valid_before_utc <= now and certificate.not_valid_after_utc - now > RENEW_BEFORE


def _fits(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> bool:
    return certificate.public_key() == key.public_key()


def _load(path: Path) -> x509.Certificate | None:
    """The certificate in a file; None where there is none, or not one that can be read."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        return None


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey | None:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError):
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey) else None


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _file_name(user: str) -> str:
    """A user's name as part of a file name: colons and slashes are no good there."""
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in user)


def _data(blob: bytes) -> str:
    return base64.b64encode(blob).decode()
