"""Views: own writes show at once, and only until the informer has them."""

from __future__ import annotations

import msgspec
import pytest

from koord.api.kubernetes.core import Pod
from koord.api.kubernetes.meta import ObjectMeta
from koord.kube.store import Store
from koord_minicluster.controllers.live.cluster import MANAGER, by_manager
from koord_minicluster.controllers.live.view import View
from tests.minicluster.controllers.builders import owner_of


class SlowInformer:
    """An informer whose test decides what it has heard."""

    def __init__(self) -> None:
        self.store: Store[Pod] = Store()
        self.resource_version = "10"
        self.get, self.by_index, self.add_index = self.store.get, self.store.by_index, self.store.add_index

    def hear(self, *pods: Pod, at: int) -> None:
        for pod in pods:
            self.store.put(pod)
        self.resource_version = str(at)


def owned(name: str, version: int, *, deleting: bool = False, owner: str = "rs") -> Pod:
    meta = ObjectMeta(
        name=name,
        namespace="default",
        uid=f"uid-{name}",
        resource_version=str(version),
        deletion_timestamp="2026-01-01T00:00:00Z" if deleting else None,
        owner_references=(owner_of("ReplicaSet", owner, f"uid-{owner}"),),
    )
    return Pod(metadata=meta)


@pytest.fixture
def informer() -> SlowInformer:
    return SlowInformer()


@pytest.fixture
def view(informer: SlowInformer) -> View[Pod]:
    made: View[Pod] = View(informer)  # type: ignore[arg-type]  # the part of an informer that a view uses
    made.add_index(MANAGER, by_manager)
    return made


def shown(view: View[Pod], owner: str = "rs") -> dict[str, str]:
    return {p.metadata.name: p.metadata.resource_version for p in view.by_index(MANAGER, f"uid-{owner}")}


def test_what_we_made_shows_before_the_informer_has_it(informer: SlowInformer, view: View[Pod]) -> None:
    view.written(owned("a", 12))
    assert shown(view) == {"a": "12"}
    informer.hear(owned("a", 12), at=12)
    assert shown(view) == {"a": "12"}


def test_what_we_made_and_another_deleted_is_gone_once_the_informer_is_past_it(
    informer: SlowInformer, view: View[Pod]
) -> None:
    view.written(owned("a", 12))
    informer.hear(at=15)
    assert shown(view) == {}
    assert view.get("default/a") is None


def test_a_late_answer_does_not_bring_back_what_is_gone(informer: SlowInformer, view: View[Pod]) -> None:
    informer.hear(at=15)
    view.written(owned("a", 12))
    assert shown(view) == {}


def test_our_own_change_hides_the_older_state(informer: SlowInformer, view: View[Pod]) -> None:
    informer.hear(owned("a", 9), at=10)
    view.written(owned("a", 12, owner="other"))
    assert shown(view) == {}
    assert shown(view, "other") == {"a": "12"}
    informer.hear(owned("a", 13), at=13)
    assert shown(view) == {"a": "13"}


def test_what_we_deleted_shows_as_leaving_until_the_informer_says_so(informer: SlowInformer, view: View[Pod]) -> None:
    informer.hear(owned("a", 9), at=10)
    view.deleted("default/a", "uid-a")
    (leaving,) = view.by_index(MANAGER, "uid-rs")
    assert leaving.metadata.deletion_timestamp is not None
    informer.hear(owned("a", 11, deleting=True), at=11)
    assert view.get("default/a") == owned("a", 11, deleting=True)
    informer.store.delete("default/a")
    assert view.get("default/a") is None


def test_another_of_the_same_name_is_not_taken_for_deleted(informer: SlowInformer, view: View[Pod]) -> None:
    informer.hear(owned("a", 9), at=10)
    view.deleted("default/a", "uid-a")
    new = owned("a", 12)
    new = msgspec.structs.replace(new, metadata=msgspec.structs.replace(new.metadata, uid="uid-new"))
    informer.hear(new, at=12)
    pod = view.get("default/a")
    assert pod is not None
    assert pod.metadata.deletion_timestamp is None


def test_what_we_made_and_deleted_at_once_is_leaving(informer: SlowInformer, view: View[Pod]) -> None:
    view.written(owned("a", 12))
    view.deleted("default/a", "uid-a")
    (leaving,) = view.by_index(MANAGER, "uid-rs")
    assert leaving.metadata.deletion_timestamp is not None
    informer.hear(at=14)
    assert shown(view) == {}
