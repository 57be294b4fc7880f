from __future__ import annotations

import pickle

import msgspec
import pytest

from koord.api.kubernetes.pod import Pod, Toleration
from koord.api.kubernetes.words import PodPhase, TaintEffect
from koord.api.machinery.codec import DecodeError, decode


def test_a_known_word_is_one_shared_object() -> None:
    assert decode(Pod, b'{"status":{"phase":"Running"}}').status.phase is PodPhase.RUNNING


def test_an_unknown_word_is_kept_and_behaves_as_a_string() -> None:
    pods = [decode(Pod, b'{"status":{"phase":"Hibernating"}}') for _ in range(2)]
    phase = pods[0].status.phase
    assert phase == "Hibernating"
    assert {"Hibernating": 1}[phase] == 1
    assert f"{phase}" == "Hibernating"
    assert isinstance(phase, PodPhase)
    assert phase is pods[1].status.phase
    assert phase not in list(PodPhase)
    assert msgspec.json.encode(pods[0]) == b'{"status":{"phase":"Hibernating"}}'
    assert pickle.loads(pickle.dumps(phase)) == phase


def test_known_words_equal_and_hash_as_their_strings() -> None:
    running: str = PodPhase.RUNNING
    assert running == "Running"
    assert {"Running": 1}[running] == 1


def test_an_empty_effect_tolerates_all() -> None:
    assert decode(Toleration, b'{"effect":""}').effect is TaintEffect.ALL
    assert decode(Toleration, b"{}").effect is TaintEffect.ALL


@pytest.mark.parametrize("value", [b"1", b"true", b"[]", b"{}"])
def test_a_word_is_a_string(value: bytes) -> None:
    with pytest.raises(DecodeError, match=r"status\.phase"):
        decode(Pod, b'{"status":{"phase":' + value + b"}}")
