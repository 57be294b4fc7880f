"""Authorizer: identifies the caller of an endpoint, and checks its rights.

The API server is asked, by TokenReview and SubjectAccessReview. Its answers are kept for a minute, so that a scraper
costs two calls a minute; tokens themselves are never kept, only their hashes. If the API server does not
answer, every caller is refused.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, Literal

from koord.api.kinds import Kind
from koord.api.machinery.struct import Struct
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock

ALLOWED_S: Final = 60.0
DENIED_S: Final = 10.0
MAX_CACHED: Final = 1024
AUTHENTICATED: Final = "system:authenticated"

Verdict = Literal["allowed", "unauthenticated", "forbidden"]


class UserInfo(Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()


class TokenReviewStatus(Struct):
    authenticated: bool = False
    user: UserInfo = UserInfo()
    error: str = ""


class TokenReview(Struct):
    status: TokenReviewStatus = TokenReviewStatus()


class SubjectAccessReviewStatus(Struct):
    allowed: bool = False
    reason: str = ""


class SubjectAccessReview(Struct):
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


TOKEN_REVIEWS: Final[Kind[TokenReview]] = Kind(
    "authentication.k8s.io", "v1", "TokenReview", "tokenreviews", False, TokenReview
)
SUBJECT_ACCESS_REVIEWS: Final[Kind[SubjectAccessReview]] = Kind(
    "authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", False, SubjectAccessReview
)


@dataclass(frozen=True, slots=True)
class Right:
    """What a caller must be allowed: a non-resource path, or else part of a node."""

    verb: str
    path: str = ""
    subresource: str = ""
    "Of nodes, as kubelets have it: `proxy`, `pods`, `configz`."
    node: str = ""
    "Empty is all of them."

    def attributes(self) -> dict[str, object]:
        if self.path:
            return {"nonResourceAttributes": {"path": self.path, "verb": self.verb}}
        resource = {"verb": self.verb, "version": "v1", "resource": "nodes", "subresource": self.subresource}
        return {"resourceAttributes": {**resource, "name": self.node} if self.node else resource}

    def __str__(self) -> str:
        if self.path:
            return f"{self.verb} on the non-resource URL {self.path}"
        return f"{self.verb} on nodes/{self.subresource}" + (f" of node {self.node}" if self.node else "")


@dataclass(frozen=True, slots=True)
class CallerCredentials:
    """What a caller shows: a bearer token, or the user of a client certificate that was verified."""

    token: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.token or self.user)


@dataclass(frozen=True, slots=True)
class _CachedVerdict:
    verdict: Verdict
    until: float


class Authorizer:
    """Decides about callers of our endpoints."""

    def __init__(self, client: Client, *, clock: Clock | None = None) -> None:
        self._client = client
        self._clock: Clock = clock or SystemClock()
        self._verdicts: OrderedDict[tuple[bytes, Right], _CachedVerdict] = OrderedDict()

    async def verdict(self, shown: CallerCredentials, *rights: Right) -> Verdict:
        """Whether the caller has one of the rights. Raises ApiError when the server cannot be asked."""
        if not shown:
            return "unauthenticated"
        verdict: Verdict = "unauthenticated"
        for right in rights:
            verdict = await self._of(shown, right)
            if verdict != "forbidden":
                break
        return verdict

    async def _of(self, shown: CallerCredentials, right: Right) -> Verdict:
        key = hashlib.sha256(repr(shown).encode()).digest(), right
        kept = self._verdicts.get(key)
        now = self._clock.monotonic()
        if kept is not None and now < kept.until:
            return kept.verdict
        verdict = await self._ask(shown, right)
        self._verdicts[key] = _CachedVerdict(verdict, now + (ALLOWED_S if verdict == "allowed" else DENIED_S))
        self._verdicts.move_to_end(key)
        while len(self._verdicts) > MAX_CACHED:
            self._verdicts.popitem(last=False)
        return verdict

    async def _ask(self, shown: CallerCredentials, right: Right) -> Verdict:
        user = UserInfo(shown.user, groups=(*shown.groups, AUTHENTICATED))
        if shown.token:
            review = await self._client.create(TOKEN_REVIEWS, {"spec": {"token": shown.token}})
            if not review.status.authenticated:
                return "unauthenticated"
            user = review.status.user
        spec = {"user": user.username, "uid": user.uid, "groups": list(user.groups), **right.attributes()}
        access = await self._client.create(SUBJECT_ACCESS_REVIEWS, {"spec": spec})
        return "allowed" if access.status.allowed else "forbidden"
