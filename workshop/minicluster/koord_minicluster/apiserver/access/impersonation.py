"""Impersonation: `kubectl --as`. A user who may `impersonate` another acts as them for one request.

Every part of the wanted identity (user, each group, each extra value, the uid) needs the verb by itself. The groups of
a service account are known from its name; everyone but the anonymous user is `system:authenticated`, unless said.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from multidict import CIMultiDictProxy

from koord.api.kubernetes.access import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    UserInfo,
    service_account_groups,
    split_service_account,
)
from koord_minicluster.apiserver.access.rbac import Access, Authorizer, refused
from koord_minicluster.apiserver.status import bad_request

_USER: Final = "Impersonate-User"
_GROUP: Final = "Impersonate-Group"
_UID: Final = "Impersonate-Uid"
_EXTRA_PREFIX: Final = "impersonate-extra-"
_GROUP_OF_REVIEWS: Final = "authentication.k8s.io"


def impersonated(user: UserInfo, headers: CIMultiDictProxy[str], authorizer: Authorizer) -> UserInfo:
    """The user that the request acts as: the caller, or whom it asks to be. Raises 403 where it may not."""
    name = headers.get(_USER, "")
    if not name and "impersonate-" not in " ".join(headers).lower():
        return user
    groups = list(headers.getall(_GROUP, []))
    extra: dict[str, list[str]] = {}
    for key, value in headers.items():
        if key.lower().startswith(_EXTRA_PREFIX):
            extra.setdefault(unquote(key[len(_EXTRA_PREFIX) :].lower()), []).append(value)
    uid = headers.get(_UID, "")
    if not name:
        if not (groups or extra or uid):
            return user
        raise bad_request(f"requested [{' '.join(_references(groups, extra, uid))}] without impersonating a user")
    for access in _needed(name, groups, extra, uid):
        allowed, why = authorizer.allowed(user, access)
        if not allowed:
            raise refused(user, access, why)
    account = split_service_account(name)
    if account and not groups:
        groups += service_account_groups(account[0])
    if name == ANONYMOUS:
        if UNAUTHENTICATED not in groups:
            groups.append(UNAUTHENTICATED)
    elif AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
        groups.append(AUTHENTICATED)
    return UserInfo(name, uid, tuple(groups), {key: tuple(values) for key, values in extra.items()})


def _references(groups: list[str], extra: dict[str, list[str]], uid: str) -> Iterator[str]:
    """What was asked for as Go prints object references: kind, namespace, name, uid, version, revision, field."""
    for group in groups:
        yield f"{{Group  {group}    }}"
    for key, values in extra.items():
        for value in values:
            yield f"{{UserExtra  {value}  {_GROUP_OF_REVIEWS}/v1  {key}}}"
    if uid:
        yield f"{{UID  {uid}  {_GROUP_OF_REVIEWS}/v1  }}"


def _needed(name: str, groups: list[str], extra: dict[str, list[str]], uid: str) -> Iterator[Access]:
    if account := split_service_account(name):
        yield Access("impersonate", resource="serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield Access("impersonate", resource="users", name=name)
    for group in groups:
        yield Access("impersonate", resource="groups", name=group)
    for key, values in extra.items():
        for value in values:
            yield Access("impersonate", _GROUP_OF_REVIEWS, "userextras", key, value)
    if uid:
        yield Access("impersonate", _GROUP_OF_REVIEWS, "uids", name=uid)
