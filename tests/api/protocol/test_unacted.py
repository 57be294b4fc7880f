from __future__ import annotations

import pytest

from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.unacted import UNACTED, Unacted, asked_in_vain

GANG = Unacted("gangs", "pods go one by one", labels=frozenset({"gang"}))
GPU = Unacted("devices", "no device is chosen", resources=frozenset({"koordinator.sh/gpu-core"}))
CPUS = Unacted("CPU binding", "no CPUs are chosen", annotations=frozenset({"cpus"}))


def pod(resources: dict[str, str] | None = None, **metadata: dict[str, str]) -> Pod:
    container = {"name": "c", "resources": {"limits": resources or {}, "requests": resources or {}}}
    return convert(Pod, {"metadata": {"name": "p", **metadata}, "spec": {"containers": [container]}})


@pytest.mark.parametrize(
    ("asking", "heard"),
    [
        (pod(), ()),
        (pod(labels={"gang": "a"}), ("koord does not act on gangs yet: pods go one by one",)),
        (pod(annotations={"cpus": "{}"}), ("koord does not act on CPU binding yet: no CPUs are chosen",)),
        (
            pod({"koordinator.sh/gpu-core": "50"}),
            ("koord does not act on devices yet: no device is chosen",),
        ),
        (pod({"cpu": "1"}, labels={"app": "web"}), ()),
    ],
)
def test_a_pod_hears_what_it_asks_for_in_vain(asking: Pod, heard: tuple[str, ...]) -> None:
    assert asked_in_vain(asking, (GANG, GPU, CPUS)) == heard


def test_each_kind_is_in_the_table_once() -> None:
    kinds = [each.kind for each in UNACTED if each.kind is not None]
    assert len(kinds) == len(set(kinds))
