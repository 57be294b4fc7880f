"""What recommendations say against what is requested: verdicts, savings, and the patch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from koord.api import kinds
from koord.api.text.manifest import Manifests, parse, read
from koord.cli.recommend import recommend
from koord.offline.recommend import advice, patch, total

EXAMPLE = Path(__file__).parents[2] / "examples" / "recommend"
GIB, MIB = 1 << 30, 1 << 20


def example() -> Manifests:
    return read([EXAMPLE])


def test_the_saving_is_that_of_all_pods_and_small_differences_are_kept() -> None:
    main, proxy = advice(example())
    assert main.verdict == {"cpu": "lower", "memory": "lower"}
    assert main.saving == {"cpu": 10 * 2750, "memory": 10 * 5 * GIB}
    assert proxy.verdict == {"cpu": "keep", "memory": "raise"}, "105m is within 10% of 100m"
    assert total([main, proxy]) == {"cpu": 27_500, "memory": 50 * GIB - 640 * MIB}


def test_the_patch_names_only_what_changes_and_no_limit_falls_below_its_request() -> None:
    found = example()
    (item,) = patch(found.of(kinds.RECOMMENDATIONS), advice(found))["items"]
    assert (item["kind"], item["metadata"]) == ("Deployment", {"name": "web", "namespace": "shop"})
    main, proxy = item["spec"]["template"]["spec"]["containers"]
    assert main == {"name": "main", "resources": {"requests": {"cpu": "1250m", "memory": "3Gi"}}}
    assert proxy["resources"] == {"requests": {"memory": "192Mi"}, "limits": {"memory": "192Mi"}}


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
    found = parse(f"{text}---{POD}", "new")
    (row,) = advice(found)
    assert row.note.startswith(note)
    assert row.pods == 1, "they run, whatever is known of them"
    assert patch(found.of(kinds.RECOMMENDATIONS), [row])["items"] == []


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 0, "saves 27.5 cores of CPU"),
        (("web",), 0, "4 cores -> 1.25 cores"),
        (("deployment/web", "-o", "yaml"), 0, "cpu: 1250m"),
        (("deployment/api",), 1, "there is no Recommendation for deployment/api"),
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
