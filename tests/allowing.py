"""API servers' answers about callers, for endpoints that are tested without one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from koord.api.kinds import Kind
from koord.api.machinery.struct import Struct
from koord.kube.authorize import (
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    Authorizer,
    SubjectAccessReview,
    SubjectAccessReviewStatus,
    TokenReview,
    TokenReviewStatus,
    UserInfo,
)
from koord.kube.client import Client
from koord.kube.errors import NotFound, Status


class Reviews:
    """Knows the tokens `allowed` and `refused`; `everybody`: knows and allows whatever token it is shown."""

    def __init__(self, *, everybody: bool = False) -> None:
        self._everybody = everybody

    async def create(self, kind: Kind[Struct], body: Mapping[str, Mapping[str, object]]) -> Struct:
        spec = body["spec"]
        if kind is TOKEN_REVIEWS:
            name = str(spec["token"])
            known = self._everybody or name in ("allowed", "refused")
            return TokenReview(TokenReviewStatus(known, UserInfo(name) if known else UserInfo()))
        assert kind is SUBJECT_ACCESS_REVIEWS
        return SubjectAccessReview(SubjectAccessReviewStatus(self._everybody or spec["user"] == "allowed"))

    async def get(self, kind: Kind[Struct], name: str, *, namespace: str = "") -> Struct:
        raise NotFound(Status(message=f"{kind.kind} {namespace}/{name} is not there"))


EVERYBODY = Authorizer(cast(Client, Reviews(everybody=True)))
REVIEWS = cast(Client, Reviews())
