from __future__ import annotations

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from koord.api.kubernetes.access import UserInfo
from koord_minicluster.apiserver.access.impersonation import impersonated
from koord_minicluster.apiserver.access.rbac import Authorizer
from koord_minicluster.apiserver.status import StatusError
from tests.minicluster.apiserver.access.decisions import binding, role, rule

ADMIN = UserInfo("root", groups=("system:masters",))


def asked(user: UserInfo, *headers: tuple[str, str], authorizer: Authorizer | None = None) -> UserInfo:
    return impersonated(user, CIMultiDictProxy(CIMultiDict(headers)), authorizer or Authorizer())


def test_without_headers_one_is_oneself() -> None:
    assert asked(ADMIN) is ADMIN


@pytest.mark.parametrize(
    ("headers", "groups"),
    [
        ([("Impersonate-User", "ann")], ("system:authenticated",)),
        (
            [("impersonate-user", "ann"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")],
            ("a", "b", "system:authenticated"),
        ),
        ([("Impersonate-User", "ann"), ("Impersonate-Group", "system:unauthenticated")], ("system:unauthenticated",)),
        ([("Impersonate-User", "system:anonymous")], ("system:unauthenticated",)),
        (
            [("Impersonate-User", "system:serviceaccount:shop:web")],
            ("system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"),
        ),
        (
            [("Impersonate-User", "system:serviceaccount:shop:web"), ("Impersonate-Group", "g")],
            ("g", "system:authenticated"),
        ),
    ],
)
def test_groups_are_those_asked_for_and_those_that_follow(
    headers: list[tuple[str, str]], groups: tuple[str, ...]
) -> None:
    assert asked(ADMIN, *headers).groups == groups


def test_extra_keys_are_lower_case_and_unescaped() -> None:
    user = asked(
        ADMIN, ("Impersonate-User", "ann"), ("Impersonate-Extra-Scopes.Example.com%2fA", "x"), ("Impersonate-Uid", "u")
    )
    assert user.extra == {"scopes.example.com/a": ("x",)}
    assert user.uid == "u"


def test_each_part_of_an_identity_needs_the_verb_by_itself() -> None:
    authorizer = Authorizer()
    authorizer.put(
        "ClusterRole",
        role("r", rule("impersonate", "core", "users", "ann"), rule("impersonate", "core", "groups", "dev")),
    )
    authorizer.put("ClusterRoleBinding", binding("b", "ClusterRole/r", "User/bot"))
    bot = UserInfo("bot")
    as_ann = ("Impersonate-User", "ann")
    assert asked(bot, as_ann, ("Impersonate-Group", "dev"), authorizer=authorizer).name == "ann"
    for more, named in (
        ([("Impersonate-User", "bob")], 'users "bob"'),
        ([as_ann, ("Impersonate-Group", "system:masters")], 'groups "system:masters"'),
        ([as_ann, ("Impersonate-Uid", "u")], 'uids.authentication.k8s.io "u"'),
        ([as_ann, ("Impersonate-Extra-A", "x")], 'userextras.authentication.k8s.io "x"'),
        ([("Impersonate-User", "system:serviceaccount:a:b")], 'serviceaccounts "b"'),
    ):
        with pytest.raises(StatusError) as refused:
            asked(bot, *more, authorizer=authorizer)
        assert refused.value.code == 403
        assert refused.value.message.startswith(f'{named} is forbidden: User "bot" cannot impersonate resource')


def test_groups_without_a_user_are_a_bad_request() -> None:
    with pytest.raises(StatusError) as refused:
        asked(ADMIN, ("Impersonate-Group", "dev"))
    assert refused.value.code == 400
    assert refused.value.message == "requested [{Group  dev    }] without impersonating a user"
