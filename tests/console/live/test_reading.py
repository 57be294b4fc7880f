"""What viewers see: sums for all who may get /koord/overview, pods where they may list pods."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from koord.api import kinds
from tests.console.live.conftest import Served
from tests.console.live.serving import Caller, metric, pod
from tests.waiting import until


def test_the_overview_adds_up_all_nodes_and_hides_names(served: Served) -> None:
    viewer = served.caller("viewer")

    def complete() -> Any:
        overview = viewer.get("/overview")
        return overview if overview["nodes"]["reporting"] == 3 and overview["pending"]["total"] else None

    overview = until(complete, what="all nodes report")
    assert overview["nodes"]["total"] == 3
    assert overview["cpuMilli"]["capacity"] == 48_000
    assert overview["cpuMilli"]["lent"] == 18_000
    assert overview["cpuMilli"]["usedInAll"] == 15_000
    assert overview["services"]["total"] == 3
    assert overview["hiddenPods"] == 6, "sums include pods of namespaces that the viewer may not list"
    assert overview["pending"]["groups"][0]["examples"] == []
    assert viewer.get("/pending")["hidden"] == 1
    assert viewer.get("/pending")["columns"]["name"] == []
    seen = served.caller("tenant").get("/overview")
    assert seen["pending"]["groups"][0]["examples"] == ["shop/waiting-1"]
    assert seen["hiddenPods"] == 1


def test_a_tenant_sees_pods_of_its_namespaces_and_counts_of_others(served: Served) -> None:
    tenant = served.caller("tenant")
    assert tenant.get("/me")["namespaces"] == ["shop"]
    node = tenant.get("/nodes/n3")
    assert [one["name"] for one in node["pods"]] == ["job-2"]
    assert node["hiddenPods"] == 1
    assert tenant.ask("GET", "/api/v1/pods/bank/ledger-1").status == 403
    assert tenant.ask("GET", "/api/v1/services/bank/Deployment/web").status == 403
    assert tenant.get("/pods/shop/web-1")["node"] == "n1"
    assert tenant.get("/find?q=ledger")["hidden"] == 1


def test_a_stranger_is_told_which_right_is_missing(served: Served) -> None:
    reply = served.caller("stranger").ask("GET", "/api/v1/overview")
    assert reply.status == 403
    assert "get on the path /koord/overview" in reply.body["cause"]


def test_lists_come_in_pages_that_repeat_and_lose_nothing(served: Served) -> None:
    operator = served.operator
    names, cursor = [], ""
    for _ in range(5):
        page = operator.get(f"/nodes?columns=name,usedMilli&sort=-name&limit=1&cursor={cursor}")
        assert set(page["columns"]) == {"name", "usedMilli"}
        names += page["columns"]["name"]
        cursor = page["next"]
        if cursor is None:
            break
    assert names == ["n3", "n2", "n1"]
    assert operator.ask("GET", "/api/v1/nodes?columns=none").body["cause"].startswith("query columns")


def test_an_answer_that_did_not_change_costs_nothing(served: Served) -> None:
    operator = served.operator
    first = operator.ask("GET", "/api/v1/nodes?columns=name,pods")
    tag = first.headers["ETag"]
    again = operator.ask("GET", "/api/v1/nodes?columns=name,pods", If_None_Match=tag)
    assert (again.status, again.raw) == (304, b"")
    packed = operator.ask("GET", "/api/v1/settings", Accept_Encoding="gzip")
    assert packed.headers["Content-Encoding"] == "gzip"
    plain = operator.ask("GET", "/api/v1/settings")
    assert len(packed.raw) < len(plain.raw)


def test_the_map_has_a_row_for_each_node_and_groups_by_pool(served: Served) -> None:
    by_pool = served.operator.get("/map?by=pool")
    assert by_pool["groups"] == ["batch", "web"]
    groups = {name: by_pool["groups"][group] for name, group in zip(by_pool["names"], by_pool["group"], strict=True)}
    assert groups == {"n1": "web", "n2": "web", "n3": "batch"}
    silhouettes = served.operator.get("/map?by=pool&bins=10")["groups"]
    assert [(one["name"], one["nodes"]) for one in silhouettes] == [("batch", 1), ("web", 2)]


def test_series_begin_with_the_console_and_say_so(served: Served) -> None:
    series = until(
        lambda: (series := served.operator.get("/series?scope=cluster&resource=cpu"))["capacity"] and series,
        what="there is a sample",
    )
    assert series["capacity"][-1] == 48_000
    assert series["source"] == "server"
    assert "since the console started" in series["note"]
    assert served.operator.ask("GET", "/api/v1/series?scope=node/none").status == 404


def test_health_is_that_of_koord_status(served: Served) -> None:
    health = served.operator.get("/health")
    assert health["command"] == "koord status"
    assert health["level"] == "warning", "no manager runs here"
    assert not health["status"]["unread"], "the rights that the installation gives are enough"
    assert any("webhooks are not registered" in problem["what"] for problem in health["status"]["problems"])


def test_how_a_node_lends_and_why_a_pod_is_pending_are_explained_by_the_viewers_own_rights(served: Served) -> None:
    operator = served.operator
    lending = operator.get("/nodes/n1/lending")
    assert lending["node"] == "n1", lending
    reply = served.caller("viewer").ask("GET", "/api/v1/nodes/n1/lending")
    assert reply.status == 403


@contextmanager
def stream(caller: Caller, topics: str, last_id: str = "") -> Iterator[Iterator[tuple[str, str, Any]]]:
    """Events as a browser reads them: id, name, data."""
    parts = urlsplit(caller.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    headers = {"Authorization": f"Bearer {caller.token}", **({"Last-Event-ID": last_id} if last_id else {})}
    connection.request("GET", f"/api/v1/events?topics={topics}", headers=headers)
    answer = connection.getresponse()
    assert answer.status == 200

    def events() -> Iterator[tuple[str, str, Any]]:
        event = {}
        while line := answer.readline().decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            event[name] = value
            if name == "data":
                answer.readline()
                yield event["id"], event["event"], json.loads(value)
                event = {}

    try:
        yield events()
    finally:
        connection.close()


def test_changes_come_as_events_and_a_reader_that_comes_back_misses_none(served: Served) -> None:
    operator = served.operator
    client = served.cluster.ask
    with stream(operator, "map,overview") as events:
        first, name, _ = next(events)
        assert name == "hello"
        client(lambda api: api.patch(kinds.NODES, "n2", {"spec": {"unschedulable": True}}))
        last_id, delta = next(
            (event_id, data) for event_id, name, data in events if name == "map" and "n2" in data["names"]
        )
        assert delta["marks"][delta["names"].index("n2")] & 8
        assert first.partition("-")[0] == last_id.partition("-")[0] == operator.get("/me")["epoch"]
    client(lambda api: api.patch(kinds.NODES, "n2", {"spec": {"unschedulable": None}}))
    with stream(operator, "map", last_id) as events:
        _, _, delta = next(event for event in events if event[1] == "map" and "n2" in event[2]["names"])
        assert not delta["marks"][delta["names"].index("n2")] & 8
    with stream(operator, f"map,node/n1&from={last_id}") as events:
        _, _, delta = next(event for event in events if event[1] == "map" and "n2" in event[2]["names"])
        assert not delta["marks"][delta["names"].index("n2")] & 8, "a page that follows more resumes, too"
    with stream(operator, "map", "00000000-5") as events:
        assert next(events)[1] == "reset", "the ids of another process mean nothing here"


def test_a_pod_and_a_report_change_what_pages_show(served: Served) -> None:
    operator = served.operator
    with stream(operator, "node/n3,pod/shop/late") as events:
        next(events)
        served.cluster.ask(lambda api: api.create(kinds.PODS, pod("late", "", batch=True)))
        until(lambda: operator.ask("GET", "/api/v1/pods/shop/late").status == 200, what="the pod is known")
        report = metric("n3", batch_pod="job-2")
        served.cluster.ask(lambda api: api.patch(kinds.NODE_METRICS, "n3", report, subresource="status"))
        assert next(event for event in events if event[1] == "node/n3")
    detail = operator.get("/nodes/n3")
    assert next(one for one in detail["pods"] if one["name"] == "job-2")["usedMilli"] == 1500
