"""A viewer: its user name and its rights, by its own credentials.

On loopback the viewer is the user of the kubeconfig that the console was started with; elsewhere each viewer brings a
bearer token. The API server says who the viewer is (SelfSubjectReview) and what it may do (SelfSubjectAccessReview),
both asked with the viewer's own credentials: the console's own rights are never used for a viewer. Answers
are kept for a minute.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from koord.api.kinds import Kind
from koord.api.machinery.struct import Struct
from koord.console.rights import OVERVIEW_PATH, PathRight, Right
from koord.kube.authorize import UserInfo
from koord.kube.client import Client
from koord.kube.cluster_config import ClusterConfig
from koord.kube.errors import ApiError
from koord.operate.install.live.may_i import SELF_REVIEWS

ALLOWED_S: Final = 60.0
DENIED_S: Final = 10.0
NAMESPACES_S: Final = 60.0
TOKEN_S: Final = 60.0
"""A token is reviewed again after this time, so that one that was revoked stops working."""
MOST_VIEWERS: Final = 1000
AT_ONCE: Final = 16


class _ReviewStatus(Struct):
    user_info: UserInfo = UserInfo()


class SelfSubjectReview(Struct):
    status: _ReviewStatus = _ReviewStatus()


SELF: Final[Kind[SelfSubjectReview]] = Kind(
    "authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", False, SelfSubjectReview
)


class NotSignedIn(Exception):
    """The credentials are not valid at the API server."""


@dataclass(slots=True)
class Viewer:
    """One user. `client` calls the API server as this user."""

    user: str
    groups: tuple[str, ...]
    client: Client
    signed_in_by: Literal["kubeconfig", "token"]
    key: str
    "Tells users apart, without secrets."
    _rights: dict[Right | PathRight, tuple[bool, float]] = field(default_factory=dict)
    _namespaces: tuple[frozenset[str] | None, float] = (frozenset(), 0.0)
    "Where it may list pods; None: everywhere."

    async def may(self, right: Right | PathRight) -> bool:
        now_s = time.monotonic()
        kept = self._rights.get(right)
        if kept is not None and now_s < kept[1]:
            return kept[0]
        review = await self.client.create(SELF_REVIEWS, {"spec": right.attributes()})
        allowed = review.status.allowed
        self._rights[right] = (allowed, now_s + (ALLOWED_S if allowed else DENIED_S))
        return allowed

    async def missing(self, rights: Iterable[Right | PathRight]) -> tuple[str, ...]:
        """The rights that it lacks, as people write them."""
        return tuple(map(str, await self.lacks(rights)))

    async def lacks(self, rights: Iterable[Right | PathRight]) -> tuple[Right | PathRight, ...]:
        wanted = list(dict.fromkeys(rights))
        allowed = await _together([self.may(right) for right in wanted])
        return tuple(right for right, has in zip(wanted, allowed, strict=True) if not has)

    def forget_rights(self) -> None:
        """Asks again from the next question on: what was allowed a minute ago is too old for an act."""
        self._rights.clear()

    async def namespaces(self, present: Iterable[str]) -> frozenset[str] | None:
        """The namespaces whose pods it may list; None: all."""
        kept, until_s = self._namespaces
        if time.monotonic() < until_s:
            return kept
        if await self.may(Right("list", "pods")):
            allowed = None
        else:
            listed = sorted(set(present))
            has = await _together([self.may(Right("list", "pods", namespace=name)) for name in listed])
            allowed = frozenset(name for name, may in zip(listed, has, strict=True) if may)
        self._namespaces = allowed, time.monotonic() + NAMESPACES_S
        return allowed

    async def may_list(self, present: Iterable[str]) -> Callable[[str], bool]:
        allowed = await self.namespaces(present)
        return (lambda namespace: True) if allowed is None else allowed.__contains__

    async def may_see_sums(self) -> bool:
        return await self.may(PathRight("get", OVERVIEW_PATH))


async def _together(asked: list[object]) -> list[bool]:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(question: object) -> bool:
        async with gate:
            return bool(await question)  # type: ignore[misc] # a coroutine

    return await asyncio.gather(*(one(question) for question in asked))


class Viewers:
    """Viewers by token. Tokens are kept only inside the viewers' clients."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._by_token: OrderedDict[str, tuple[Viewer, float]] = OrderedDict()

    async def of_token(self, token: str) -> Viewer:
        """Raises `NotSignedIn` for a token that is not valid, and ApiError if the API server cannot be asked."""
        key = hashlib.sha256(token.encode()).hexdigest()
        kept = self._by_token.get(key)
        if kept is not None and time.monotonic() < kept[1]:
            self._by_token.move_to_end(key)
            return kept[0]
        client = kept[0].client if kept is not None else Client(bearer_config(self._config, token))
        if kept is None:
            await client.__aenter__()
        try:
            user = await who(client)
        except BaseException:
            self._by_token.pop(key, None)
            await client.__aexit__(None, None, None)
            raise
        viewer = kept[0] if kept is not None else Viewer(user.username, user.groups, client, "token", key)
        self._by_token[key] = viewer, time.monotonic() + TOKEN_S
        self._by_token.move_to_end(key)
        while len(self._by_token) > MOST_VIEWERS:
            _, (dropped, _) = self._by_token.popitem(last=False)
            await dropped.client.__aexit__(None, None, None)
        return viewer

    def has(self, token: str) -> bool:
        """Whether the token was valid a short time ago."""
        return hashlib.sha256(token.encode()).hexdigest() in self._by_token

    async def close(self) -> None:
        for viewer, _ in self._by_token.values():
            await viewer.client.__aexit__(None, None, None)
        self._by_token.clear()


async def who(client: Client) -> UserInfo:
    """The user of a client's credentials."""
    try:
        review = await client.limited(attempts=1).create(SELF, {})
    except ApiError as error:
        if error.code == 401:
            raise NotSignedIn from error
        raise
    return review.status.user_info


def bearer_config(config: ClusterConfig, token: str) -> ClusterConfig:
    """The same cluster, with a token as the only credentials."""
    return replace(
        config,
        origin="the viewer's token",
        cert_file="",
        cert_data=b"",
        key_file="",
        key_data=b"",
        token=token,
        token_file="",
        username="",
        password="",
        exec=None,
        impersonation=None,
    )


Missing = Mapping[str, tuple[str, ...]]
