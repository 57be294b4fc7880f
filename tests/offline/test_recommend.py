"""What recommendations say against what is requested: verdicts, savings, and the patch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from koord.api import kinds
from koord.api.machinery.codec import DecodeError
from koord.api.text.manifest import Manifests, parse, read
from koord.cli.recommend import recommend
from koord.offline.recommend import advice, total
from koord.offline.recommend_patch import patch

EXAMPLE = Path(__file__).parents[2] / "examples" / "recommend"
GIB, MIB = 1 << 30, 1 << 20


def example() -> Manifests:
    return read([EXAMPLE])


def patched(found: Manifests) -> list[dict[str, Any]]:
    return patch(found.of(kinds.RECOMMENDATIONS), advice(found)).items


def test_the_saving_is_that_of_all_pods_and_small_differences_are_kept() -> None:
    main, proxy = advice(example())
    assert main.verdict == {"cpu": "lower", "memory": "lower"}
    assert main.saving == {"cpu": 10 * 2750, "memory": 10 * 5 * GIB}
    assert proxy.verdict == {"cpu": "keep", "memory": "raise"}, "105m is within 10% of 100m"
    assert total([main, proxy]) == {"cpu": 27_500, "memory": 50 * GIB - 640 * MIB}


def test_the_patch_names_all_that_a_second_one_could_take_back_and_no_limit_falls_below_its_request() -> None:
    manifests = example()
    (item,) = patched(manifests)
    assert (item["kind"], item["metadata"]) == ("Deployment", {"name": "web", "namespace": "shop"})
    main, proxy = item["spec"]["template"]["spec"]["containers"]
    assert main["resources"]["requests"] == {"cpu": "1250m", "memory": "3Gi"}
    assert proxy["resources"] == {"requests": {"cpu": "100m", "memory": "192Mi"}, "limits": {"memory": "192Mi"}}


POD = """
apiVersion: v1
kind: Pod
metadata:
  name: web-5d4f-x
  namespace: shop
  labels: {pod-template-hash: 5d4f, app: web}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d4f, uid: u, controller: true}]
spec: {containers: [{name: main, image: web, resources: {requests: {cpu: "2"}}}]}
"""


def test_running_pods_count_before_templates() -> None:
    given = example()
    main, proxy = advice(given.with_items((*given.items, *parse(POD, "pod").items)))
    assert (main.pods, main.requests) == (1, {"cpu": 2000})
    assert main.verdict == {"cpu": "lower", "memory": "set"}
    assert proxy.requests == {}


@pytest.mark.parametrize(
    ("target", "note"),
    [
        ("type: workload, workload: {kind: Deployment, name: web}", "FetchingHistory"),
        ("type: podSelector, podSelector: {matchLabels: {app: web}}", "FetchingHistory"),
    ],
)
def test_an_object_that_says_nothing_yet_has_a_line_and_no_patch(target: str, note: str) -> None:
    text = f"""
apiVersion: analysis.koordinator.sh/v1alpha1
kind: Recommendation
metadata: {{name: web, namespace: shop}}
spec: {{target: {{{target}}}}}
"""
    manifests = parse(f"{text}---{POD}", "new")
    (row,) = advice(manifests)
    assert row.note.startswith(note)
    assert row.pods == 1, "they run, whatever is known of them"
    assert patch(manifests.of(kinds.RECOMMENDATIONS), [row]) == ([], [])


def told(kind: str, *, api_version: str = "", name: str = "nightly", containers: str = "main", cpu: str = "3") -> str:
    """A Recommendation of 3 cores and 1 GiB."""
    statuses = [{"containerName": part, "resources": {"cpu": cpu, "memory": "1Gi"}} for part in containers.split()]
    workload = {"kind": kind, "name": "nightly", "apiVersion": api_version}
    made = {
        "apiVersion": "analysis.koordinator.sh/v1alpha1",
        "kind": "Recommendation",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"target": {"type": "workload", "workload": workload}},
        "status": {"podStatus": {"containerStatuses": statuses}},
    }
    return json.dumps(made)


CRON_JOB = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: shop}
spec:
  schedule: "0 1 * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: main, image: x, resources: {requests: {cpu: "2"}, limits: {cpu: "2", memory: 2Gi}}}]
          initContainers: [{name: mesh, image: mesh, restartPolicy: Always}]
"""


def test_a_workload_without_pods_is_known_by_its_template_and_no_limit_is_below_its_request() -> None:
    manifests = parse(f"{told('CronJob', containers='main mesh gone')}\n---{CRON_JOB}", "new")
    (item,) = patched(manifests)
    assert (item["apiVersion"], item["kind"]) == ("batch/v1", "CronJob")
    spec = item["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (main,), (mesh,) = spec["containers"], spec["initContainers"]
    assert main["resources"] == {"requests": {"cpu": "3", "memory": "1Gi"}, "limits": {"cpu": "3", "memory": "2Gi"}}
    assert mesh == {"name": "mesh", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}


def test_a_template_that_asks_for_batch_resources_gets_its_requests_in_these() -> None:
    lent = CRON_JOB.replace('{cpu: "2"}', '{kubernetes.io/batch-cpu: "2000"}').replace(
        '{cpu: "2", memory: 2Gi}', '{kubernetes.io/batch-cpu: "2000"}'
    )
    manifests = parse(f"{told('CronJob')}\n---{lent}", "new")
    assert advice(manifests)[0].requests == {"cpu": 2000}
    (item,) = patched(manifests)
    (main,) = item["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert main["resources"] == {
        "requests": {"kubernetes.io/batch-cpu": "3k", "kubernetes.io/batch-memory": "1Gi"},
        "limits": {"kubernetes.io/batch-cpu": "3k"},
    }


def test_a_template_that_cannot_be_read_is_named() -> None:
    manifests = parse(f"{told('CronJob')}\n---{CRON_JOB.replace('image: x', 'image: 3')}", "new")
    with pytest.raises(DecodeError, match=r"shop/cronjob/nightly: spec.containers\[0\].image"):
        advice(manifests)


JOB_POD = """
apiVersion: v1
kind: Pod
metadata:
  {name: p, namespace: shop, ownerReferences: [{apiVersion: v1, kind: KIND, name: nightly, uid: u, controller: true}]}
spec: {containers: [{name: main, image: x}]}
"""


@pytest.mark.parametrize(
    ("objects", "says"),
    [
        (f"{told('Job')}\n---{JOB_POD.replace('KIND', 'Job')}", "template of a Job cannot be changed"),
        (f"{told('Rollout')}\n---{JOB_POD.replace('KIND', 'Rollout')}", "spec.target.workload.apiVersion"),
        (told("Deployment"), "neither pods nor a template"),
        (f"{told('CronJob')}\n---\n{told('CronJob', name='other', cpu='9')}\n---{CRON_JOB}", "another Recommendation"),
    ],
)
def test_what_is_left_out_of_the_patch_is_said(objects: str, says: str) -> None:
    manifests = parse(objects, "new")
    items, (line,) = patch(manifests.of(kinds.RECOMMENDATIONS), advice(manifests))
    assert says in line
    assert line.startswith("shop/")
    assert len(items) == ("another" in says)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 0, "saves 27.5 cores of CPU"),
        (("web",), 0, "4 cores -> 1.25 cores"),
        (("deployment/web", "-o", "yaml"), 0, "cpu: 1250m"),
        (("Deployment/web",), 0, "4 cores -> 1.25 cores"),
        (("deployment/api",), 1, "there is no Recommendation for deployment/api"),
        (("deployment/api", "-o", "yaml"), 1, "there is no Recommendation for deployment/api"),
        (("deployment/api", "-o", "json"), 1, "there is no Recommendation for deployment/api"),
        (("-n", "jobs"), 0, "there is no Recommendation in namespace jobs"),
    ],
)
def test_the_command(arguments: tuple[str, ...], code: int, says: str) -> None:
    done = CliRunner().invoke(recommend, ["-f", str(EXAMPLE), *arguments], standalone_mode=False)
    assert says in done.output + (done.stderr if done.stderr_bytes else "")
    assert done.return_value == code


def test_programs_get_all_figures() -> None:
    done = CliRunner().invoke(recommend, ["-f", str(EXAMPLE), "-o", "json"], standalone_mode=False)
    told = json.loads(done.output)
    assert told["saving"]["cpu"] == 27_500
    assert told["recommendations"][0]["underHours"] == 1
