"""What happens to reservations in a story, and what pods ask of them: lines of the table in `features`."""

from __future__ import annotations

import json
from typing import Final

from koord.api.kinds import PODS, RESERVATIONS
from koord_chaos.invariants.manifests import GPU_PARTITION, JOINT, RESERVATION_AFFINITY, node_of
from koord_chaos.stories.actions import Action, Change, Drop, Has, Put
from koord_chaos.stories.dice import Dice
from koord_chaos.stories.script import GANG, Script, Wish, is_leaving, stripped

HINT: Final = "scheduling.koordinator.sh/device-allocate-hint"
KIND: Final = {"kind": "special"}
"""A label of reservations."""


def reservation_expires_soon(script: Script, has: Has) -> list[Action]:
    result = script.reservation_comes(has)
    for action in result:
        assert isinstance(action, Put)
        action.manifest["spec"]["ttl"] = script.dice.one(("5s", "15s"))
    return result


def reservation_closes_or_opens(script: Script, has: Has) -> list[Action]:
    if not has[RESERVATIONS]:
        return []
    name = script.dice.one(sorted(has[RESERVATIONS]))
    is_closed = has[RESERVATIONS][name]["spec"].get("unschedulable")
    return [Change(RESERVATIONS, name, {"spec": {"unschedulable": not is_closed}})]


def reservation_for_a_service(script: Script, has: Has) -> list[Action]:
    """As a migration makes it: for the pod that replaces one of a service, which then goes."""
    moving = [
        (key, pod)
        for key, pod in sorted(has[PODS].items())
        if node_of(pod) and not is_leaving(pod) and pod["metadata"].get("ownerReferences")
    ]
    if not moving:
        return []
    key, pod = script.dice.one(moving)
    owner, name = pod["metadata"]["ownerReferences"][0], script.name("m")
    template = {
        "metadata": {
            "labels": pod["metadata"].get("labels", {}),
            "namespace": pod["metadata"]["namespace"],
        },
        "spec": {part: value for part, value in pod["spec"].items() if part != "nodeName"},
    }
    controller = {"namespace": pod["metadata"]["namespace"], **{part: owner[part] for part in ("name", "uid", "kind")}}
    spec = {
        "template": template,
        "owners": [{"controller": {**controller, "controller": True, "apiVersion": "apps/v1"}}],
        "allocateOnce": True,
        "ttl": "60s",
    }
    new = {part: stripped(pod)[part] for part in ("metadata", "spec")}
    new["metadata"] = {
        **{
            part: new["metadata"][part]
            for part in ("labels", "namespace", "ownerReferences")
            if part in new["metadata"]
        },
        "name": f"{pod['metadata']['name']}-{name}",
        "annotations": {
            part: value
            for part, value in (new["metadata"].get("annotations") or {}).items()
            if part in ("scheduling.koordinator.sh/resource-spec", GPU_PARTITION, HINT, JOINT) or part.startswith(GANG)
        },
    }
    new["spec"].pop("nodeName", None)
    return [Put(RESERVATIONS, {"metadata": {"name": name}, "spec": spec}), Drop(PODS, key), Put(PODS, new)]


def special_reservation(script: Script, has: Has) -> list[Action]:
    """One that pods select by its labels."""
    result = script.reservation_comes(has)
    for action in result:
        assert isinstance(action, Put)
        action.manifest["metadata"]["labels"] = dict(KIND)
    return result


def asks_for_special(dice: Dice, wish: Wish) -> None:
    wish["metadata"]["labels"].setdefault("app", dice.one(("web", "db")))
    wish["metadata"]["annotations"][RESERVATION_AFFINITY] = json.dumps({"reservationSelector": KIND})


def taking_over(script: Script, has: Has) -> list[Action]:
    """A reservation that takes over running pods."""
    result = script.reservation_comes(has)
    for action in result:
        assert isinstance(action, Put)
        action.manifest["spec"] |= {"preAllocation": True, "allocatePolicy": "Restricted", "allocateOnce": False}
    return result
