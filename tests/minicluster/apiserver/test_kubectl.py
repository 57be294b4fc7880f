"""An engineer's day with kubectl against the embedded server, its controllers and hollow nodes.

The commands are those that people type; what they must print is what they print against any cluster.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from koord.api import kinds
from koord.api.text.manifest import parse
from koord.offline.recommend import advice
from koord.offline.recommend_patch import patch
from tests.minicluster.apiserver.whole_cluster import WholeCluster
from tests.waiting import until

pytestmark = pytest.mark.kubectl

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 2
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: web
        image: example/web:1
        ports:
        - containerPort: 80
        resources:
          requests: {cpu: 100m, memory: 64Mi}
---
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  selector: {app: web}
  ports:
  - port: 80
"""

OFTEN = {"data": {"colocation-config": json.dumps({"enable": True, "metricReportIntervalSeconds": 1})}}
"""So that usage is reported each second, not each minute. In a NodeMetric, the manager would put it back."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[WholeCluster]:
    with WholeCluster(nodes=4) as running:
        settings = ("configmap", "slo-controller-config", "-n", "koordinator-system")
        running.kubectl("patch", *settings, "--type=merge", "-p", json.dumps(OFTEN))
        yield running


@pytest.fixture
def shop(cluster: WholeCluster, request: pytest.FixtureRequest) -> Iterator[Shop]:
    """A namespace of the test's own."""
    name = re.sub("[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))[:50].strip("-")
    cluster.kubectl("create", "namespace", name)
    yield Shop(cluster, name)
    cluster.kubectl("delete", "namespace", name, "--wait=false")


class Shop:
    """kubectl in one namespace."""

    def __init__(self, cluster: WholeCluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    def kubectl(self, *args: str, stdin: str | None = None, check: bool = True, **environment: str) -> str:
        return self.cluster.kubectl("-n", self.namespace, *args, stdin=stdin, check=check, **environment)

    def deployed(self) -> None:
        self.kubectl("apply", "-f", "-", stdin=WEB)
        self.kubectl("rollout", "status", "deployment/web", "--timeout=60s")


def test_apply_creates_then_configures_then_leaves_alone(shop: Shop) -> None:
    assert shop.kubectl("apply", "-f", "-", stdin=WEB).splitlines() == [
        "deployment.apps/web created",
        "service/web created",
    ]
    assert shop.kubectl("apply", "-f", "-", stdin=WEB).splitlines() == [
        "deployment.apps/web unchanged",
        "service/web unchanged",
    ]
    changed = WEB.replace("replicas: 2", "replicas: 3").replace("example/web:1", "example/web:2")
    assert "deployment.apps/web configured" in shop.kubectl("apply", "-f", "-", stdin=changed)
    shown = shop.kubectl(
        "get", "deployment", "web", "-o", "jsonpath={.spec.replicas} {.spec.template.spec.containers[0].image}"
    )
    assert shown == "3 example/web:2"


def test_rollout_goes_on_to_its_end_and_back(shop: Shop) -> None:
    shop.deployed()
    shop.kubectl("set", "image", "deployment/web", "web=example/web:2")
    assert "successfully rolled out" in shop.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    history = shop.kubectl("rollout", "history", "deployment/web")
    assert re.findall(r"^(\d+)", history, re.M) == ["1", "2"]
    shop.kubectl("rollout", "undo", "deployment/web")
    shop.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert shop.kubectl("get", "deployment", "web", "-o", "jsonpath={..image}") == "example/web:1"
    shop.kubectl("rollout", "restart", "deployment/web")
    shop.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert "restartedAt" in shop.kubectl("get", "deployment", "web", "-o", "yaml")


def test_get_shows_tables_and_any_other_form(shop: Shop) -> None:
    shop.deployed()
    lines = shop.kubectl("get", "deployments").splitlines()
    assert lines[0].split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert lines[1].split()[:4] == ["web", "2/2", "2", "2"]
    wide = shop.kubectl("get", "pods", "-o", "wide").splitlines()
    assert wide[0].split()[:7] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"]
    assert all(line.split()[2] == "Running" and "hollow-" in line for line in wide[1:])
    columns = shop.kubectl("get", "pods", "-o", "custom-columns=APP:.metadata.labels.app,PHASE:.status.phase")
    assert columns.splitlines() == ["APP   PHASE", "web   Running", "web   Running"]
    names = shop.kubectl("get", "pods", "-l", "app=web", "-o", "name").split()
    assert len(names) == 2
    assert all(name.startswith("pod/web-") for name in names)
    assert shop.kubectl("get", "pods", "-l", "app!=web", check=False).startswith("No resources found")
    assert len(json.loads(shop.kubectl("get", "all", "-o", "json"))["items"]) == 5
    fields = shop.kubectl("get", "pods", "--field-selector", "status.phase=Running", "-o", "name").split()
    assert sorted(fields) == sorted(names)
    by_age = shop.kubectl("get", "pods", "--sort-by=.metadata.creationTimestamp", "--no-headers")
    assert len(by_age.splitlines()) == 2
    assert "web" in shop.cluster.kubectl("get", "deployments", "--all-namespaces")
    assert shop.kubectl("get", "pods", "-o", "go-template={{len .items}}") == "2"
    assert shop.kubectl("get", "deploy/web", "svc/web", "-o", "name").split() == ["deployment.apps/web", "service/web"]
    assert shop.kubectl("get", "configmap", "absent", check=False) == (
        'Error from server (NotFound): configmaps "absent" not found\n'
    )
    assert "app=web" in shop.kubectl("get", "pods", "--show-labels")


def test_watching_shows_what_happens(shop: Shop) -> None:
    command = shop.cluster.command("-n", shop.namespace, "get", "secrets", "-w", "-o", "name")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=shop.cluster.environment()) as watching:
        assert watching.stdout is not None
        try:
            shop.kubectl("create", "secret", "generic", "one", "--from-literal=a=b")
            assert watching.stdout.readline() == "secret/one\n"
            shop.kubectl("label", "secret", "one", "x=y")
            assert watching.stdout.readline() == "secret/one\n"
            shop.kubectl("create", "secret", "generic", "two")
            assert watching.stdout.readline() == "secret/two\n"
        finally:
            watching.terminate()


def test_describe_tells_of_objects_and_their_events(shop: Shop) -> None:
    shop.deployed()
    told = shop.kubectl("describe", "deployment", "web")
    assert re.search(r"Replicas:\s+2 desired \| 2 updated \| 2 total \| 2 available \| 0 unavailable", told)
    assert re.search(r"Available\s+True\s+MinimumReplicasAvailable", told)
    pods = shop.kubectl("describe", "pods")
    assert re.search(r"Controlled By:\s+ReplicaSet/web-", pods)
    assert re.search(r"Node:\s+hollow-", pods)
    assert re.search(r"IP:\s+\S", shop.kubectl("describe", "service", "web"))
    node = shop.cluster.kubectl("describe", "node", "hollow-0001")
    assert "Allocated resources:" in node
    assert re.search(r"Ready\s+True", node)


def test_edit_saves_what_the_editor_leaves(shop: Shop, tmp_path: Path) -> None:
    shop.kubectl("create", "configmap", "settings", "--from-literal=level=low")
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/level: low/level: high/' \"$1\"\n")
    editor.chmod(0o755)
    assert "configmap/settings edited" in shop.kubectl("edit", "configmap", "settings", EDITOR=str(editor))
    assert shop.kubectl("get", "configmap", "settings", "-o", "jsonpath={.data.level}") == "high"
    assert "Edit cancelled, no changes made" in shop.kubectl("edit", "cm", "settings", check=False, EDITOR="true")


def test_labels_annotations_and_patches(shop: Shop) -> None:
    shop.deployed()
    shop.kubectl("label", "deployment", "web", "tier=front")
    assert "already has a value" in shop.kubectl("label", "deployment", "web", "tier=back", check=False)
    shop.kubectl("label", "deployment", "web", "tier=back", "--overwrite")
    shop.kubectl("annotate", "deployment", "web", "note=hello world")
    shown = shop.kubectl(
        "get", "deployment", "web", "-o", "jsonpath={.metadata.labels.tier} {.metadata.annotations.note}"
    )
    assert shown == "back hello world"
    shop.kubectl("label", "deployment", "web", "tier-")
    shop.kubectl("patch", "deployment", "web", "-p", '{"spec":{"replicas":1}}')
    shop.kubectl("patch", "deployment", "web", "--type=merge", "-p", '{"metadata":{"labels":{"by":"merge"}}}')
    shop.kubectl(
        "patch", "deployment", "web", "--type=json", "-p", '[{"op":"add","path":"/metadata/labels/json","value":"yes"}]'
    )
    labels = json.loads(shop.kubectl("get", "deployment", "web", "-o", "jsonpath={.metadata.labels}"))
    assert labels == {"app": "web", "by": "merge", "json": "yes"}
    shop.kubectl("patch", "deployment", "web", "--subresource=scale", "--type=merge", "-p", '{"spec":{"replicas":2}}')
    assert shop.kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "2"


def test_server_side_apply_keeps_owners_apart(shop: Shop) -> None:
    mine = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {mine: '1', both: 'a'}\n"
    assert "serverside-applied" in shop.kubectl("apply", "--server-side", "-f", "-", stdin=mine)
    theirs = mine.replace("mine: '1'", "theirs: '2'").replace("both: 'a'", "both: 'b'")
    refused = shop.kubectl("apply", "--server-side", "--field-manager=them", "-f", "-", stdin=theirs, check=False)
    assert 'conflict with "kubectl": .data.both' in refused
    shop.kubectl("apply", "--server-side", "--field-manager=them", "--force-conflicts", "-f", "-", stdin=theirs)
    data = json.loads(shop.kubectl("get", "configmap", "shared", "-o", "jsonpath={.data}"))
    assert data == {"mine": "1", "theirs": "2", "both": "b"}
    managers = shop.kubectl(
        "get", "cm", "shared", "--show-managed-fields", "-o", "jsonpath={.metadata.managedFields[*].manager}"
    )
    assert sorted(managers.split()) == ["kubectl", "them"]


TWO = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: two}
spec:
  replicas: 0
  selector: {matchLabels: {app: two}}
  template:
    metadata: {labels: {app: two}}
    spec:
      containers:
      - {name: main, image: m, env: [{name: A, value: b}], resources: {requests: {cpu: "4", memory: 1Gi}}}
      - {name: proxy, image: p, resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 64Mi}}}
"""


def recommended(shop: Shop, targets: dict[str, dict[str, str]]) -> str:
    """The patch for the stored Deployment, where that is recommended for its containers."""
    statuses = [{"containerName": name, "resources": target} for name, target in targets.items()]
    told = {
        "apiVersion": "analysis.koordinator.sh/v1alpha1",
        "kind": "Recommendation",
        "metadata": {"name": "two", "namespace": shop.namespace},
        "spec": {"target": {"type": "workload", "workload": {"kind": "Deployment", "name": "two"}}},
        "status": {"podStatus": {"containerStatuses": statuses}},
    }
    stored = shop.kubectl("get", "deployment", "two", "-o", "json")
    manifests = parse(f"{json.dumps(told)}\n---\n{stored}", "two")
    items = patch(manifests.of(kinds.RECOMMENDATIONS), advice(manifests)).items
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def test_recommended_requests_can_be_applied_again_and_take_nothing_away(shop: Shop) -> None:
    shop.kubectl("apply", "--server-side", "-f", "-", stdin=TWO)
    apply = ("apply", "--server-side", "--field-manager=koord", "--force-conflicts", "-f", "-")
    shop.kubectl(*apply, stdin=recommended(shop, {"main": {"cpu": "1"}, "proxy": {"memory": "96Mi"}}))
    shop.kubectl(*apply, stdin=recommended(shop, {"main": {"cpu": "2"}, "proxy": {"memory": "96Mi"}}))
    spec = json.loads(shop.kubectl("get", "deployment", "two", "-o", "jsonpath={.spec.template.spec}"))
    main, proxy = spec["containers"]
    assert main["resources"] == {"requests": {"cpu": "2", "memory": "1Gi"}}
    assert main["env"] == [{"name": "A", "value": "b"}]
    assert proxy["resources"] == {"requests": {"cpu": "100m", "memory": "96Mi"}, "limits": {"memory": "96Mi"}}


def test_diff_shows_what_would_change_and_changes_nothing(shop: Shop) -> None:
    shop.deployed()
    assert shop.kubectl("diff", "-f", "-", stdin=WEB) == ""
    shown = shop.kubectl("diff", "-f", "-", stdin=WEB.replace("replicas: 2", "replicas: 7"), check=False)
    assert "-  replicas: 2" in shown
    assert "+  replicas: 7" in shown
    assert shop.kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "2"
    dry = shop.kubectl("create", "configmap", "never", "--dry-run=server", "-o", "name")
    assert dry == "configmap/never\n"
    assert "NotFound" in shop.kubectl("get", "configmap", "never", check=False)


def test_wait_and_scale(shop: Shop) -> None:
    shop.deployed()
    shop.kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=60s")
    shop.kubectl("wait", "--for=condition=Ready", "pod", "-l", "app=web", "--timeout=60s")
    shop.kubectl("scale", "deployment", "web", "--replicas=4")
    shop.kubectl("wait", "--for=jsonpath={.status.readyReplicas}=4", "deployment/web", "--timeout=60s")
    refused = shop.kubectl("scale", "deployment", "web", "--current-replicas=2", "--replicas=1", check=False)
    assert "Expected replicas to be 2, was 4" in refused
    shop.kubectl("scale", "deployment", "web", "--replicas=0")
    shop.kubectl("wait", "--for=delete", "pod", "-l", "app=web", "--timeout=60s")
    timed_out = shop.kubectl("wait", "--for=condition=Never", "deployment/web", "--timeout=1s", check=False)
    assert "timed out waiting for the condition" in timed_out


def test_jobs_complete(shop: Shop) -> None:
    made = json.loads(
        shop.kubectl("create", "job", "once", "--image=example/batch:1", "--dry-run=client", "-o", "json")
    )
    made["spec"]["template"]["metadata"]["annotations"] = {"hollow.koord.sh/duration": "1s"}
    shop.kubectl("apply", "-f", "-", stdin=json.dumps(made))
    shop.kubectl("wait", "--for=condition=Complete", "job/once", "--timeout=60s")
    assert shop.kubectl("get", "job", "once", "--no-headers").split()[:3] == ["once", "Complete", "1/1"]
    assert shop.kubectl("get", "pods", "--no-headers").split()[1:3] == ["0/1", "Completed"]


def test_cordon_and_drain_move_pods_within_their_budget(shop: Shop) -> None:
    cluster = shop.cluster
    shop.deployed()
    shop.kubectl("create", "poddisruptionbudget", "web", "--selector=app=web", "--min-available=1")
    shop.kubectl("wait", "--for=jsonpath={.status.disruptionsAllowed}=1", "pdb/web", "--timeout=60s")
    node = shop.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].spec.nodeName}")
    try:
        assert f"node/{node} cordoned" in cluster.kubectl("cordon", node)
        assert "SchedulingDisabled" in cluster.kubectl("get", "node", node)
        told = cluster.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s")
        assert f"node/{node} drained" in told
        shop.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        nodes = shop.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}").split()
        assert node not in nodes
    finally:
        cluster.kubectl("uncordon", node)
    assert "SchedulingDisabled" not in cluster.kubectl("get", "node", node)
    cluster.kubectl("taint", "node", node, "dedicated=x:NoSchedule")
    assert "dedicated=x:NoSchedule" in cluster.kubectl("describe", "node", node)
    cluster.kubectl("taint", "node", node, "dedicated-")


def test_delete_cascades_as_asked(shop: Shop) -> None:
    shop.deployed()
    shop.kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=60s")
    assert shop.kubectl("get", "replicasets,pods", check=False).startswith("No resources found")
    shop.deployed()
    shop.kubectl("delete", "deployment", "web", "--cascade=orphan")
    assert len(shop.kubectl("get", "replicasets", "-o", "name").split()) == 1
    shop.kubectl("delete", "replicasets", "--all", "--timeout=60s")
    shop.kubectl("wait", "--for=delete", "pod", "-l", "app=web", "--timeout=60s")
    shop.kubectl("create", "configmap", "a")
    shop.kubectl("create", "configmap", "b")
    assert "deleted" in shop.kubectl("delete", "configmap", "a", "b")
    assert "NotFound" in shop.kubectl("delete", "configmap", "a", check=False)
    assert shop.kubectl("delete", "configmap", "a", "--ignore-not-found") == ""
    shop.kubectl("delete", "-f", "-", "--ignore-not-found", stdin=WEB)


def test_a_deleted_namespace_takes_all_with_it(cluster: WholeCluster) -> None:
    cluster.kubectl("create", "namespace", "short-lived")
    cluster.kubectl("-n", "short-lived", "create", "deployment", "web", "--image=example/web:1")
    cluster.kubectl("delete", "namespace", "short-lived", "--timeout=60s")
    assert "NotFound" in cluster.kubectl("get", "namespace", "short-lived", check=False)
    assert "No resources found" in cluster.kubectl("-n", "short-lived", "get", "all", check=False)


def test_explain_describes_fields_of_any_kind(shop: Shop) -> None:
    told = shop.kubectl("explain", "deployment.spec.replicas")
    assert "GROUP:      apps" in told
    assert "FIELD: replicas <integer>" in told
    assert "FIELDS:" in shop.kubectl("explain", "pod.spec", "--recursive")
    assert "does not exist" in shop.kubectl("explain", "pod.spec.nothing", check=False)


def test_auth_answers_for_anyone(shop: Shop) -> None:
    assert shop.kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert shop.kubectl("auth", "can-i", "list", "pods", "--as=stranger", check=False) == "no\n"
    shop.kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods")
    shop.kubectl("create", "rolebinding", "readers", "--role=reader", "--user=stranger")
    assert shop.kubectl("auth", "can-i", "list", "pods", "--as=stranger") == "yes\n"
    assert "pods" in shop.kubectl("auth", "can-i", "--list", "--as=stranger")
    assert re.search(r"Username\s+admin", shop.kubectl("auth", "whoami"))
    refused = shop.kubectl("get", "secrets", "--as=stranger", check=False)
    assert 'secrets is forbidden: User "stranger" cannot list resource "secrets"' in refused
    shop.kubectl("create", "serviceaccount", "robot")
    token = shop.kubectl("create", "token", "robot").strip()
    assert token.count(".") == 2
    who = shop.kubectl("auth", "whoami", "--token", token, "--client-certificate=", "--client-key=", check=False)
    assert who


def test_logs_come_from_the_node(shop: Shop) -> None:
    shop.deployed()
    pod = shop.kubectl("get", "pods", "-o", "jsonpath={.items[0].metadata.name}")
    assert shop.kubectl("logs", pod).strip()
    assert shop.kubectl("logs", "deployment/web", "--tail=1").count("\n") == 1
    assert "is not valid for pod" in shop.kubectl("logs", pod, "-c", "absent", check=False)


def test_api_resources_and_versions(cluster: WholeCluster) -> None:
    listed = cluster.kubectl("api-resources", "-o", "wide")
    assert re.search(r"^pods\s+po\s+v1\s+true\s+Pod\s", listed, re.M)
    assert re.search(r"^deployments\s+deploy\s+apps/v1\s+true\s+Deployment\s", listed, re.M)
    assert {"v1", "apps/v1", "batch/v1", "policy/v1"} <= set(cluster.kubectl("api-versions").split())
    version = json.loads(cluster.kubectl("version", "-o", "json"))
    assert (version["serverVersion"]["major"], version["serverVersion"]["minor"]) == ("1", "35")
    assert cluster.kubectl("get", "--raw", "/readyz") == "ok"
    assert "is running at" in cluster.kubectl("cluster-info")


def test_custom_resources_come_and_go(shop: Shop) -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget", "shortNames": ["gg"], "categories": ["all"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {
                                    "type": "object",
                                    "properties": {
                                        "size": {"type": "integer", "minimum": 1, "description": "How big it is."}
                                    },
                                }
                            },
                        }
                    },
                }
            ],
        },
    }
    shop.kubectl("apply", "-f", "-", stdin=json.dumps(definition))
    shop.kubectl("wait", "--for=condition=Established", "crd/gadgets.example.com", "--timeout=60s")
    gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"size": 3}}
    shop.kubectl("apply", "-f", "-", stdin=json.dumps(gadget))
    assert shop.kubectl("get", "gg").splitlines()[0].split() == ["NAME", "SIZE"]
    assert "How big it is." in shop.kubectl("explain", "gadget.spec.size")
    refused = shop.kubectl("apply", "-f", "-", stdin=json.dumps({**gadget, "spec": {"size": 0}}), check=False)
    assert "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1" in refused
    refused = shop.kubectl("apply", "-f", "-", stdin=json.dumps({**gadget, "spec": {"sise": 1}}), check=False)
    assert 'unknown field "spec.sise"' in refused
    shop.kubectl("delete", "crd", "gadgets.example.com", "--timeout=60s")
    # kubectl may still have the kind in its cache; either way it is not there.
    gone = shop.kubectl("get", "gadgets", check=False)
    assert "the server doesn't have a resource type" in gone or "could not find the requested resource" in gone


def test_top_shows_usage(shop: Shop) -> None:
    """Last, since nodes learn how often to report when they report, which is after a minute."""
    shop.deployed()
    usage = _eventually(shop, ("top", "pods"), r"web-\S+\s+\d+m\s+\d+Mi\s*\nweb-\S+\s+\d+m\s+\d+Mi")
    assert usage.startswith("NAME")
    _eventually(shop, ("top", "nodes"), r"hollow-0001\s+\d+m\s+\d+%\s+\d+Mi\s+\d+%")


def _eventually(shop: Shop, command: tuple[str, ...], pattern: str) -> str:
    """What a command prints once it matches: usage is reported now and then."""

    def shown() -> str:
        printed = shop.kubectl(*command, check=False)
        return printed if re.search(pattern, printed) else ""

    return until(shown, what=lambda: shop.kubectl(*command, check=False))
