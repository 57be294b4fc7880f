"""Acts as viewers do them: preview, confirm, progress, record, undo; each with the viewer's own rights."""

from __future__ import annotations

import json
from typing import Any

from koord.api import kinds
from koord.api.protocol import names
from koord.kube.client import Client
from tests.console.live.conftest import Served
from tests.console.live.serving import CLUSTER_ROLE_BINDINGS, pod
from tests.waiting import until

CONFIG = names.CONFIGMAP_SLO_CONTROLLER
HERE = names.NAMESPACE_KOORDINATOR


def stored(served: Served, name: str) -> dict[str, str]:
    return dict(served.cluster.ask(lambda client: client.get(kinds.CONFIG_MAPS, name, namespace=HERE)).data)


def lends(served: Served, node: str) -> object:
    stored_object = served.cluster.ask(lambda client: client.get(kinds.NODES, node))
    return stored_object.status.allocatable.get(names.RESOURCE_BATCH_CPU)


def strategy(served: Served, node: str) -> str | None:
    stored_object = served.cluster.ask(lambda client: client.get(kinds.NODES, node))
    return stored_object.metadata.annotations.get("node.koordinator.sh/colocation-strategy")


def create(served: Served, body: dict[str, Any]) -> None:
    served.cluster.ask(lambda client: client.create(kinds.PODS, body))


def pods(served: Served) -> set[str]:
    stored_object = served.cluster.ask(lambda client: client.list(kinds.PODS))
    return {one.metadata.key for one in stored_object}


def test_a_node_is_switched_off_and_on_again_with_who_and_why(served: Served) -> None:
    operator = served.operator
    preview = operator.preview("colocation-off", {"nodes": ["n2"]}, why="a disk is swapped")
    assert preview["takenBackMilli"] == 6000
    assert preview["verb"] == "Turn lending off"
    assert preview["missingRights"] == []
    assert preview["command"] == "koord colocation off --node=n2"
    assert lends(served, "n2") is not None, "a preview changes nothing"
    act = operator.done(operator.confirm(preview))
    assert (act["state"], act["why"], act["canUndo"]) == ("done", "a disk is swapped", True)
    assert act["who"] == "system:serviceaccount:people:operator"
    assert [step["state"] for step in act["steps"]] == ["done", "done"]
    assert lends(served, "n2") is None
    assert json.loads(strategy(served, "n2") or "{}") == {"enable": False}
    record = json.loads(stored(served, names.CONFIGMAP_CONSOLE_ACTS)[act["id"]])
    assert record["act"]["who"] == act["who"]
    undo = operator.post(f"/acts/{act['id']}/undo", {}, 200)
    assert undo["act"] == "colocation-on"
    undone = operator.done(operator.confirm(undo))
    assert (undone["state"], undone["undoOf"]) == ("done", act["id"])
    assert strategy(served, "n2") is None
    assert operator.get(f"/acts/{act['id']}")["undoneBy"] == undone["id"]
    operator.post(f"/acts/{act['id']}/undo", {}, 409)


def test_an_act_is_an_event_and_a_change(served: Served) -> None:
    operator = served.operator
    act = operator.do("colocation-off", {"nodes": ["n2"]}, why="for the list")
    try:

        def shown() -> bool:
            columns = operator.get("/changes?filter=for+the+list&columns=id,who,why,result,canUndo")["columns"]
            return bool(columns["id"]) and columns["result"] == ["done"] and columns["canUndo"] == [True]

        until(shown, what="the act is on the list of changes")
        events = served.cluster.ask(lambda client: client.list(kinds.EVENTS, namespace=HERE))
        notes = [event.note for event in events if event.reason == "ConsoleAct"]
        assert any("people:operator turned co-location off for node n2: for the list" in note for note in notes)
    finally:
        operator.done(operator.confirm(operator.post(f"/acts/{act['id']}/undo", {}, 200)))


def test_only_the_pods_that_were_shown_are_evicted(served: Served) -> None:
    operator = served.operator
    create(served, pod("short-1", "n2", batch=True))
    preview = operator.preview("colocation-off", {"nodes": ["n2"]}, evict=True)
    assert [one["pod"] for one in preview["podsThatGo"]] == ["shop/short-1"]
    assert preview["verb"] == "Evict 1 pod"
    assert "does not bring evicted pods back" in preview["cannotBeUndone"]
    create(served, pod("short-2", "n2", batch=True))
    changed = operator.confirm(preview, 409)
    assert changed["differences"] == ["shop/short-2 would be evicted, too"]
    assert {"shop/short-1", "shop/short-2"} <= pods(served), "nothing is done if objects changed"
    assert len(changed["preview"]["podsThatGo"]) == 2
    act = operator.done(operator.confirm(changed["preview"]))
    assert sorted(act["evicted"]) == ["shop/short-1", "shop/short-2"]
    until(lambda: not {"shop/short-1", "shop/short-2"} & pods(served), what="the pods are gone")
    operator.do("colocation-on", {"nodes": ["n2"]})


def test_a_pod_of_the_same_name_is_not_the_one_that_was_shown(served: Served) -> None:
    operator = served.operator

    async def again(client: Client) -> None:
        await client.delete(kinds.PODS, "twin", namespace="shop", grace_s=0)
        await client.create(kinds.PODS, pod("twin", "n2", batch=True))

    create(served, pod("twin", "n2", batch=True))
    preview = operator.preview("colocation-off", {"nodes": ["n2"]}, evict=True)
    served.cluster.ask(again)
    assert operator.confirm(preview, 409)["differences"] == ["shop/twin is another one"]
    served.cluster.ask(lambda client: client.delete(kinds.PODS, "twin", namespace="shop", grace_s=0))


def test_a_budget_that_refuses_is_shown_before_and_after(served: Served) -> None:
    operator = served.operator
    budget = {
        "metadata": {"name": "keep", "namespace": "shop"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "job"}}},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
    }
    served.cluster.ask(lambda client: client.create(kinds.POD_DISRUPTION_BUDGETS, budget))
    try:
        preview = operator.preview("colocation-off", {"nodes": ["n3"]}, evict=True)
        assert list(preview["budgets"]) == ["shop/job-2"]
        assert "shop/job-2" in pods(served), "asking a budget evicts nothing"
    finally:
        served.cluster.ask(lambda client: client.delete(kinds.POD_DISRUPTION_BUDGETS, "keep", namespace="shop"))


def test_a_pool_and_the_cluster_need_the_name_typed(served: Served) -> None:
    operator = served.operator
    preview = operator.preview("colocation-off", {"pool": "pool=web"})
    assert preview["nodes"] == ["n1", "n2"]
    assert preview["podsThatStay"] == ["shop/job-1"]
    word = preview["typeToConfirm"]
    assert word
    body = {"preview": preview["id"], "typed": "yes"}
    refused = operator.post("/acts", body, 400, Idempotency_Key="typed")
    assert word in refused["cause"]
    act = operator.done(operator.confirm(preview))
    section = json.loads(stored(served, CONFIG)["colocation-config"])
    assert section["nodeConfigs"][0]["nodeSelector"] == {"matchLabels": {"pool": "web"}}
    assert act["command"] == "koord colocation off --selector=pool=web"
    operator.done(operator.confirm(operator.post(f"/acts/{act['id']}/undo", {}, 200)))
    assert (
        "nodeConfigs" not in json.loads(stored(served, CONFIG)["colocation-config"])
        or not json.loads(stored(served, CONFIG)["colocation-config"])["nodeConfigs"]
    )


def test_the_same_key_is_the_same_act_and_a_preview_is_done_once(served: Served) -> None:
    operator = served.operator
    preview = operator.preview("colocation-off", {"nodes": ["n1"]})
    first = operator.confirm(preview, key="one")
    again = operator.confirm(preview, key="one")
    assert first["id"] == again["id"]
    assert "used" in operator.confirm(preview, 410, key="two")["cause"]
    other = operator.preview("colocation-on", {"nodes": ["n3"]}, 422)
    assert "on for node n3 already" in other["cause"]
    operator.done(first)
    operator.do("colocation-on", {"nodes": ["n1"]})


def test_thresholds_of_a_pool_are_validated_tried_written_and_undone(served: Served) -> None:
    operator = served.operator
    settings = operator.get("/settings?pool=pool%3Dbatch")
    by_name = {one["name"]: one for one in settings["thresholds"]}
    assert by_name["cpuReclaimThresholdPercent"]["own"] is None
    assert (by_name["cpuReclaimThresholdPercent"]["minimum"], by_name["degradeTimeMinutes"]["unit"]) == (0, "min")
    assert {"name": "batch", "selector": "pool=batch", "nodes": 1} in settings["pools"]
    for bad, words in (
        ({"cpuReclaimThresholdPercent": 900}, "from 0 to 200 percent"),
        ({"cpuReclaimThresholdPercent": "70"}, "from 0 to 200 percent"),
        ({"noSuchField": 1}, "is not a threshold"),
        ({}, "no threshold is given"),
    ):
        refused = operator.preview("thresholds", {"pool": "pool=batch"}, 422, settings=bad)
        assert words in refused["cause"], refused
    wanted = {"batchMemoryThresholdPercent": 10, "degradeTimeMinutes": 20}
    preview = operator.preview("thresholds", {"pool": "pool=batch"}, settings=wanted)
    assert [(one["field"], one["before"], one["after"]) for one in preview["changes"]] == [
        ("batchMemoryThresholdPercent", "", "10"),
        ("degradeTimeMinutes", "", "20"),
    ]
    assert preview["whatIf"]["nodes"] == 1
    assert preview["whatIf"]["lentBytesAfter"] < preview["whatIf"]["lentBytesBefore"]
    act = operator.done(operator.confirm(preview))
    assert act["state"] == "done", act
    item = json.loads(stored(served, CONFIG)["colocation-config"])["nodeConfigs"][0]
    assert (item["batchMemoryThresholdPercent"], item["degradeTimeMinutes"]) == (10, 20)

    def shown() -> bool:
        lines = operator.get("/settings?pool=pool%3Dbatch")["thresholds"]
        return any(one["name"] == "degradeTimeMinutes" and one["value"] == one["own"] == 20 for one in lines)

    until(shown, what="the page shows the new value")
    operator.done(operator.confirm(operator.post(f"/acts/{act['id']}/undo", {}, 200)))
    assert not json.loads(stored(served, CONFIG)["colocation-config"]).get("nodeConfigs")


def test_a_setting_that_somebody_else_changes_meanwhile_stops_the_act(served: Served) -> None:
    operator = served.operator
    preview = operator.preview("thresholds", {}, settings={"memoryReclaimThresholdPercent": 50})
    before = stored(served, CONFIG)["colocation-config"]
    other = json.dumps({**json.loads(before), "degradeTimeMinutes": 30})

    def write(text: str) -> None:
        body = {"data": {"colocation-config": text}}
        served.cluster.ask(lambda client: client.patch(kinds.CONFIG_MAPS, CONFIG, body, namespace=HERE))

    write(other)
    try:
        changed = operator.confirm(preview, 409)
        assert "was changed" in changed["differences"][0]
        assert stored(served, CONFIG)["colocation-config"] == other
    finally:
        write(before)


def test_the_policy_of_a_pool_is_switched_and_undone(served: Served) -> None:
    operator = served.operator
    refused = operator.preview("policy", {"pool": "pool=batch"}, 422, settings={"cpu": "best"})
    assert "adaptive" in refused["cause"]
    preview = operator.preview("policy", {"pool": "pool=batch"}, settings={"cpu": "usage", "memory": "usage"})
    assert {one["field"] for one in preview["changes"]} == {"cpu", "memory"}
    act = operator.done(operator.confirm(preview))
    item = json.loads(stored(served, CONFIG)["colocation-config"])["nodeConfigs"][0]
    assert item["cpuCalculatePolicy"] == "usage"
    operator.done(operator.confirm(operator.post(f"/acts/{act['id']}/undo", {}, 200)))
    assert not json.loads(stored(served, CONFIG)["colocation-config"]).get("nodeConfigs")


def test_a_roll_out_is_started_stopped_resumed_and_undone(served: Served) -> None:
    operator = served.operator
    scope = {"feature": "suppress"}
    assert operator.get("/rollouts")["rollouts"][0]["acts"] == ["rollout-start"]
    refused = operator.preview("rollout-start", scope, 422, settings={"steps": [50, 10]})
    assert "must rise" in refused["cause"]
    assert "there is no roll-out" in operator.preview("rollout-stop", scope, 422)["cause"]
    preview = operator.preview("rollout-start", scope, settings={"steps": [40, 100], "everySeconds": 600})
    assert "2 nodes of 3 would get suppress at the first step, 40%" in preview["sentence"]
    act = operator.done(operator.confirm(preview))
    assert act["state"] == "done", act

    def state() -> Any:
        return next(one for one in operator.get("/rollouts")["rollouts"] if one["feature"] == "suppress")

    until(lambda: state()["state"] == "running", what="the roll-out is shown")
    assert state()["steps"] == [40, 100]
    assert set(state()["acts"]) == {"rollout-stop", "rollout-undo"}
    stop = operator.do("rollout-stop", scope, why="a release")
    assert stop["state"] == "done"
    until(lambda: state()["state"] == "stopped", what="it is stopped")
    assert "a release" in state()["reason"]
    operator.done(operator.confirm(operator.post(f"/acts/{stop['id']}/undo", {}, 200)))
    until(lambda: state()["state"] == "running", what="it goes on")
    undone = operator.done(operator.confirm(operator.post(f"/acts/{act['id']}/undo", {}, 200)))
    assert undone["act"] == "rollout-undo"
    until(lambda: state()["state"] == "none", what="it is gone")


def test_a_pod_is_moved_by_a_job_that_says_who_and_why(served: Served) -> None:
    operator = served.operator
    assert "no pod shop/none" in operator.preview("move-pod", {"pod": "shop/none"}, 422)["cause"]
    create(served, pod("bare", "n1", owner=False))
    assert "no controller" in operator.preview("move-pod", {"pod": "shop/bare"}, 422)["cause"]
    preview = operator.preview("move-pod", {"pod": "shop/web-1"}, why="too hot there")
    assert preview["podsThatGo"][0]["pod"] == "shop/web-1"
    act = operator.confirm(preview)

    def job() -> Any:
        jobs = served.cluster.ask(lambda client: client.list(kinds.POD_MIGRATION_JOBS))
        return jobs[0] if jobs else None

    made = until(job, what="the job is there")
    assert made.spec.pod_ref.name == "web-1"
    assert "too hot there" in made.metadata.annotations.values()
    status = {"status": {"phase": "Succeeded"}}
    served.cluster.ask(
        lambda client: client.patch(kinds.POD_MIGRATION_JOBS, made.metadata.name, status, subresource="status")
    )
    done = operator.done(act)
    assert (done["state"], done["canUndo"]) == ("done", False)


# Rights.


def test_a_viewer_without_rights_is_told_which_are_missing(served: Served) -> None:
    before = strategy(served, "n1")
    viewer = served.caller("viewer")
    me = viewer.get("/me")
    assert not any(me["can"].values())
    assert "patch nodes" in me["missing"]["colocation-off"]
    assert me["commands"]["thresholds"] == "koord colocation thresholds"
    refused = viewer.preview("colocation-off", {"nodes": ["n1"]}, 403)
    assert "lacks" in refused["cause"]
    assert "list pods" in refused["cause"]
    assert strategy(served, "n1") == before


def test_one_who_may_not_evict_sees_what_is_missing_and_is_refused(served: Served) -> None:
    half = served.caller("half")
    preview = half.preview("colocation-off", {"nodes": ["n1"]}, evict=True)
    assert preview["missingRights"] == ["create pods/eviction in shop"]
    refused = half.confirm(preview, 403)
    assert "create pods/eviction in shop" in refused["cause"]
    assert "shop/job-1" in pods(served)
    assert strategy(served, "n1") is None


def test_rights_that_are_taken_away_between_preview_and_confirmation_count(served: Served) -> None:
    half = served.caller("half")
    preview = half.preview("colocation-off", {"nodes": ["n1"]})
    binding = served.cluster.ask(lambda client: client.get(CLUSTER_ROLE_BINDINGS, "half-half"))
    served.cluster.ask(lambda client: client.delete(CLUSTER_ROLE_BINDINGS, "half-half"))
    try:
        # The embedded server and the real one both learn of it in a moment.
        def refused() -> bool:
            reply = half.ask(
                "POST", "/api/v1/acts", {"preview": preview["id"], "typed": ""}, Idempotency_Key=preview["id"]
            )
            return reply.status == 403

        assert refused()
        assert strategy(served, "n1") is None
    finally:
        body = {
            "metadata": {"name": "half-half"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "half"},
            "subjects": [{"kind": "ServiceAccount", "name": "half", "namespace": "people"}],
        }
        assert binding is not None
        served.cluster.ask(lambda client: client.create(CLUSTER_ROLE_BINDINGS, body))


def test_a_preview_belongs_to_the_one_who_made_it(served: Served) -> None:
    preview = served.operator.preview("colocation-off", {"nodes": ["n1"]})
    assert "you have no preview" in served.caller("half").confirm(preview, 404)["cause"]


def test_an_act_names_pods_only_to_those_who_may_list_them(served: Served) -> None:
    operator, tenant, viewer = served.operator, served.caller("tenant"), served.caller("viewer")
    create(served, pod("secret", "n2", batch=True))
    act = operator.do("colocation-off", {"nodes": ["n2"]}, evict=True)
    assert act["evicted"] == ["shop/secret"]
    assert tenant.get(f"/acts/{act['id']}")["evicted"] == ["shop/secret"]
    seen = viewer.get(f"/acts/{act['id']}")
    assert (seen["evicted"], seen["hiddenPods"]) == ([], 1)
    assert viewer.ask("GET", f"/api/v1/events?topics=act/{act['id']}").status == 403
    operator.do("colocation-on", {"nodes": ["n2"]})
