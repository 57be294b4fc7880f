"""A request for access: the user (name, groups, extras of the credential) and the access that is requested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

MASTERS: Final = "system:masters"
"Its members may do everything, whatever the roles say."
CONTROLLERS: Final = "system:kube-controller-manager"
"The user of the controllers that come with a cluster, where they share one."
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
ANONYMOUS: Final = "system:anonymous"
SERVICE_ACCOUNTS: Final = "system:serviceaccounts"
CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"

_SERVICE_ACCOUNT_PREFIX: Final = "system:serviceaccount:"


class Access(msgspec.Struct, frozen=True, gc=False):
    """What someone wants to do: a verb on a resource, or on a path where `resource` is empty."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class UserInfo:
    """An authenticated (or impersonated, or anonymous) user."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

    @classmethod
    def anonymous(cls) -> UserInfo:
        return cls(ANONYMOUS, groups=(UNAUTHENTICATED,))

    def as_json(self) -> dict[str, Any]:
        """As reviews and admission requests show it: without what is empty."""
        shown: dict[str, Any] = {"username": self.name} if self.name else {}
        if self.uid:
            shown["uid"] = self.uid
        if self.groups:
            shown["groups"] = list(self.groups)
        if self.extra:
            shown["extra"] = {key: list(values) for key, values in sorted(self.extra.items())}
        return shown


def service_account_user(namespace: str, name: str) -> str:
    return f"{_SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, str]:
    return SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}"


def split_service_account(user: str) -> tuple[str, str] | None:
    """(namespace, name) of a service account's user name, or None for any other user."""
    namespace, colon, name = user.removeprefix(_SERVICE_ACCOUNT_PREFIX).partition(":")
    if not user.startswith(_SERVICE_ACCOUNT_PREFIX) or not (namespace and colon and name) or ":" in name:
        return None
    return namespace, name
