"""The webhooks' certificates: an authority of their own, kept in a Secret that all replicas share.

Level-triggered: `renewed` looks at what is kept and says what should be kept instead. The order in which things change
is the point. A new authority is trusted (put beside the old one in the bundle that API servers are given) for a while
before anything signed by it is shown to them; the old one goes only after that. So no call fails while they change.
"""

from __future__ import annotations

import datetime as dt
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from cryptography import x509

from koord.kube.certificates import making
from koord.kube.certificates.making import Issuer, Key

_DAY_S: Final = 86400.0
_YEAR_S: Final = 365 * _DAY_S

CA_KEY, CA_CERT = "ca-key.pem", "ca-cert.pem"
KEYS, CERTS = ("key.pem", "tls.key"), ("cert.pem", "tls.crt")
"""Under both of their usual names."""


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
    """The material to keep: the same object if it is still valid. `names`: the names that API servers call.
    `told_for_s`: how long the held bundle has been registered as trusted."""
    lifetimes = lifetimes or Lifetimes()
    authorities = [
        certificate for certificate in making.certificates_in(held.bundle) if _ends_in(certificate, now_s) > 0
    ]
    authority_key = making.key_in(held.authority_key)
    newest = next(
        (authority for authority in authorities if authority_key is not None and making.fits(authority, authority_key)),
        None,
    )
    if newest is None or authority_key is None or _ends_in(newest, now_s) < lifetimes.renew_authority_before_s:
        authority_key = making.new_key()
        newest = _authority(authority_key, now_s, lifetimes)
        authorities.insert(0, newest)
        held = replace(held, bundle=making.pem_of(*authorities), authority_key=making.key_pem(authority_key))
    age_s = now_s - newest.not_valid_before_utc.timestamp() - making.SKEW.total_seconds()
    shown = next(iter(making.certificates_in(held.certificate)), None)
    if shown is None or not _works(shown, held.key, authorities, names, now_s):
        return _issued(held, Issuer(newest, authority_key), names, now_s, lifetimes)
    by_newest = making.is_signed(shown, newest)
    settled = by_newest or min(age_s, told_for_s) >= lifetimes.settle_s
    if settled and (not by_newest or _ends_in(shown, now_s) < lifetimes.renew_before_s):
        return _issued(held, Issuer(newest, authority_key), names, now_s, lifetimes)
    if by_newest and age_s >= lifetimes.settle_s + lifetimes.keep_s:
        authorities = [newest]
    bundle = making.pem_of(*authorities)
    return held if bundle == held.bundle else replace(held, bundle=bundle)


def ends_s(material: Material) -> float:
    """When the certificate that is shown ends, in seconds since 1970; 0 where there is none."""
    shown = next(iter(making.certificates_in(material.certificate)), None)
    return 0.0 if shown is None else shown.not_valid_after_utc.timestamp()


def load(context: ssl.SSLContext, material: Material) -> None:
    """New connections of a server with this context are shown the certificate."""
    making.show(context, material.certificate, material.key)


def _issued(held: Material, issuer: Issuer, names: Sequence[str], now_s: float, times: Lifetimes) -> Material:
    key = making.new_key()
    certificate = making.certificate(
        making.name(names[0]), key, _at(now_s), _for(times.certificate_s), by=issuer, hosts=names, usage=making.SERVER
    )
    return replace(held, certificate=making.pem_of(certificate), key=making.key_pem(key))


def _authority(key: Key, now_s: float, lifetimes: Lifetimes) -> x509.Certificate:
    # A name of its own, so that verifiers do not take it for the one before it.
    name = making.name(f"koordinator-webhook-ca-{int(now_s)}")
    return making.certificate(name, key, _at(now_s), _for(lifetimes.authority_s))


def _at(now_s: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(now_s, dt.UTC)


def _for(seconds: float) -> dt.timedelta:
    return dt.timedelta(seconds=seconds)


def _works(
    certificate: x509.Certificate,
    key_pem: bytes,
    authorities: Sequence[x509.Certificate],
    names: Sequence[str],
    now_s: float,
) -> bool:
    """Whether callers who trust these authorities accept it now."""
    key = making.key_in(key_pem)
    if key is None or not making.fits(certificate, key):
        return False
    if not any(making.is_signed(certificate, authority) for authority in authorities):
        return False
    if _ends_in(certificate, now_s) <= 0 or certificate.not_valid_before_utc.timestamp() > now_s:
        return False
    return making.is_good_for(certificate, names)


def _ends_in(certificate: x509.Certificate, now_s: float) -> float:
    return certificate.not_valid_after_utc.timestamp() - now_s
