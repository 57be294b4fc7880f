"""Service account tokens: JSON Web Tokens that name a service account, signed by the server's key (ES256).

A token is good while its signature, times and audience are, and while the service account (and the pod, node or secret
that it was bound to) still exists with the same uid: deleting the object takes the token back. Signatures are checked
once per token, existence at every use.
"""

from __future__ import annotations

import base64
import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from koord.api.kubernetes.access import (
    AUTHENTICATED,
    CREDENTIAL_ID,
    UserInfo,
    service_account_groups,
    service_account_user,
)
from koord_minicluster.apiserver.access.rules import quoted

_KEPT_MOST: Final = 4096
_BOUND: Final = {"pod": "pods", "node": "nodes", "secret": "secrets"}
_COORDINATE_BYTES: Final = 32

UidOf = Callable[[str, str, str], str | None]
"""The uid of an object by (collection, namespace, name); None where there is none."""


class InvalidToken(Exception):
    """Not a token of ours, or no longer valid; says why."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The object whose life a token shares."""

    kind: str
    "pod, node or secret"
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class _Verified:
    user: UserInfo
    audiences: frozenset[str]
    not_before_s: float
    expires_s: float
    alive: tuple[tuple[str, str, str, str], ...]
    "(collection, namespace, name, uid) of what must still exist."


class ServiceAccountTokens:
    """Issues and checks tokens. `issuer` is the server's URL, and the audience of tokens for the server itself."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, issuer: str, uid_of: UidOf, now_s: Callable[[], float]) -> None:
        self.issuer = issuer
        self._key, self._uid_of, self._now_s = key, uid_of, now_s
        public = key.public_key()
        self._public = public
        der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.key_id = _base64(hashlib.sha256(der).digest())
        self._header = _base64(msgspec.json.encode({"alg": "ES256", "kid": self.key_id}))
        self._verified: dict[str, _Verified] = {}

    def issue(
        self,
        namespace: str,
        name: str,
        uid: str,
        audiences: Sequence[str],
        lifetime_s: int,
        bound: Sequence[Bound] = (),
    ) -> tuple[str, float]:
        """A new token and when it expires. Without audiences it is for this server."""
        now = int(self._now_s())
        expires = now + lifetime_s
        private: dict[str, Any] = {
            "namespace": namespace,
            **{bound_object.kind: {"name": bound_object.name, "uid": bound_object.uid} for bound_object in bound},
            "serviceaccount": {"name": name, "uid": uid},
        }
        claims = {
            "aud": list(audiences) or [self.issuer],
            "exp": expires,
            "iat": now,
            "iss": self.issuer,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": private,
            "nbf": now,
            "sub": service_account_user(namespace, name),
        }
        signed = f"{self._header}.{_base64(msgspec.json.encode(claims))}"
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(_COORDINATE_BYTES, "big") + s.to_bytes(_COORDINATE_BYTES, "big")
        return f"{signed}.{_base64(signature)}", float(expires)

    def check(self, token: str, audiences: tuple[str, ...] = ()) -> tuple[UserInfo, tuple[str, ...]]:
        """Whose token it is, and which of the asked audiences it is for. Raises InvalidToken."""
        verified = self._verified.get(token)
        if verified is None:
            verified = self._verify(token)
            if len(self._verified) >= _KEPT_MOST:
                self._verified.clear()
            self._verified[token] = verified
        now = self._now_s()
        if now < verified.not_before_s or now >= verified.expires_s:
            self._verified.pop(token, None)
            raise InvalidToken("the token is not yet, or no longer, valid")
        matching = tuple(audience for audience in audiences or (self.issuer,) if audience in verified.audiences)
        if not matching:
            mine, asked = quoted(sorted(verified.audiences)), quoted(audiences or (self.issuer,))
            raise InvalidToken(f"token audiences {mine} is invalid for the target audiences {asked}")
        for collection, namespace, name, uid in verified.alive:
            if self._uid_of(collection, namespace, name) != uid:
                raise InvalidToken(f"{collection} {namespace}/{name} with uid {uid} is gone")
        return verified.user, matching

    def public_keys(self) -> dict[str, Any]:
        """The key set (JWKS) with which others can check our tokens."""
        numbers = self._public.public_numbers()
        key = {
            "use": "sig",
            "kty": "EC",
            "kid": self.key_id,
            "crv": "P-256",
            "alg": "ES256",
            "x": _base64(numbers.x.to_bytes(_COORDINATE_BYTES, "big")),
            "y": _base64(numbers.y.to_bytes(_COORDINATE_BYTES, "big")),
        }
        return {"keys": [key]}

    def discovery(self) -> dict[str, Any]:
        """The OpenID document that points to the key set."""
        return {
            "issuer": self.issuer,
            "jwks_uri": f"{self.issuer}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    def _verify(self, token: str) -> _Verified:
        try:
            signed, _, signature_text = token.rpartition(".")
            header_text, _, claims_text = signed.partition(".")
            header = msgspec.json.decode(_bytes(header_text), type=dict[str, Any])
            claims = msgspec.json.decode(_bytes(claims_text), type=dict[str, Any])
            signature = _bytes(signature_text)
        except (ValueError, msgspec.DecodeError) as error:
            # Any text can be a token of another kind, so there is no message to give.
            raise InvalidToken("") from error
        if header.get("alg") != "ES256" or len(signature) != 2 * _COORDINATE_BYTES:
            raise InvalidToken("not signed with ES256")
        r, s = (int.from_bytes(half, "big") for half in (signature[:_COORDINATE_BYTES], signature[_COORDINATE_BYTES:]))
        try:
            self._public.verify(encode_dss_signature(r, s), signed.encode(), ec.ECDSA(hashes.SHA256()))
        except (InvalidSignature, ValueError) as error:
            raise InvalidToken("the signature is not ours") from error
        if claims.get("iss") != self.issuer:
            raise InvalidToken(f"issued by {claims.get('iss')!r}, not by {self.issuer!r}")
        return _read(claims)


def _read(claims: Mapping[str, Any]) -> _Verified:
    """Of a token whose signature is ours, so that its claims have the form we gave them."""
    private = claims["kubernetes.io"]
    namespace, account = private["namespace"], private["serviceaccount"]
    extra: dict[str, tuple[str, ...]] = {CREDENTIAL_ID: (f"JTI={claims['jti']}",)}
    alive = [("serviceaccounts", namespace, account["name"], account["uid"])]
    for kind, collection in _BOUND.items():
        if (bound := private.get(kind)) is None:
            continue
        if kind != "secret":
            extra[f"authentication.kubernetes.io/{kind}-name"] = (bound["name"],)
            extra[f"authentication.kubernetes.io/{kind}-uid"] = (bound["uid"],)
        if kind == "node" and "pod" in private:
            continue  # A pod's token tells its node, but lives and dies with the pod.
        alive.append((collection, "" if kind == "node" else namespace, bound["name"], bound["uid"]))
    groups = (*service_account_groups(namespace), AUTHENTICATED)
    user = UserInfo(service_account_user(namespace, account["name"]), account["uid"], groups, extra)
    return _Verified(user, frozenset(claims["aud"]), claims["nbf"], claims["exp"], tuple(alive))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
