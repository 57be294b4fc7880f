"""Whether a certificate and a private key, both as PEM, belong together, in the words of Go's tls package."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

_BLOCK: Final = re.compile(rb"^-----BEGIN ([^\n]*?)-----[ \t]*\r?\n(.*?)^-----END \1-----[ \t]*\r?$", re.M | re.S)
_HEADER: Final = re.compile(rb"^[^\n:]+:[^\n]*\n", re.M)
_KINDS: Final = (rsa.RSAPublicKey, ec.EllipticCurvePublicKey, ed25519.Ed25519PublicKey)


def key_pair_fault(certificate_pem: bytes, key_pem: bytes) -> str:
    """Why the two are no pair; "" where they are."""
    certificates, skipped = _blocks(certificate_pem, lambda kind: kind == "CERTIFICATE")
    if not certificates:
        if not skipped:
            return "tls: failed to find any PEM data in certificate input"
        if len(skipped) == 1 and skipped[0].endswith("PRIVATE KEY"):
            return (
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; "
                "PEM inputs may have been switched"
            )
        return (
            'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the '
            f"following types: [{' '.join(skipped)}]"
        )
    keys, skipped = _blocks(key_pem, lambda kind: kind == "PRIVATE KEY" or kind.endswith(" PRIVATE KEY"))
    if not keys:
        if not skipped:
            return "tls: failed to find any PEM data in key input"
        if skipped == ["CERTIFICATE"]:
            return "tls: found a certificate rather than a key in the PEM for the private key"
        return (
            'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks '
            f"of the following types: [{' '.join(skipped)}]"
        )
    return _match_fault(certificates[0], keys[0])


def _match_fault(certificate: bytes, key: bytes) -> str:
    try:
        public = x509.load_der_x509_certificate(certificate).public_key()
    except (ValueError, UnsupportedAlgorithm):
        return "x509: malformed certificate"
    try:
        own = serialization.load_der_private_key(key, password=None).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return "tls: failed to parse private key"
    kind = next((kind for kind in _KINDS if isinstance(public, kind)), None)
    if kind is None:
        return "tls: unknown public key algorithm"
    if not isinstance(own, kind):
        return "tls: private key type does not match public key type"
    return "" if own == public else "tls: private key does not match public key"


def _blocks(pem: bytes, wanted: Callable[[str], bool]) -> tuple[list[bytes], list[str]]:
    """The contents of the blocks that are wanted, and the types of those that were passed over before the first."""
    blocks: list[bytes] = []
    skipped: list[str] = []
    for match in _BLOCK.finditer(pem):
        kind = match[1].decode("latin-1")
        try:
            content = base64.b64decode(b"".join(_HEADER.sub(b"", match[2]).split()), validate=True)
        except binascii.Error:
            continue
        if wanted(kind):
            blocks.append(content)
        elif not blocks:
            skipped.append(kind)
    return blocks, skipped
