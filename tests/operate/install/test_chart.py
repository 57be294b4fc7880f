"""The Helm chart renders what `koord install` makes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields, replace

from koord.api.text.yaml import load_all
from koord.cli.main import run as koord
from koord.operate.install.chart import chart_values
from koord.operate.install.manifest import key_of
from koord.operate.install.objects import desired
from koord.operate.install.settings import Settings
from koord.operate.install.template import If, lines, merged
from tests.control_plane import find_binary

PLAIN = Settings(image="koord:0.1.0", version="0.1.0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chart") / "koord"
    assert koord(["install", "--write-chart", str(folder)]) == 0
    return folder


def helm(folder: Path, values: dict[str, Any], namespace: str) -> subprocess.CompletedProcess[str]:
    path = folder.parent / "values.json"
    path.write_text(json.dumps(values))
    binary = find_binary("helm")
    assert binary
    command = [str(binary), "template", "koord", str(folder), "-n", namespace, "-f", str(path)]
    command += ["--kube-version", "1.35.0"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.helm
@pytest.mark.parametrize(
    ("settings", "values"),
    [
        (PLAIN, {}),
        (replace(PLAIN, namespace="elsewhere"), {}),
        (replace(PLAIN, extras=("yarn",)), {"extras": ["yarn"]}),
        (replace(PLAIN, extras=("monitoring", "yarn")), {"extras": ["monitoring", "yarn"]}),
        (
            replace(PLAIN, extras=("monitoring",), components=("agent",), namespace="elsewhere"),
            {"extras": ["monitoring"], "components": ["agent"]},
        ),
        (
            replace(
                PLAIN,
                image="example.test/koord:2",
                components=("manager", "agent"),
                replicas=3,
                pull_policy="Always",
                pull_secrets=("one", "two"),
                colocation=True,
                old_kubelets=True,
            ),
            {
                "image": "example.test/koord:2",
                "components": ["manager", "agent"],
                "replicas": 3,
                "pullPolicy": "Always",
                "pullSecrets": ["one", "two"],
                "colocation": True,
                "oldKubelets": True,
            },
        ),
        (
            replace(
                PLAIN,
                gates={
                    "agent": "CPICollector=true,CPUBurst=false,GPUEnvInject=true,InterferenceDetection=true",
                    "manager": "ColocationProfileController=true",
                },
                configurations={"scheduler": 'a: "b"\nc: d\n'},
            ),
            {
                "featureGates": {
                    "agent": {
                        "CPICollector": True,
                        "CPUBurst": False,
                        "GPUEnvInject": True,
                        "InterferenceDetection": True,
                    },
                    "manager": {"ColocationProfileController": True},
                },
                "configurations": {"scheduler": 'a: "b"\nc: d\n'},
            },
        ),
    ],
)
def test_helm_renders_the_same_objects(folder: Path, settings: Settings, values: dict[str, Any]) -> None:
    done = helm(folder, {"createNamespaces": True, **values}, settings.namespace)
    assert done.returncode == 0, done.stderr
    rendered: dict[Any, Any] = {}
    for each in load_all(done.stdout, "helm"):
        assert isinstance(each, dict)
        if each["kind"] == "CustomResourceDefinition":
            assert each["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
            if not each["metadata"]["annotations"]:
                del each["metadata"]["annotations"]
        assert key_of(each) not in rendered
        rendered[key_of(each)] = each
    assert rendered == {key_of(each): each for each in desired(settings)}


@pytest.mark.helm
@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"replicas": 0}, "replicas"),
        ({"components": ["wizard"]}, "components"),
        ({"featureGates": {"agent": {"NoSuchGate": True}}}, "NoSuchGate"),
        ({"repilcas": 2}, "repilcas"),
    ],
)
def test_values_that_mean_nothing_are_refused_by_the_schema(folder: Path, values: dict[str, Any], says: str) -> None:
    done = helm(folder, values, "koordinator-system")
    assert done.returncode != 0
    assert says in done.stderr


def test_every_setting_is_a_value() -> None:
    """But for the version and the namespace, which Helm knows."""
    renamed = {"gates": "featureGates"}
    settings = {renamed.get(field_info.encode_name, field_info.encode_name) for field_info in fields(Settings)}
    assert settings - {"version", "namespace"} == set(chart_values()) - {"createNamespaces"}


def test_what_only_one_version_has_is_there_under_a_condition() -> None:
    both = merged({"a": [1, 3], "gone": 1}, {"a": [1, 2, 3], "b": {"c": 1}}, "x")
    assert both == {"a": [1, If("x", 2), 3], "gone": If("not (x)", 1, is_plain=True), "b": If("x", {"c": 1})}
    assert lines({"items": [{"name": "box", "list": [If("x", 1), 2]}]}) == [
        "items:",
        "- name: box",
        "  list:",
        "  {{- if x }}",
        "  - 1",
        "  {{- end }}",
        "  - 2",
    ]
    with pytest.raises(ValueError, match="no condition"):
        merged({"a": 1}, {"a": 2}, "x")


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("x")
    assert koord(["install", "--write-chart", str(tmp_path)]) == 2
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]
