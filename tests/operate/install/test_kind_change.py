"""What objects of others would lose by koord, and what they get back: kinds, and webhooks."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from koord.operate.install.cluster_objects import definitions
from koord.operate.install.kind_change import losses
from koord.operate.install.manifest import Key, key_of
from koord.operate.install.plan import plan
from koord.operate.install.removal import removal
from tests.operate.install import koordinator
from tests.operate.install.koordinator import AMOUNT, ANYTHING, NUMBER, TEXT, TEXTS, YES, Kind, many, obj


def definition(spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    return Kind("Thing", "things", "example.org", {"spec": spec}, **more).definition()


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        (obj(a=TEXT), obj(a=TEXT, b=TEXT), ()),
        (obj(a=TEXT, b=TEXT), obj(a=TEXT), ("spec.b (v1alpha1)",)),
        (obj(a=obj(b=TEXT)), obj(a=ANYTHING), ()),
        (obj(a=ANYTHING), obj(a=obj(b=TEXT)), ("spec.a.* (v1alpha1)",)),
        # What is named beside "anything" is pruned by what is said of it.
        (obj(a=obj(b=TEXT, c=TEXT)), obj(a={**obj(b=obj()), **ANYTHING}), ("spec.a.b as string (v1alpha1)",)),
        (obj(a=many(obj(b=TEXT))), obj(a=many(obj(c=TEXT))), ("spec.a[].b (v1alpha1)",)),
        (obj(a=TEXTS), obj(a=TEXTS), ()),
        (obj(a=TEXTS), obj(a=obj()), ("spec.a.* (v1alpha1)",)),
        (obj(a=obj(b=TEXT)), obj(a=TEXTS), ()),
        (obj(a=NUMBER), obj(a=AMOUNT), ()),
        (obj(a=AMOUNT), obj(a=NUMBER), ("spec.a as integer or string (v1alpha1)",)),
        (obj(a=YES), obj(a=TEXT), ("spec.a as boolean (v1alpha1)",)),
    ],
)
def test_every_field_that_another_definition_does_not_name_is_lost(
    before: dict[str, Any], after: dict[str, Any], lost: tuple[str, ...]
) -> None:
    assert losses(definition(before), definition(after)) == lost


def test_a_version_and_a_subresource_can_be_lost_too() -> None:
    spec = obj(a=TEXT)
    assert losses(definition(spec, versions=("v1", "v2")), definition(spec, versions=("v2",))) == ("version v1",)
    assert losses(definition(spec, has_status=False), definition(spec)) == ("status as part of the object (v1alpha1)",)
    assert losses(definition(spec), definition(spec, has_status=False)) == ("status as a subresource (v1alpha1)",)


@pytest.mark.parametrize("version", ["v1.4", "v1.8"])
def test_objects_of_koordinator_lose_nothing_by_koords_kinds(version: str) -> None:
    ours: dict[str, Any] = {key_of(definition).name: definition for definition in definitions()}
    theirs = koordinator.definitions(version)
    assert len(theirs) >= 10
    assert {each["metadata"]["name"]: losses(each, ours[each["metadata"]["name"]]) for each in theirs} == {
        each["metadata"]["name"]: () for each in theirs
    }
    for each in theirs:
        spec, own = each["spec"], ours[each["metadata"]["name"]]["spec"]
        assert (spec["scope"], spec["names"]["kind"]) == (own["scope"], own["names"]["kind"])


def reservations(change: Any) -> tuple[dict[Key, Any], list[Any]]:
    """The kind as another product defines it, and as koord does."""
    wanted = [definition for definition in definitions() if key_of(definition).name.startswith("reservations.")]
    live: Any = copy.deepcopy(wanted[0])
    live["metadata"]["labels"] = {}
    live["metadata"]["managedFields"] = [{"manager": "helm"}]
    change(live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])
    return {key_of(live): live}, wanted


def test_a_kind_whose_objects_would_lose_fields_is_refused_by_name_even_where_it_may_be_taken_over() -> None:
    live, wanted = reservations(lambda fields: (fields.update({"zone": TEXT}), fields.pop("ttl")))
    (step,) = plan(wanted, live, adopt=True).steps
    assert step.action == "refuse"
    assert "its objects would lose spec.zone (v1alpha1), which koord does not know" in step.why
    assert plan(wanted, live, adopt=True, may_prune=True).steps[0].action == "patch"


def test_a_kind_that_knows_more_than_koord_is_left_as_it_is() -> None:
    live, wanted = reservations(lambda fields: fields.update({"zone": TEXT}))
    (step,) = plan(wanted, live, adopt=True).steps
    assert (step.action, step.why) == ("nothing", "it has all that koord needs, and more")


def test_a_kind_that_was_there_before_koord_says_so_and_stays_when_koord_goes() -> None:
    live, wanted = reservations(lambda fields: fields.pop("ttl"))
    (step,) = plan(wanted, live, adopt=True).steps
    patched: Any = step.manifest
    assert step.action == "patch"
    assert patched["metadata"]["annotations"]["install.koord.sh/found"] == "helm"
    # Applied again with another version of koord, the mark is still there.
    (again,) = plan(wanted, {step.key: {**patched, "spec": {}}}, adopt=False).steps
    assert again.manifest["metadata"] == patched["metadata"]
    (kept,) = removal({step.key: patched}, (), delete_crds=True).kept
    assert kept.why == "it was there before koord (written by helm)"


def test_webhooks_of_another_system_are_given_back_and_what_cannot_be_read_makes_no_pod_wait() -> None:
    def found(kept: str) -> dict[Key, Any]:
        meta = {"name": "x", "annotations": {"install.koord.sh/webhooks-before": kept}}
        live = {"apiVersion": "v1", "kind": "MutatingWebhookConfiguration", "metadata": meta, "webhooks": [{"a": 1}]}
        return {key_of(live): live}

    back = removal(found('[{"name":"theirs"}]'), (), delete_crds=False)
    assert list(back.handed_back.values()) == [{"webhooks": [{"name": "theirs"}]}]
    assert (back.early, back.late) == ((), ())
    assert list(removal(found("{"), (), delete_crds=False).handed_back.values()) == [{"webhooks": []}]
