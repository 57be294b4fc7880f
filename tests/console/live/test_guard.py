"""What other pages, other users and broken clients try."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from koord.api import kinds
from tests.console.live.conftest import Served
from tests.console.live.serving import Caller, Reply, console, pod
from tests.waiting import until


@dataclass
class Link:
    """A console on loopback that signs in by link."""

    file: Path
    first: str

    @property
    def url(self) -> str:
        return self.first.partition("/?")[0]

    def open(self, link: str = "") -> tuple[Reply, Caller]:
        """What a browser gets that opens a link, and the browser from then on."""
        link = link or self.file.read_text().strip()
        parts = urlsplit(link)
        reply = Caller(self.url).ask("GET", f"/?{parts.query}")
        cookie = re.match(r"[^;]+", reply.headers.get("Set-Cookie", ""))
        return reply, Caller(self.url, headers={"Cookie": cookie.group()} if cookie else {})


@pytest.fixture(scope="module")
def link(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Link]:
    folder = tmp_path_factory.mktemp("link")
    with console(served.cluster.kubeconfig, folder) as first:
        yield Link(folder / "link", first)


def test_a_link_signs_in_once_and_leaves_no_token_in_the_address(link: Link) -> None:
    used = link.file.read_text().strip()
    reply, browser = link.open(used)
    assert (reply.status, reply.headers["Location"]) == (303, "/")
    assert reply.headers["Referrer-Policy"] == "no-referrer"
    flags = reply.headers["Set-Cookie"]
    assert "HttpOnly" in flags
    assert "SameSite=Strict" in flags
    me = browser.get("/me")
    assert (me["signedInBy"], all(me["can"].values())) == ("kubeconfig", True)
    again, stranger = link.open(used)
    assert "Set-Cookie" not in again.headers
    assert stranger.ask("GET", "/api/v1/me").status == 401
    until(lambda: link.file.read_text().strip() != used, what="there is a new link")
    assert (link.file.stat().st_mode & 0o777) == 0o600


def test_nobody_gets_in_without_signing_in(link: Link, served: Served) -> None:
    for url in (link.url, served.url):
        for path in ("/me", "/overview", "/map", "/nodes", "/events", "/settings", "/acts/x", "/health"):
            reply = Caller(url).ask("GET", f"/api/v1{path}")
            assert reply.status == 401, path
            assert set(reply.body) == {"object", "cause", "remedy"}
        assert Caller(url).ask("POST", "/api/v1/previews", {"act": "colocation-off"}).status == 401
        assert Caller(url, token="wrong").ask("GET", "/api/v1/me").status == 401


def test_every_answer_forbids_frames_scripts_of_others_sniffing_and_referrers(served: Served) -> None:
    operator = served.operator
    for reply in (
        operator.ask("GET", "/api/v1/me"),
        operator.ask("GET", "/api/v1/none"),
        operator.ask("POST", "/api/v1/previews", b"{"),
        Caller(served.url).ask("GET", "/nodes/n1"),
    ):
        policy = reply.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-inline" not in policy
        assert reply.headers["X-Frame-Options"] == "DENY"
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["Referrer-Policy"] == "no-referrer"


def test_another_page_cannot_act_for_a_viewer(link: Link) -> None:
    _, browser = link.open()
    me = browser.get("/me")
    wanted = {"act": "colocation-off", "scope": {"nodes": ["n1"]}}
    own = {"X_Koord_Csrf": me["csrf"]}
    host = urlsplit(link.url).netloc
    for reason, headers in (
        ("no token", {}),
        ("a wrong token", {"X_Koord_Csrf": "x" * 43}),
        ("another origin", {**own, "Origin": "https://evil.example"}),
        ("another site", {**own, "Sec_Fetch_Site": "cross-site"}),
        ("a sibling site", {**own, "Sec_Fetch_Site": "same-site"}),
        ("no origin at all", {**own, "Origin": "null"}),
    ):
        assert browser.ask("POST", "/api/v1/previews", wanted, **headers).status == 403, reason
    form = browser.ask("POST", "/api/v1/previews", b"act=colocation-off", **own, Content_Type="text/plain")
    assert form.status == 415, "a form of another page cannot send JSON"
    assert browser.ask("POST", "/api/v1/previews", wanted, **own, Origin=f"http://{host}").status == 200
    assert browser.ask("GET", "/api/v1/me", Sec_Fetch_Site="cross-site").status == 403


def test_a_name_that_resolves_to_this_machine_is_not_the_console(link: Link) -> None:
    _, browser = link.open()
    reply = browser.ask("GET", "/api/v1/me", Host="evil.example:80")
    assert reply.status == 421
    assert browser.ask("GET", "/?token=x", Host="evil.example").status == 421


def test_many_wrong_tokens_are_refused_unseen_and_keep_no_viewer_out(link: Link, served: Served) -> None:
    viewer = Caller(link.url, token=served.operator.token)
    assert viewer.ask("GET", "/api/v1/me").status == 200
    statuses = [Caller(link.url, token=f"wrong-{n}").ask("GET", "/api/v1/me").status for n in range(25)]
    assert statuses[0] == 401
    assert statuses[-1] == 429
    assert viewer.ask("GET", "/api/v1/me").status == 200


def test_signing_in_with_a_token_and_out_again(served: Served) -> None:
    token = served.operator.token
    reply = Caller(served.url).ask("POST", "/login", {"token": token})
    cookie = reply.headers["Set-Cookie"].partition(";")[0]
    browser = Caller(served.url, headers={"Cookie": cookie})
    me = browser.get("/me")
    assert me["user"] == "system:serviceaccount:people:operator"
    assert token not in reply.headers["Set-Cookie"]
    assert browser.ask("POST", "/logout", {}, X_Koord_Csrf=me["csrf"]).status == 204
    assert browser.ask("GET", "/api/v1/me").status == 401
    assert Caller(served.url).ask("POST", "/login", {"token": "nonsense"}).status == 401
    assert Caller(served.url).ask("POST", "/login", {"other": "field"}).status == 400


DEEP = b'{"act":"thresholds","settings":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_001


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"null", 400),
        (b"[]", 400),
        (b"{", 400),
        (b'{"act":"destroy"}', 400),
        (b'{"act":"colocation-off","scope":{"nodes":[1]}}', 400),
        (b'{"act":"colocation-off","surprise":1}', 400),
        (b'{"act":"thresholds","settings":{"cpuReclaimThresholdPercent":1e400}}', 400),
        (b'{"act":"thresholds","settings":{"cpuReclaimThresholdPercent":[[[1]]]}}', 400),
        (b'{"act":"colocation-off","why":"' + b"x" * 600 + b'"}', 400),
        (b"\xff\xfe" * 40, 400),
        (DEEP[:60_000], 400),
        (DEEP, 413),
        (b" " * 1_000_000, 413),
    ],
)
def test_bodies_that_make_no_sense_are_refused_with_the_field(served: Served, body: bytes, status: int) -> None:
    reply = served.operator.ask("POST", "/api/v1/previews", body)
    assert reply.status == status
    assert reply.body["cause"]
    assert served.operator.get("/me")["user"], "the server goes on"


@pytest.mark.parametrize(
    ("act", "scope", "words"),
    [
        ("colocation-off", {"nodes": ["../../pods"]}, "not a name of a node"),
        ("colocation-off", {"nodes": ["n1"], "pool": "pool=web"}, "nodes or pool"),
        ("colocation-off", {"nodes": ["none"]}, "there is no node none"),
        ("colocation-off", {"pool": "pool=none"}, "there is no"),
        ("colocation-off", {"pool": "--kubeconfig=/etc/shadow"}, "selector"),
        ("thresholds", {"nodes": ["n1"]}, "does not take it"),
        ("rollout-start", {"feature": "everything"}, "everything"),
        ("rollout-start", {}, "needs the name of a feature"),
        ("move-pod", {"pod": "a/b/c"}, "NAMESPACE/NAME"),
        ("move-pod", {}, "NAMESPACE/NAME"),
    ],
)
def test_scopes_that_make_no_sense_are_refused_with_the_field(
    served: Served, act: str, scope: dict[str, object], words: str
) -> None:
    assert words in served.operator.preview(act, scope, 422)["cause"]


HOSTILE = ("<img src=x onerror=alert(1)>", '"><script>alert(1)</script>', "\u202egnp.exe", "a" * 300)


def test_hostile_words_come_back_as_json_and_nothing_else(served: Served) -> None:
    """Kubernetes' names cannot have them, but reasons, labels and filters can."""
    operator = served.operator
    body = pod("hostile", "n1", batch=True)
    body["metadata"]["labels"]["quota.scheduling.koordinator.sh/name"] = "research"
    body["metadata"]["annotations"] = {"note": HOSTILE[0]}
    served.cluster.ask(lambda client: client.create(kinds.PODS, body))
    act = operator.do("colocation-off", {"nodes": ["n1"]}, why=HOSTILE[0])
    reply = operator.ask("GET", f"/api/v1/acts/{act['id']}")
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.body["why"] == HOSTILE[0]
    operator.do("colocation-on", {"nodes": ["n1"]})
    for word in HOSTILE:
        quoted = json.dumps(word)
        assert operator.ask("GET", "/api/v1/find", q=quoted).status == 200
        for path in (f"/nodes?filter={len(word)}", "/nodes?sort=-none", "/nodes?cursor=x", "/nodes?limit=100000"):
            assert operator.ask("GET", f"/api/v1{path}").status in (200, 400)
    for path in (
        "/nodes/..%2f..%2fetc",
        "/pods/a%00b/c",
        "/acts/%2e%2e",
        "/series?scope=node/..",
        "/settings?pool=%3D",
    ):
        reply = operator.ask("GET", f"/api/v1{path}")
        assert 400 <= reply.status < 500, path
        assert reply.body["cause"]


def test_a_stream_of_events_is_only_for_what_a_viewer_may_see(served: Served) -> None:
    tenant = served.caller("tenant")
    assert tenant.ask("GET", "/api/v1/events?topics=pod/bank/ledger-1").status == 403
    assert tenant.ask("GET", "/api/v1/events?topics=secrets").status == 400
    assert tenant.ask("GET", "/api/v1/events?topics=" + ",".join(f"node/n{n}" for n in range(30))).status == 400
