"""Environment and command line of a container."""

from typing import Any

import pytest

from koord_minicluster.local.environment import Around, ConfigError, command_line, environment, expanded
from tests.minicluster.local.pods import container, pod

AROUND = Around(
    "n1",
    "127.0.0.1",
    config_maps={"settings": {"MODE": "fast", "SIZE": "3"}},
    secrets={"keys": {"TOKEN": "s3cret"}},
    base={"PATH": "/bin"},
)


def env(*variables: dict[str, Any], **fields: Any) -> dict[str, str]:
    own = pod(container(env=list(variables), **fields))
    return environment(own, own.spec.containers[0], AROUND)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a $(X) b", "a 1 b"), ("$$(X)", "$(X)"), ("$(Y)", "$(Y)"), ("$X", "$X"), ("$$$(X)", "$1"), ("$(X", "$(X")],
)
def test_references_are_expanded_as_kubelet_does(text: str, expected: str) -> None:
    assert expanded(text, {"X": "1"}) == expected


def test_values_may_refer_to_those_before_them() -> None:
    found = env({"name": "A", "value": "1"}, {"name": "B", "value": "$(A)2"}, {"name": "C", "value": "$(D)"})
    assert (found["B"], found["C"]) == ("12", "$(D)")
    assert found["PATH"] == "/bin"
    assert found["HOSTNAME"] == "p"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"fieldRef": {"fieldPath": "metadata.name"}}, "p"),
        ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "n1"),
        ({"fieldRef": {"fieldPath": "metadata.labels['app']"}}, "web"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "2"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}, "1500"),
        ({"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}}, "64"),
        ({"configMapKeyRef": {"name": "settings", "key": "MODE"}}, "fast"),
        ({"secretKeyRef": {"name": "keys", "key": "TOKEN"}}, "s3cret"),
    ],
)
def test_values_from_elsewhere(source: dict[str, Any], expected: str) -> None:
    resources = {"limits": {"cpu": "1500m"}, "requests": {"memory": "64Mi"}}
    assert env({"name": "V", "valueFrom": source}, resources=resources)["V"] == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMapKeyRef": {"name": "settings", "key": "NONE"}}, "no key 'NONE'"),
        ({"configMapKeyRef": {"name": "none", "key": "MODE"}}, "'none' is not there"),
        ({"secretKeyRef": {"name": "none", "key": "MODE"}}, "Secret 'none'"),
        ({"fieldRef": {"fieldPath": "status.weather"}}, "status.weather"),
    ],
)
def test_what_is_missing_is_named(source: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        env({"name": "V", "valueFrom": source})


def test_optional_keys_may_be_missing_and_whole_maps_come_with_a_prefix() -> None:
    optional = {"name": "V", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "K", "optional": True}}}
    found = env(optional, envFrom=[{"prefix": "S_", "configMapRef": {"name": "settings"}}])
    assert "V" not in found
    assert (found["S_MODE"], found["S_SIZE"]) == ("fast", "3")


def test_a_container_without_a_command_says_why_it_cannot_run() -> None:
    own = pod(container(command=[]))
    with pytest.raises(ConfigError, match="no command"):
        command_line(own.spec.containers[0], {})
    with_args = pod(container(command=["/bin/echo"], args=["$(A)", "b"]))
    assert command_line(with_args.spec.containers[0], {"A": "1"}) == ["/bin/echo", "1", "b"]
