"""Keys and certificates: made, read, compared. Keys are EC P-256, which take a millisecond to make.

The owner decides how long they last and when they are renewed. What cannot be read is as good as absent.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

SKEW: Final = dt.timedelta(minutes=5)
"""Certificates hold from a little before they are made: clocks differ."""
SERVER: Final = ExtendedKeyUsageOID.SERVER_AUTH
CLIENT: Final = ExtendedKeyUsageOID.CLIENT_AUTH

Key: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Issuer(NamedTuple):
    certificate: x509.Certificate
    key: Key


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def name(common_name: str, organisations: Sequence[str] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation) for organisation in organisations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])


def alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def certificate(
    subject: x509.Name,
    key: Key,
    now: dt.datetime,
    lasts: dt.timedelta,
    *,
    by: Issuer | None = None,
    hosts: Iterable[str] = (),
    usage: x509.ObjectIdentifier | None = None,
) -> x509.Certificate:
    """Signed by an issuer, and no longer good than it is; or by itself. Without a usage, it is an authority."""
    public, is_authority = key.public_key(), usage is None
    until = now + lasts if by is None else min(now + lasts, by.certificate.not_valid_after_utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if by is None else by.certificate.subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
        .add_extension(_key_usage(signs=is_authority), critical=True)
    )
    if by is not None:
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(by.key.public_key())
        builder = builder.add_extension(identifier, critical=False)
    if usage is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    if alternatives := [alternative(host) for host in hosts]:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(key if by is None else by.key, hashes.SHA256())


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def is_good_for(certificate: x509.Certificate, hosts: Iterable[str]) -> bool:
    """Whether it names them all."""
    try:
        has = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return False
    return set(map(alternative, hosts)) <= set(has)


def is_signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def fits(certificate: x509.Certificate, key: Key) -> bool:
    """Whether the key is the certificate's."""
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    try:
        return certificate.public_key().public_bytes(*form) == key.public_key().public_bytes(*form)
    except (ValueError, UnsupportedAlgorithm):
        return False


def certificates_in(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return []


def key_in(pem: bytes) -> Key | None:
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) else None


def pem_of(*certificates: x509.Certificate) -> bytes:
    return b"".join(cert.public_bytes(serialization.Encoding.PEM) for cert in certificates)


def key_pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def show(context: ssl.SSLContext, certificate_pem: bytes, key_pem: bytes) -> None:
    """New connections of a server with this context are shown the certificate."""
    # The ssl module reads certificates from files only. This one is the owner's alone, and gone at once.
    with tempfile.NamedTemporaryFile(prefix="koord-") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(certificate_pem + key_pem)
        file.flush()
        context.load_cert_chain(file.name)
