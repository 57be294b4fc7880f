"""Strategic merge patches do what a real server did with the same patches on the same objects."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord_minicluster.apiserver.patch import strategic
from koord_minicluster.apiserver.status import StatusError
from tests.minicluster.apiserver.patch.recorded import Obj, difference, load, schema_of

RECORD = load("strategic.json")
BASES: dict[str, Obj] = RECORD["bases"]


def _is_of_the_patch(case: Obj) -> bool:
    """Whether the answer is the patch's doing: a result, or a refusal before the object was decoded and validated."""
    answer = case["answer"]
    return case["code"] == 200 or answer.get("reason") != "Invalid" or not answer.get("details", {}).get("causes")


CASES = [pytest.param(case, id=case["name"].replace(" ", "-")) for case in RECORD["cases"]]


@pytest.mark.parametrize("case", CASES)
def test_patch_does_what_the_real_server_did(case: Obj) -> None:
    base = BASES[case["base"]]
    before = copy.deepcopy(base)
    patch = copy.deepcopy(case["patch"])
    try:
        result: Any = strategic.apply(base, patch, schema_of(base))
        refusal = None
    except StatusError as error:
        refusal = error.body()
    assert base == before
    assert patch == case["patch"]
    if case["code"] == 200:
        assert refusal is None
        assert difference(result, case["answer"]) == []
    elif _is_of_the_patch(case):
        assert refusal is not None
        del refusal["metadata"]
        assert refusal == case["answer"]
    else:
        assert refusal is None, "the real server merged the patch, and then found the object not valid"


PLAIN = st.recursive(
    st.one_of(st.booleans(), st.integers(-3, 3), st.text("ab", max_size=3)),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=6,
)
ENV = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("ABCD"), "value": st.sampled_from("12")}),
    unique_by=lambda item: item["name"],
    max_size=4,
)


@given(base=st.sampled_from(sorted(BASES)))
def test_empty_patch_changes_nothing(base: str) -> None:
    assert strategic.apply(BASES[base], {}, schema_of(BASES[base])) == BASES[base]


def _template(spec: Obj) -> Obj:
    return {"template": {"spec": spec}}


@given(env=ENV, patched=ENV)
@settings(max_examples=60, deadline=None)
def test_merging_a_list_twice_is_merging_it_once(env: list[Obj], patched: list[Obj]) -> None:
    base = BASES["podtemplate"]
    schema = schema_of(base)
    base = strategic.apply(base, _template({"containers": [{"name": "web", "env": None}]}), schema)
    patch = _template({"containers": [{"name": "web", "env": patched}]})
    start = strategic.apply(base, _template({"containers": [{"name": "web", "env": env}]}), schema)
    once = strategic.apply(start, patch, schema)
    assert strategic.apply(once, patch, schema) == once
    merged = next(item for item in once["template"]["spec"]["containers"] if item["name"] == "web").get("env") or []
    assert {item["name"]: item["value"] for item in merged} == {
        **{item["name"]: item["value"] for item in env},
        **{item["name"]: item["value"] for item in patched},
    }


@given(order=st.permutations("abcde"), present=st.sets(st.sampled_from("abcde")))
@settings(max_examples=60, deadline=None)
def test_a_set_element_order_that_names_all_is_the_order(order: list[str], present: set[str]) -> None:
    base = BASES["podtemplate"]
    schema = schema_of(base)
    names = sorted(present)
    start = {**base, "metadata": {**base["metadata"], "finalizers": names}}
    result = (
        strategic.apply(start, {"metadata": {"$setElementOrder/finalizers": list(order)}}, schema) if names else start
    )
    assert result["metadata"]["finalizers"] == [name for name in order if name in present]


@given(
    patch=st.dictionaries(st.sampled_from(["metadata", "template", "x", "$patch", "$retainKeys"]), PLAIN, max_size=3)
)
@settings(max_examples=100, deadline=None)
def test_any_patch_gives_an_object_or_a_refusal(patch: Obj) -> None:
    base = BASES["podtemplate"]
    before = copy.deepcopy(base)
    with contextlib.suppress(StatusError):
        assert isinstance(strategic.apply(base, patch, schema_of(base)), dict)
    assert base == before


def test_ordering_maps_that_have_no_merge_key_is_refused() -> None:
    base = BASES["podtemplate"]
    patch = _template({"$setElementOrder/tolerations": [{"key": "b"}, {"key": "a"}]})
    with pytest.raises(StatusError, match="merge key"):
        strategic.apply(base, patch, schema_of(base))
