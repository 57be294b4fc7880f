"""The webhooks' certificates: an authority of their own, kept in a Secret that all replicas share.

Level-triggered: `renewed` looks at what is kept and says what should be kept instead. The order in which things change
is the point. A new authority is trusted (put beside the old one in the bundle that API servers are given) for a while
before anything signed by it is shown to them; the old one goes only after that. So no call fails while they change.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Final, TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY_S: Final = 86400.0
_YEAR_S: Final = 365 * _DAY_S
_SKEW_S: Final = 300.0
"""Certificates hold from a little before they are made: clocks differ."""

CA_KEY, CA_CERT = "ca-key.pem", "ca-cert.pem"
KEYS, CERTS = ("key.pem", "tls.key"), ("cert.pem", "tls.crt")
"""Under both of their usual names."""

_Key: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class Lifetimes:
    authority_s: float = 10 * _YEAR_S
    certificate_s: float = 10 * _YEAR_S
    renew_before_s: float = 182 * _DAY_S
    "A certificate that ends sooner than this is replaced."
    renew_authority_before_s: float = _YEAR_S
    settle_s: float = 60.0
    "How long a new authority is trusted before it is relied on."
    keep_s: float = 3600.0
    "How much longer the one before it stays trusted."


@dataclass(frozen=True, slots=True)
class Material:
    """What is kept, as PEM. `bundle` has all authorities that are trusted, the newest first."""

    bundle: bytes = b""
    authority_key: bytes = b""
    certificate: bytes = b""
    key: bytes = b""

    @staticmethod
    def of(data: Mapping[str, bytes]) -> Material:
        """From a Secret's data, also one that Koordinator wrote."""
        return Material(
            data.get(CA_CERT, b""),
            data.get(CA_KEY, b""),
            next((data[name] for name in CERTS if data.get(name)), b""),
            next((data[name] for name in KEYS if data.get(name)), b""),
        )

    def data(self) -> dict[str, bytes]:
        return {
            CA_CERT: self.bundle,
            CA_KEY: self.authority_key,
            **dict.fromkeys(CERTS, self.certificate),
            **dict.fromkeys(KEYS, self.key),
        }


def renewed(
    held: Material,
    names: Sequence[str],
    now_s: float,
    lifetimes: Lifetimes | None = None,
    *,
    told_for_s: float = inf,
) -> Material:
    """What should be kept: the same object where all is well. `names` are those that API servers call, `told_for_s` is
    how long they have been told to trust the bundle that is held."""
    lifetimes = lifetimes or Lifetimes()
    authorities = [each for each in _certificates(held.bundle) if _ends_in(each, now_s) > 0]
    authority_key = _key(held.authority_key)
    newest = next((each for each in authorities if authority_key is not None and _fits(each, authority_key)), None)
    if newest is None or authority_key is None or _ends_in(newest, now_s) < lifetimes.renew_authority_before_s:
        authority_key = ec.generate_private_key(ec.SECP256R1())
        newest = _authority(authority_key, now_s, lifetimes)
        authorities.insert(0, newest)
        held = replace(held, bundle=_pem(authorities), authority_key=_key_pem(authority_key))
    age_s = now_s - newest.not_valid_before_utc.timestamp() - _SKEW_S
    shown = next(iter(_certificates(held.certificate)), None)
    if shown is None or not _works(shown, held.key, authorities, names, now_s):
        return _issued(held, authority_key, newest, names, now_s, lifetimes)
    by_newest = _is_signed(shown, newest)
    settled = by_newest or min(age_s, told_for_s) >= lifetimes.settle_s
    if settled and (not by_newest or _ends_in(shown, now_s) < lifetimes.renew_before_s):
        return _issued(held, authority_key, newest, names, now_s, lifetimes)
    if by_newest and age_s >= lifetimes.settle_s + lifetimes.keep_s:
        authorities = [newest]
    bundle = _pem(authorities)
    return held if bundle == held.bundle else replace(held, bundle=bundle)


def load(context: ssl.SSLContext, material: Material) -> None:
    """New connections of a server with this context are shown the certificate."""
    with tempfile.TemporaryDirectory(prefix="koord-webhooks-") as folder:
        # ssl reads files only; the directory is its owner's, and gone at once.
        file = Path(folder, "both.pem")
        file.touch(mode=0o600)
        file.write_bytes(material.certificate + material.key)
        context.load_cert_chain(file)


def _issued(
    held: Material,
    authority_key: _Key,
    authority: x509.Certificate,
    names: Sequence[str],
    now_s: float,
    times: Lifetimes,
) -> Material:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _builder(names[0], now_s, min(times.certificate_s, _ends_in(authority, now_s)))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .add_extension(x509.SubjectAlternativeName(list(map(_alternative, names))), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return replace(held, certificate=_pem([certificate]), key=_key_pem(key))


def _authority(key: ec.EllipticCurvePrivateKey, now_s: float, lifetimes: Lifetimes) -> x509.Certificate:
    # A name of its own, so that verifiers do not take it for the one before it.
    name = f"koordinator-webhook-ca-{int(now_s)}"
    return (
        _builder(name, now_s, lifetimes.authority_s)
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _builder(name: str, now_s: float, lasts_s: float) -> x509.CertificateBuilder:
    start = dt.datetime.fromtimestamp(now_s - _SKEW_S, dt.UTC)
    end = dt.datetime.fromtimestamp(now_s + lasts_s, dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])]))
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _works(
    certificate: x509.Certificate,
    key_pem: bytes,
    authorities: Sequence[x509.Certificate],
    names: Sequence[str],
    now_s: float,
) -> bool:
    """Whether callers who trust these authorities accept it now."""
    key = _key(key_pem)
    if key is None or not _fits(certificate, key) or not any(_is_signed(certificate, each) for each in authorities):
        return False
    if _ends_in(certificate, now_s) <= 0 or certificate.not_valid_before_utc.timestamp() > now_s:
        return False
    try:
        has = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return False
    return set(map(_alternative, names)) <= set(has)


def _ends_in(certificate: x509.Certificate, now_s: float) -> float:
    return certificate.not_valid_after_utc.timestamp() - now_s


def _is_signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _fits(certificate: x509.Certificate, key: _Key) -> bool:
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    try:
        return certificate.public_key().public_bytes(*form) == key.public_key().public_bytes(*form)
    except (ValueError, UnsupportedAlgorithm):
        return False


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _certificates(pem: bytes) -> list[x509.Certificate]:
    """All that can be read; what cannot be read is as good as absent."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return []


def _key(pem: bytes) -> _Key | None:
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) else None


def _pem(certificates: Iterable[x509.Certificate]) -> bytes:
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
