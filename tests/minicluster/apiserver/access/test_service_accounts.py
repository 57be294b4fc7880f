from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from koord_minicluster.apiserver.access.service_accounts import Bound, InvalidToken, ServiceAccountTokens
from koord_minicluster.apiserver.certs import signing_key

ISSUER = "https://kubernetes.default.svc"


class World:
    """A clock, and the uids of what exists."""

    def __init__(self, directory: Path) -> None:
        self.now_s = 1_800_000_000.0
        self.uids = {("serviceaccounts", "shop", "web"): "sa-uid", ("pods", "shop", "web-1"): "pod-uid"}
        self.tokens = ServiceAccountTokens(
            signing_key(directory), ISSUER, lambda *key: self.uids.get(key), lambda: self.now_s
        )

    def issue(self, *bound: Bound, audiences: tuple[str, ...] = (), lifetime_s: int = 3600) -> str:
        return self.tokens.issue("shop", "web", "sa-uid", audiences, lifetime_s, bound)[0]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def claims(token: str) -> dict[str, Any]:
    text = token.split(".")[1]
    decoded: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return decoded


def test_a_token_names_the_account_its_groups_and_itself(world: World) -> None:
    token = world.issue()
    user, audiences = world.tokens.check(token)
    assert user.name == "system:serviceaccount:shop:web"
    assert user.uid == "sa-uid"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated")
    assert user.extra == {"authentication.kubernetes.io/credential-id": (f"JTI={claims(token)['jti']}",)}
    assert audiences == (ISSUER,)


def test_a_token_carries_the_claims_that_other_verifiers_look_for(world: World) -> None:
    found = claims(world.issue(Bound("pod", "web-1", "pod-uid"), lifetime_s=600))
    assert found["sub"] == "system:serviceaccount:shop:web"
    assert (found["iss"], found["aud"], found["exp"] - found["iat"]) == (ISSUER, [ISSUER], 600)
    assert found["kubernetes.io"] == {
        "namespace": "shop",
        "pod": {"name": "web-1", "uid": "pod-uid"},
        "serviceaccount": {"name": "web", "uid": "sa-uid"},
    }


def test_a_token_ends_with_its_time(world: World) -> None:
    token = world.issue(lifetime_s=600)
    world.now_s += 599
    world.tokens.check(token)
    world.now_s += 1
    with pytest.raises(InvalidToken):
        world.tokens.check(token)


def test_a_token_ends_with_its_account_even_if_one_of_the_same_name_follows(world: World) -> None:
    token = world.issue()
    world.tokens.check(token)
    world.uids["serviceaccounts", "shop", "web"] = "another"
    with pytest.raises(InvalidToken):
        world.tokens.check(token)


def test_a_bound_token_ends_with_its_pod_and_tells_it_while_it_lives(world: World) -> None:
    token = world.issue(Bound("pod", "web-1", "pod-uid"))
    assert world.tokens.check(token)[0].extra["authentication.kubernetes.io/pod-name"] == ("web-1",)
    del world.uids["pods", "shop", "web-1"]
    with pytest.raises(InvalidToken):
        world.tokens.check(token)


def test_a_token_for_others_does_not_open_this_server(world: World) -> None:
    token = world.issue(audiences=("vault", "mail"))
    assert world.tokens.check(token, ("mail", "other"))[1] == ("mail",)
    with pytest.raises(InvalidToken, match="invalid for the target audiences"):
        world.tokens.check(token)


def test_no_bit_of_a_token_can_be_changed(world: World) -> None:
    token = world.issue()
    for place in range(0, len(token), 7):
        other = "A" if token[place] != "A" else "B"
        with pytest.raises(InvalidToken):
            world.tokens.check(token[:place] + other + token[place + 1 :])


@pytest.mark.parametrize("text", ["", ".", "a.b", "a.b.c", "....", "é.é.é", "eyJhbGciOiJub25lIn0.e30."])
def test_what_is_no_token_is_refused(world: World, text: str) -> None:
    with pytest.raises(InvalidToken):
        world.tokens.check(text)


def test_tokens_outlive_a_restart_and_not_a_new_key(world: World, tmp_path: Path) -> None:
    token = world.issue()
    again = World(tmp_path)
    again.tokens.check(token)
    (tmp_path / "sa.key").unlink()
    with pytest.raises(InvalidToken):
        World(tmp_path).tokens.check(token)
