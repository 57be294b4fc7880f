"""`koord explain POD`, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from koord.api.text.yaml import load
from koord.cli.main import run

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "plan")


def told(*args: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["explain", *args]) == 0
    return capsys.readouterr().out


def in_json(*args: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    found = json.loads(told(*args, "-o", "json", capsys=capsys))
    assert isinstance(found, dict)
    return found


def test_a_pod_that_fits_nowhere_hears_why_and_what_would_help(capsys: pytest.CaptureFixture[str]) -> None:
    text = told("shop/report", "-f", EXAMPLE, capsys=capsys)
    assert text.startswith("shop/report fits nowhere")
    order = [text.index(word) for word in ("TaintToleration", "NodeResourcesFit", "WHAT WOULD LET IT IN")]
    assert order == sorted(order)
    assert "a toleration for the taint only=databases:NoSchedule" in text
    assert "a request of 2 cpu instead of 5" in text
    assert "3 more cpu there" in text


def test_events_of_a_dump_say_what_slowed_a_pod_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = "web was slowed 14:02-14:05: run-queue delay 9x its baseline; build-7 held the CPU 71% of that time."
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "shop", "name": "web.1"},
        "eventTime": "2026-11-15T14:05:00.000000Z",
        "action": "over",
        "reason": "PodSlowed",
        "regarding": {"kind": "Pod", "namespace": "shop", "name": "web", "uid": "1"},
        "note": note,
    }
    (tmp_path / "events.json").write_text(json.dumps(event))
    found = in_json("shop/web", "-f", EXAMPLE, "-f", str(tmp_path), capsys=capsys)
    assert found["slowdowns"] == [note]


def test_without_nodes_a_pod_hears_that_there_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pod.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c}]}}"
    )
    assert "WHY NOT   there are no nodes: add one" in told("web", "-f", str(tmp_path), capsys=capsys)


def test_a_pod_that_is_gone_is_told_by_its_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "shop", "name": "gone.1"},
        "eventTime": "2026-11-15T14:05:00.000000Z",
        "reason": "Killing",
        "regarding": {"kind": "Pod", "namespace": "shop", "name": "gone", "uid": "1"},
        "note": "Stopping container c",
    }
    (tmp_path / "events.json").write_text(json.dumps(event))
    text = told("shop/gone", "-f", EXAMPLE, "-f", str(tmp_path), capsys=capsys)
    assert text == "shop/gone is gone\n\nEVENTS\n  2026-11-15T14:05:00Z  Killing: Stopping container c\n"


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (
            None,
            "The claim default/data does not exist: create a PersistentVolumeClaim of that name, or take its volume",
        ),
        ({"name": "dato"}, "does not exist: create a PersistentVolumeClaim of that name, or name dato, which exists."),
        (
            {"name": "data", "deletionTimestamp": "2026-11-15T14:05:00Z"},
            "default/data is being deleted: create it again",
        ),
    ],
    ids=["missing", "misspelt", "being deleted"],
)
def test_a_claim_that_is_missing_is_told_with_what_would_help(
    claim: dict[str, str] | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    spec = {"containers": [{"name": "c"}], "volumes": [volume]}
    objects: list[dict[str, object]] = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec}]
    if claim is not None:
        objects.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": claim})
    (tmp_path / "pod.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    assert said in told("web", "-f", EXAMPLE, "-f", str(tmp_path), capsys=capsys)


def test_it_says_the_same_as_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "-f", EXAMPLE, "-o", "json"]) == 0
    plan = json.loads(capsys.readouterr().out)["pods"]
    for key in ("shop/web", "shop/cache", "shop/ledger", "shop/report", "shop/campaign", "office/backup"):
        found = json.loads(told(key, "-f", EXAMPLE, "-o", "json", capsys=capsys))
        outcome = "scheduled" if found["outcome"] == "fits" else found["outcome"]
        assert outcome == plan[key]["outcome"], key
        if found["outcome"] == "fits":
            (chosen,) = [each for each in found["explanation"]["whyThere"] if each["chosen"]]
            assert (chosen["node"], chosen["total"], chosen["scores"]) == (
                plan[key]["node"],
                plan[key]["score"],
                plan[key]["scores"],
            )
        if found["outcome"] == "unschedulable":
            counts = {each["plugin"]: each["nodes"] for each in found["explanation"]["whyNot"]}
            planned = plan[key]["nodesRejected"].items()
            assert counts == {words.partition(":")[0]: number for words, number in planned}


def test_json_is_whole_and_its_keys_stay(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(told("report", "-n", "shop", "-f", EXAMPLE, "-o", "json", capsys=capsys))
    assert set(found) == {
        *("pod", "outcome", "message", "placedBefore", "asIfNew", "foreign", "schedulerName", "unanswered"),
        *("missingNode", "unacted", "moves", "slowdowns", "explanation"),
    }
    body = found["explanation"]
    assert set(body) >= {
        *("pod", "profile", "outcome", "node", "chosen", "message", "nodes", "feasible", "refusal"),
        *("whyNot", "weights", "whyThere", "changes", "preemption"),
    }
    assert {key for each in body["whyNot"] for key in each} == {"plugin", "reason", "nodes", "examples", "detail"}
    assert all(len(each["examples"]) == each["nodes"] for each in body["whyNot"])
    assert {key for change in body["changes"] for key in change} == {"nodes", "steps", "text"}
    assert {key for change in body["changes"] for step in change["steps"] for key in step} == {
        *("plugin", "mends", "on", "text", "victims")
    }
    assert load(told("report", "-n", "shop", "-f", EXAMPLE, "-o", "yaml", capsys=capsys), "output") == found


def test_a_pod_that_fits_hears_how_nodes_compare(capsys: pytest.CaptureFixture[str]) -> None:
    text = told("pod/mail", "-n", "office", "-f", EXAMPLE, capsys=capsys)
    assert "WHY THERE" in text
    assert "west-1 *" in text or "east-1 *" in text
    totals = next(line for line in text.splitlines() if line.split()[:1] == ["TOTAL"])
    numbers = [int(word) for word in totals.split()[1:]]
    assert numbers == sorted(numbers, reverse=True)


def test_a_pod_with_a_node_is_looked_at_as_if_it_were_new(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(told("office/mail", "-f", EXAMPLE, "-o", "json", capsys=capsys))
    assert (found["asIfNew"], found["explanation"]["node"]) == (True, "east-1")
    assert "if it were placed now" in told("office/mail", "-f", EXAMPLE, capsys=capsys).lower()


def test_a_gate_is_told_and_what_would_be_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    text = told("shop/campaign", "-f", EXAMPLE, capsys=capsys)
    assert "waiting for scheduling gates: [example.com/budget]" in text
    assert "Were it let through, it would go to" in text


def test_a_pod_that_takes_no_part_hears_that(capsys: pytest.CaptureFixture[str]) -> None:
    assert "has finished" in told("office/backup", "-f", EXAMPLE, capsys=capsys)


def test_a_pod_of_another_scheduler_is_looked_at_with_the_first_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    pod["spec"] = {"schedulerName": "volcano", "containers": [{"name": "c"}]}
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    found = json.loads(told("p", "-f", str(tmp_path), "-f", EXAMPLE, "-o", "json", capsys=capsys))
    assert found["foreign"] == "volcano"
    assert found["explanation"]["profile"] == "koord-scheduler"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("shop/rapport", "-f", EXAMPLE), "shop/report"),
        (("node/east-11", "-f", EXAMPLE), "east-1"),
        (("p", "-f", EXAMPLE, "--context", "x"), "--live"),
        (("p", "-f", EXAMPLE, "--now", "noon"), "--now"),
        (("p", "-f", EXAMPLE, "--plugin", "nonsense"), "module:Class"),
    ],
)
def test_bad_usage_is_one_clear_message(args: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", *args]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error


CLAIMS = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: soon}
provisioner: disks.example.com
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: late}
provisioner: disks.example.com
volumeBindingMode: WaitForFirstConsumer
"""
CLAIMED = """
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}}}
spec: {{storageClassName: {name}, accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  containers: [{{name: c}}]
  volumes: [{{name: data, persistentVolumeClaim: {{claimName: {name}}}}}]
"""


@pytest.mark.parametrize(("name", "first"), [("soon", "fits nowhere"), ("late", "goes to n1")])
def test_a_pod_whose_claims_have_no_volumes_hears_who_is_to_make_them(
    name: str, first: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "claims.yaml").write_text(CLAIMS + CLAIMED.format(name="soon") + CLAIMED.format(name="late"))
    waits = f"The claim default/{name} waits for disks.example.com, the provisioner of its StorageClass {name}"
    text = told(name, "-f", str(tmp_path), capsys=capsys)
    assert first in text.splitlines()[0]
    assert f"VOLUMES   {waits}" in text
    found = json.loads(told(name, "-f", str(tmp_path), "-o", "json", capsys=capsys))
    assert found["explanation"]["volumes"].startswith(waits)


TIED = """
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {disk: far}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: v1}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [near]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
spec: {volumeName: v1, accessModes: [ReadWriteOnce]}
status: {phase: Bound}
---
apiVersion: v1
kind: Pod
metadata: {name: db}
spec:
  containers: [{name: c}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"""


def test_a_claim_that_is_in_the_way_is_suggested_to_be_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tied.yaml").write_text(TIED)
    text = told("db", "-f", str(tmp_path), capsys=capsys)
    assert (
        "SUGGESTION   DeleteConflictPVC: default/data is bound to v1, and keeps it off n2, where it would fit" in text
    )
    found = json.loads(told("db", "-f", str(tmp_path), "-o", "json", capsys=capsys))
    assert found["explanation"]["suggestion"]["type"] == "DeleteConflictPVC"


def test_what_nodes_lend_follows_a_configuration_that_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    example = str(Path(__file__).parents[2] / "examples" / "colocation" / "offline")
    now = ("--now", "2026-11-15T12:01:00Z")
    assert run(["explain", "jobs/nightly", "-f", example, *now, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["explanation"]["chosen"] == "n2"
    assert run(["explain", "jobs/nightly", "-f", f"{example}/cluster.yaml", *now]) == 0
    assert "Insufficient kubernetes.io/batch-cpu" in capsys.readouterr().out
