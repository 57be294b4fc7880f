from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.kinds import CONFIG_MAPS, NODES, PODS
from koord.api.kubernetes.core import ConfigMap, Pod
from koord.api.machinery.codec import convert
from koord.api.machinery.faults import Fault, Invalid
from koord.api.text.manifest import parse, read
from koord.api.text.yaml import load
from koord_bench.pods import pod_list_json

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  containers:
  - name: app
    image: app:1
    command: [serve]
    resources: {requests: {cpu: 1, memory: 1Gi}}
"""

CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: "1"}
"""


def test_documents_become_typed_objects_beside_what_was_written() -> None:
    manifests = parse(f"{POD}\n---\n# nothing\n---{CONFIG}", "all.yaml")
    pod, config = manifests.items
    assert isinstance(pod.object, Pod)
    assert pod.object.spec.containers[0].resources.requests == {"cpu": 1, "memory": "1Gi"}
    assert pod.data["spec"]["containers"][0]["command"] == ["serve"]
    assert isinstance(config.object, ConfigMap)
    assert config.object.data == {"a": "1"}
    assert str(config.place) == "all.yaml, document 2, ConfigMap default/settings"
    assert not manifests.faults
    assert manifests.of(PODS) == [pod.object]


def test_an_object_without_namespace_gets_the_one_asked_for() -> None:
    assert parse(CONFIG, "c").of(CONFIG_MAPS)[0].metadata.namespace == "default"
    assert parse(CONFIG, "c", namespace="shop").of(CONFIG_MAPS)[0].metadata.namespace == "shop"
    node = parse("{apiVersion: v1, kind: Node, metadata: {name: n1}}", "n").of(NODES)[0]
    assert node.metadata.namespace == ""


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "List",
                "items": [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}],
            }
        ),
        '{"apiVersion": "v1", "kind": "NodeList", "items": [{"metadata": {"name": "n1"}}]}',
        "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: NodeList, items: [{metadata: {name: n1}}]}]}",
    ],
)
def test_lists_are_opened(text: str) -> None:
    assert [node.metadata.name for node in parse(text, "nodes").of(NODES)] == ["n1"]


@pytest.mark.parametrize(
    "text", ["", "---\n---\n", "# only words", "{apiVersion: v1, kind: List}", "kind: List\napiVersion: v1\nitems:"]
)
def test_nothing_is_read_from_nothing(text: str) -> None:
    manifests = parse(text, "empty")
    assert not manifests.items
    assert not manifests.faults


def test_what_a_server_lists_is_read() -> None:
    pods = parse(pod_list_json(0, 5).decode(), "pods.json").of(PODS)
    assert len({pod.metadata.uid for pod in pods}) == 5


def test_kinds_that_koord_does_not_know_are_counted() -> None:
    ingress = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: x}\n---\n"
    old = "apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: x}\n"
    manifests = parse(ingress * 2 + old, "mixed.yaml")
    assert manifests.unknown == {"networking.k8s.io/v1 Ingress": 2, "extensions/v1beta1 Deployment": 1}
    assert not manifests.faults


def test_a_kind_of_another_api_version_is_told_once() -> None:
    wrong = "apiVersion: node.koordinator.sh/v1alpha1\nkind: NodeResourceTopology\nmetadata: {name: n}\n---\n"
    (warning,) = parse(wrong * 2, "cpus.yaml").warnings
    assert str(warning) == (
        "cpus.yaml, document 1, NodeResourceTopology: apiVersion: node.koordinator.sh/v1alpha1 is ignored: "
        "koord reads NodeResourceTopology of topology.node.k8s.io/v1alpha1"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[1]", ["f, document 1: must be an object with apiVersion and kind"]),
        ("kind: Pod", ["f, document 1, Pod: apiVersion: is required"]),
        ("apiVersion: v1", ["f, document 1: kind: is required"]),
        ("{apiVersion: v1, kind: 7}", ["f, document 1: kind: must be a string, not '7'"]),
        ("{apiVersion: v1, kind: Node}", ["f, document 1, Node: metadata.name: is required"]),
        (
            "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {priority: high, containers: [{image: x}]}}",
            [
                "f, document 1, Pod default/a: spec.priority: must be an integer, not 'high'",
                "f, document 1, Pod default/a: spec.containers[0].name: is required",
            ],
        ),
        (
            "{apiVersion: v1, kind: PodList, items: [{metadata: {name: a}}, {metadata: {name: b}, spec: []}]}",
            ["f, document 1, Pod default/b: items[1].spec: must be an object, not a list"],
        ),
        ("a: [", ["f:2:1: "]),
    ],
)
def test_a_fault_names_file_document_object_and_field(text: str, expected: list[str]) -> None:
    found = [str(problem) for problem in parse(text, "f").faults]
    assert len(found) == len(expected)
    for problem, start in zip(found, expected, strict=True):
        assert problem.startswith(start)


def test_a_request_that_is_no_quantity_is_a_fault() -> None:
    (problem,) = parse(POD.replace("1Gi", "1Gigabyte"), "f").faults
    assert problem.fault.path == "spec.containers[0].resources.requests.memory"


RESERVATION = """
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: Reservation
metadata: {name: r, selfLink: /old}
spec:
  template: {spec: {containers: [], anything: 1}}
  owners: [{labelSelector: {matchLabels: {app: web}}}]
"""


def has_typos(data: Mapping[str, Any]) -> list[Fault]:
    return [Fault(name, "unknown field") for name in data if name.startswith("typo")]


@pytest.mark.parametrize("kind", ["v1\nkind: Pod", "example.com/v1\nkind: Elsewhere"])
def test_a_misspelt_field_is_a_fault_with_the_object_that_has_it(kind: str) -> None:
    text = f"apiVersion: {kind}\nmetadata: {{name: web, namespace: shop}}\ntypo: 1\n"
    assert not parse(text, "f").faults
    (problem,) = parse(text, "f", misnamed=has_typos).faults
    assert str(problem) == f"f, document 1, {kind.rpartition(' ')[2]} shop/web: typo: unknown field"
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": [load(text, "f")]})
    (problem,) = parse(listed, "f", misnamed=has_typos).faults
    assert problem.fault.path == "items[0].typo"


def test_a_field_that_is_unknown_in_an_object_of_a_cluster_is_a_warning_unless_strict() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, uid: u}\ntypo: 1\n"
    manifests = parse(text, "f", misnamed=has_typos)
    assert not manifests.faults
    assert [problem.fault.path for problem in manifests.warnings] == ["typo"]
    assert [problem.fault.path for problem in parse(text, "f", misnamed=has_typos, strict=True).faults] == ["typo"]


def test_all_faults_of_an_object_are_listed_once() -> None:
    broken = RESERVATION.replace("name: r,", "name: r, labels: 3,").replace("owners:", "ttl: 3\n  owners:")
    paths = [problem.fault.path for problem in parse(broken, "f").faults]
    assert sorted(paths) == ["metadata.labels", "spec.ttl"]


def test_an_object_given_twice_counts_as_given_last_and_is_flagged() -> None:
    manifests = parse(CONFIG + "---" + CONFIG.replace('"1"', '"2"'), "f.yaml")
    assert [config.data for config in manifests.of(CONFIG_MAPS)] == [{"a": "2"}]
    assert [str(warning) for warning in manifests.warnings] == [
        "f.yaml, document 2, ConfigMap default/settings: "
        "replaces the same object in f.yaml, document 1, ConfigMap default/settings"
    ]


def test_objects_with_generated_names_are_all_kept() -> None:
    pod = "{apiVersion: v1, kind: Pod, metadata: {generateName: web-}}\n---\n"
    assert len(parse(pod * 3, "f").items) == 3


def test_require_valid_raises_with_every_fault() -> None:
    with pytest.raises(Invalid, match="2 faults"):
        parse("kind: Pod\n---\nkind: Node", "f").require_valid()


def test_files_folders_and_standard_input_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "b.yaml").write_text(POD)
    (tmp_path / "sub" / "a.json").write_text('{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}')
    (tmp_path / ".git" / "c.yaml").write_text("not: an object")
    (tmp_path / "README.md").write_text("# words")
    monkeypatch.setattr("sys.stdin", io.StringIO(CONFIG))
    manifests = read([tmp_path, "-"])
    assert [item.kind for item in manifests.items] == [PODS, NODES, CONFIG_MAPS]
    assert manifests.items[2].place.source == "standard input"
    assert not manifests.faults


def test_a_file_that_cannot_be_read_is_a_fault_and_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_bytes(b"a: \xff")
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbf" + CONFIG.encode())
    manifests = read([tmp_path / "absent.yaml", tmp_path / "bad.yaml", tmp_path / "bom.yaml"])
    absent, bad = manifests.faults
    assert str(absent) == f"{tmp_path}/absent.yaml: cannot be read: No such file or directory"
    assert str(bad) == f"{tmp_path}/bad.yaml: is not UTF-8 text (byte 3)"
    assert len(manifests.items) == 1


@given(st.text(max_size=60))
def test_any_text_gives_objects_or_faults(text: str) -> None:
    parse(text, "f")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {"apiVersion": st.just("v1"), "kind": st.sampled_from(["Pod", "Node", "List", "PodList"])},
        optional={"metadata": values, "spec": values, "status": values, "items": values},
    )
)
def test_any_object_is_read_or_gives_faults(data: dict[str, object]) -> None:
    manifests = parse(json.dumps(data), "f")
    assert len(manifests.items) <= 1 or "items" in data


def test_configuration_among_manifests_is_kept_as_it_was_written() -> None:
    config = "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, parallelism: 2}"
    manifests = parse(f"{CONFIG}\n---\n{config}", "all.yaml")
    ((place, data),) = manifests.configurations
    assert str(place) == "all.yaml, document 2, KubeSchedulerConfiguration"
    assert data["parallelism"] == 2
    assert not manifests.unknown


def test_the_files_are_told_as_they_are_read(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.json"):
        (tmp_path / name).write_text("{}")
    told: list[str] = []
    read([tmp_path], reading=told.append)
    assert told == [str(tmp_path / "a.json"), str(tmp_path / "b.yaml")]


def test_objects_of_one_template_share_its_typed_spec() -> None:
    first, second = parse(f"{POD}---{POD.replace('web', 'web-2')}", "all.yaml").of(PODS)
    assert first.spec is second.spec
    assert (first.metadata.name, second.metadata.name) == ("web", "web-2")


def test_objects_are_what_they_are_when_looked_at_as_a_whole() -> None:
    manifests = parse(pod_list_json(0, 40).decode(), "list.json")
    assert [item.object for item in manifests.items] == [convert(Pod, item.data) for item in manifests.items]
