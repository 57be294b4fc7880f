"""What kubelet tells of itself, and the file in which it keeps whom it gave CPUs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from koord.agent.host.files import Files
from koord.agent.live.kubelet import STATE_FILE, PodList, given_cpus, settings
from koord.agent.state import Kubelet
from koord.api.text.cpuset import CPUSet
from koord.kube.errors import ApiError, Status
from tests.agent.states import cpus

STATIC = Kubelet("static")
KNOWN = Kubelet("static", static_cpus={"before": CPUSet([7])})


class Answering:
    """A kubelet with this configuration, or with an answer that is none."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def raw(self, method: str, path: str) -> tuple[int, dict[str, str], bytes]:
        assert (method, path) == ("GET", "/configz")
        return 200, {}, self._body


class Listing:
    """A kubelet that lists these pods."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def raw(self, method: str, path: str) -> tuple[int, dict[str, str], bytes]:
        assert (method, path) == ("GET", "/pods")
        return 200, {}, self.body


class Refusing:
    def __init__(self, code: int) -> None:
        self._code = code

    async def raw(self, method: str, path: str) -> tuple[int, dict[str, str], bytes]:
        raise ApiError(Status(code=self._code))


async def asked(body: bytes) -> Kubelet | None:
    client: Any = Answering(body)
    return await settings(client, KNOWN, cpus(1, 4, 2))


async def test_its_configuration_says_how_it_deals_with_cpus() -> None:
    config = {
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
        "kubeReserved": {"cpu": "200m", "memory": "1Gi"},
        "systemReserved": {"cpu": "900m"},
        "topologyManagerPolicy": "restricted",
        "topologyManagerScope": "pod",
        "maxPods": 110,
    }
    kubelet = await asked(json.dumps({"kubeletconfig": config}).encode())
    # 1.1 CPUs are two: the threads of the first core.
    assert kubelet == Kubelet(
        "static", CPUSet([0, 4]), KNOWN.static_cpus, {"full-pcpus-only": "true"}, "RestrictedPodLevel"
    )


@pytest.mark.parametrize("empty", [b'{"items": []}', b'{"items": null}', b"{}"])
async def test_an_empty_list_says_that_there_are_no_pods(empty: bytes) -> None:
    listed, client = PodList(), Listing(b'{"items": [{"metadata": {"name": "web", "uid": "web"}}]}')
    told: Any = client
    pods = await listed.news(told)
    assert pods is not None
    assert [pod.metadata.name for pod in pods] == ["web"]
    assert await listed.news(told) is None, "the same is no news"
    client.body = empty
    assert await listed.news(told) == ()
    assert await listed.news(told) is None
    listed.look_again()
    assert await listed.news(told) == ()
    client.body = b"{"
    assert await listed.news(told) is None, "no answer is not an empty one"


@pytest.mark.parametrize("body", [b"", b"{", b'{"kubeletconfig": {"cpuManagerPolicy": 1}}'])
async def test_without_an_answer_the_last_one_stays(body: bytes) -> None:
    assert await asked(body) == KNOWN


@pytest.mark.parametrize(
    ("code", "expected"), [(403, Kubelet()), (404, Kubelet()), (401, None), (500, None), (0, None)]
)
async def test_a_kubelet_that_keeps_its_configuration_back_is_not_one_that_is_away(
    code: int, expected: Kubelet | None
) -> None:
    """The former never reports it; until the latter has, the free CPUs are unknown."""
    client: Any = Refusing(code)
    assert await settings(client, None, cpus(1, 4, 2)) == expected
    assert await settings(client, KNOWN, cpus(1, 4, 2)) == KNOWN


@pytest.mark.parametrize(
    ("text", "asked", "expected"),
    [
        (None, KNOWN, {}),
        ({"policyName": "none", "defaultCpuSet": "", "checksum": 1}, KNOWN, {}),
        ({"policyName": "static", "entries": {"a": {"x": "1-2", "y": "2-3"}}}, STATIC, {"a": "1-3"}),
        ({"policyName": "static", "entries": {"a": {"x": "1-2"}}}, Kubelet("none"), {}),
        ("", KNOWN, {"before": "7"}),
        ("invalid", KNOWN, {"before": "7"}),
        ({"entries": {"a": {"x": "what"}}}, KNOWN, {"before": "7"}),
    ],
)
def test_cpus_that_it_gave_away_stay_known_while_the_file_cannot_be_read(
    tmp_path: Path, text: object, asked: Kubelet, expected: dict[str, str]
) -> None:
    path = tmp_path / STATE_FILE
    path.parent.mkdir(parents=True)
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else msgspec.json.encode(text))
    files, given = Files(str(tmp_path)), {uid: CPUSet.parse(each) for uid, each in expected.items()}
    assert given_cpus(files, asked, KNOWN) == given
    is_unreadable = given == KNOWN.static_cpus
    assert given_cpus(files, asked, None) == (None if is_unreadable else given), "not known is not none"
