"""Certificates that a process makes for itself, for endpoints whose callers do not check who answers."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import os
import ssl
import tempfile
from typing import Final

VALID_DAYS: Final = 365


def own_certificate(name: str, address: str) -> ssl.SSLContext:
    """TLS with a certificate of this process's own. API servers do not verify kubelets unless they are told a CA."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    addresses = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address)), x509.DNSName("localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(addresses, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + certificate.public_bytes(serialization.Encoding.PEM)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # The ssl module reads certificates from files only. This one is the owner's alone, and gone at once.
    with tempfile.NamedTemporaryFile(prefix=f"{name}-") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name)
    return context


async def own_certificate_aside(name: str, address: str) -> ssl.SSLContext:
    """The same, without holding up the event loop: importing the library takes a while."""
    return await asyncio.to_thread(own_certificate, name, address)
