"""What the comparison of two servers leaves out."""

from __future__ import annotations

import pytest

from tests.minicluster.apiserver.differential.client import Answer
from tests.minicluster.apiserver.differential.normal import normal
from tests.minicluster.apiserver.differential.records import FOLDER
from tests.minicluster.apiserver.differential.steps import Sequence, Step

TRIMMED = "pkg/apis/meta/internalversion/scheme/register.go:27"
PLAIN = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"


@pytest.mark.parametrize("position", [TRIMMED, PLAIN, f"/go/pkg/mod/{PLAIN.replace('machinery', 'machinery@v0.35.8')}"])
def test_a_position_in_go_source_is_no_difference(position: str) -> None:
    sequence = Sequence("kinds", (Step("GET", "/api/v1/pods"),))
    message = f'no kind "Pod" is registered for version "v1" in scheme "{position}"'
    (answer,) = normal(sequence, [Answer(400, {}, {"message": message})], {})
    assert answer["body"]["message"] == 'no kind "Pod" is registered for version "v1" in scheme "<source position>"'


def test_records_hold_no_position_in_go_source() -> None:
    assert [path.name for path in FOLDER.glob("*.json") if ".go:" in path.read_text()] == []
