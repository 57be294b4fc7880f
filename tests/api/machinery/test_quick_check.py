"""The look without words agrees with the one that says what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect

from koord.api.configuration.scheduler_args import ARGS
from koord.api.kinds import ALL
from koord.api.machinery import faults, quick_check
from tests.api.samples import sample
from tests.api.test_decode_anything import filled, places, replaced

TYPES: list[Any] = [kind.type for kind in ALL]
ODD = ["null", "true", "0", "-1", "1.5", '""', '"x"', '"1Gi"', "[]", "{}", "[null]", '{"a":null}', '{"x":1}', "[[]]"]


def agree(type_: Any, data: object, allow_unknown: bool) -> None:
    info = inspect.type_info(type_)
    said: list[faults.Fault] = []
    slow = faults._walk(info, data, "", said, allow_unknown)
    try:
        quick = quick_check.cleaned(info, allow_unknown, faults._fits)(data)
    except quick_check.Doubtful:
        assert said, "what is right must not be doubted: it would be looked at twice"
    else:
        assert not said
        assert quick == slow


@pytest.mark.parametrize("type_", [*TYPES, *ARGS.values()], ids=lambda type_: type_.__name__)
def test_both_take_an_object_with_every_field(type_: Any) -> None:
    agree(type_, sample(type_), False)


@given(st.data(), st.booleans())
@settings(max_examples=300, deadline=None)
def test_both_say_the_same_of_an_oddity_anywhere(data: st.DataObject, allow_unknown: bool) -> None:
    type_ = data.draw(st.sampled_from(TYPES))
    path = data.draw(st.sampled_from(list(places(filled(type_)))))
    text = replaced(filled(type_), path, data.draw(st.sampled_from(ODD)))
    agree(type_, json.loads(text), allow_unknown)
