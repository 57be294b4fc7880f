"""Gangs: what they are, when they go, and that they go together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from koord.api.configuration.component_config import PluginConfig
from koord.api.configuration.scheduler_args import CoschedulingArgs
from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import NODES
from koord.cli.main import run
from koord.scheduler.core.decision import Bind, Nowhere
from tests.scheduler.builders import ask, node
from tests.scheduler.gangs import PREFIX, World, member, pod_group

GROUPS = json.dumps(["shop/train", "lab/serve"])


def gang(number: int, name: str = "train", **more: Any) -> list[Any]:
    return [member(f"{name}-{i}", name, **more) for i in range(number)]


def test_a_gang_is_placed_in_one_decision_once_its_minimum_is_there() -> None:
    world = World(4)
    pods = gang(3, least=3)
    world.put(*pods[:2])
    assert world.decide() == []
    assert world.gate("shop/train-0") == "waiting: gang shop/train has 2 of the 3 pods that it needs at least"
    world.put(pods[2])
    [bind] = world.decide()
    assert isinstance(bind, Bind)
    assert {member.ask.meta.name for member in bind.members} == {"train-0", "train-1", "train-2"}


def test_a_gang_that_does_not_fit_says_how_many_do_and_holds_nothing() -> None:
    world = World(4, 4)
    world.put(*gang(3, least=3, cpu="3"))
    [decision] = world.decide()
    assert isinstance(decision, Nowhere)
    assert decision.message.startswith("gang shop/train needs 3 pods at once, 2 fit; short of 1 x (cpu 3). 0/2 nodes")
    assert not world.core.cluster.pods


def test_members_beyond_the_minimum_are_placed_if_they_fit_and_later_otherwise() -> None:
    world = World(3)
    world.put(*gang(4, least=2))
    [bind] = world.decide()
    assert isinstance(bind, Bind)
    assert [unplaced.ask.meta.name for unplaced in bind.unplaced] == ["train-3"]
    assert "1 Insufficient cpu" in bind.unplaced[0].message
    world.bind(bind)
    world.core.put(NODES, node("more", cpu="1"))
    world.wait(3)
    assert world.settle() == {"train-3": "more"}


def test_more_members_of_one_gang_never_take_the_room_that_another_gang_of_the_group_needs() -> None:
    world = World(4)
    world.put(*gang(4, least=2, groups=GROUPS))
    world.put(*(member(f"s{i}", "serve", namespace="lab", least=2, groups=GROUPS) for i in range(2)))
    assert set(world.settle()) == {"train-0", "train-1", "s0", "s1"}


def test_more_important_members_go_first() -> None:
    world = World(2)
    world.put(*gang(3, least=2), member("boss", least=2, priority=9))
    assert "boss" in world.settle()


def test_gangs_that_cross_do_not_hold_half_of_the_cluster_each() -> None:
    """One at a time, each gang would get two of the four places, and both would wait for ever."""
    world = World(1, 1, 1, 1)
    for i in range(4):
        world.put(member(f"a{i}", "a", least=4), member(f"b{i}", "b", least=4))
    assert set(world.settle()) == {"a0", "a1", "a2", "a3"}
    world.delete(*(world.pods[f"shop/a{i}"] for i in range(4)))
    world.wait(3)
    assert set(world.settle()) == {"b0", "b1", "b2", "b3"}


def test_a_gang_that_does_not_fit_is_in_nobodys_way() -> None:
    world = World(2)
    world.put(*gang(3, least=3, priority=10))
    world.put(ask("plain", cpu="1").pod)
    assert world.settle() == {"plain": "n0"}


@pytest.mark.parametrize(
    ("policy", "running", "waiting", "goes"),
    [
        ("once-satisfied", 0, 2, False),
        ("once-satisfied", 0, 3, True),
        ("once-satisfied", 1, 1, True),
        ("waiting-and-running", 1, 1, False),
        ("waiting-and-running", 2, 1, True),
        ("waiting-and-running", 3, 1, True),
        ("only-waiting", 3, 2, False),
        ("only-waiting", 3, 3, True),
    ],
)
def test_match_policies_say_who_counts_towards_the_minimum(policy: str, running: int, waiting: int, goes: bool) -> None:
    world = World(10)
    settings: dict[str, Any] = {"least": 3, "match_policy": policy}
    world.put(*(member(f"run-{i}", on="n0", phase="Running", **settings) for i in range(running)))
    world.put(*(member(f"wait-{i}", **settings) for i in range(waiting)))
    assert len(world.settle()) == (waiting if goes else 0)


@pytest.mark.parametrize("policy", ["waiting-and-running", "only-waiting"])
def test_a_gang_that_waits_does_not_hold_back_one_of_its_group_that_goes_as_pods_come(policy: str) -> None:
    """The group has started. Gang train uses once-satisfied; gang serve needs two more pods, and one waits."""
    world = World(10)
    group = '["shop/train", "shop/serve"]'
    train: dict[str, Any] = {"gang": "train", "least": 1, "groups": group}
    serve: dict[str, Any] = {"gang": "serve", "least": 2, "groups": group, "match_policy": policy}
    world.put(member("t-0", on="n0", phase="Running", **train))
    world.put(member("s-0", **serve), member("t-1", **train))
    assert world.settle() == {"t-1": "n0"}
    assert "gang shop/serve" in world.gate("shop/s-0")
    world.put(member("t-2", **train))
    assert world.settle() == {"t-2": "n0"}
    world.put(member("s-1", **serve))
    assert sorted(world.settle()) == ["s-0", "s-1"]


def test_the_policy_by_default_is_an_argument() -> None:
    args = PluginConfig("Coscheduling", CoschedulingArgs(default_match_policy="only-waiting"))
    config = replace(SHIPPED, profiles=(replace(SHIPPED.profiles[0], plugin_config=(args,)),))
    world = World(4, config=config)
    world.put(member("old", least=2, on="n0"), member("new", least=2))
    assert world.settle() == {}
    assert "only-waiting" in world.gate("shop/new")


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        ([member("a", crd=True)], "waiting: the PodGroup shop/train does not exist"),
        ([member("a")], "min-available"),
        ([member("a", least="many")], "min-available"),
        (
            [member("a", least=1, groups=GROUPS)],
            "gang lab/serve, which gang shop/train lists in its group, does not exist yet",
        ),
        (
            [member("a", least=1, groups=GROUPS), member("b", "serve", namespace="lab", least=1)],
            "all gangs of a group must list the same",
        ),
        (
            [member("a", least=1, groups=GROUPS), member("b", "serve", namespace="lab", least=2, groups=GROUPS)],
            "gang lab/serve has 1 of the 2 pods that it needs at least",
        ),
    ],
)
def test_a_gang_that_waits_says_for_what(pods: list[Any], reason: str) -> None:
    world = World(4)
    world.put(*pods)
    world.settle()
    assert reason in world.gate("shop/a")


def test_a_pod_group_may_come_after_its_pods_and_its_word_counts() -> None:
    world = World(4)
    world.put(*gang(2, crd=True))
    assert world.settle() == {}
    world.put(pod_group(least=3))
    assert world.settle() == {}
    world.put(pod_group(least=2))
    assert set(world.settle()) == {"train-0", "train-1"}


def test_a_pod_group_that_joins_a_group_takes_its_waiting_pods_along() -> None:
    world = World(4)
    world.put(pod_group("train", 2), *gang(1, crd=True))
    world.put(pod_group("train", 1, metadata={"annotations": {f"{PREFIX}groups": GROUPS}}))
    assert world.settle() == {}
    world.put(member("s", "serve", namespace="lab", least=1, groups=GROUPS))
    assert set(world.settle()) == {"train-0", "s"}


def test_a_pod_that_is_put_into_a_gang_no_longer_goes_alone() -> None:
    world = World(4)
    alone = member("a", "", least=2)
    in_gang = member("a", least=2)
    world.put(alone, in_gang)
    assert world.settle() == {}
    assert [attempt.entity.key for attempt in world.core.queue] == ["gang/shop/train"]
    world.put(replace(alone, metadata=replace(alone.metadata, annotations={})))
    assert world.settle() == {"a": "n0"}


def test_a_member_that_is_deleted_while_others_wait_closes_the_gate_again() -> None:
    world = World(2)
    pods = gang(3, least=3)
    world.put(*pods)
    assert isinstance(world.decide()[0], Nowhere)
    world.delete(pods[1])
    assert world.gate("shop/train-0") == "waiting: gang shop/train has 2 of the 3 pods that it needs at least"


def test_a_minimum_that_is_lowered_lets_the_gang_go() -> None:
    world = World(2)
    world.put(pod_group(least=3), *gang(3, crd=True))
    assert isinstance(world.decide()[0], Nowhere)
    world.put(pod_group(least=2))
    world.wait(400)
    assert len(world.settle()) == 2


def test_a_gang_whose_pods_all_failed_starts_together_again() -> None:
    world = World(1)
    world.put(*(member(f"old-{i}", least=2, on="n0", phase="Failed") for i in range(2)))
    world.put(*gang(2, least=2))
    assert isinstance(world.decide()[0], Nowhere)


def test_pods_of_a_gang_with_the_oldest_pods_settings_whatever_the_order() -> None:
    old = member("old", least=3, made="2026-01-01T00:00:00Z")
    new = member("new", least=1, made="2026-01-02T00:00:00Z")
    for pods in ((old, new), (new, old)):
        world = World(1)
        world.put(*pods)
        settings = world.gangs.all["shop/train"].settings
        assert settings is not None
        assert settings.min_available == 3


def test_a_gang_is_forgotten_with_its_last_pod_and_its_pod_group() -> None:
    world = World(4)
    pods = gang(2, crd=True)
    world.put(pod_group(), *pods)
    world.settle()
    world.delete(*pods)
    assert set(world.gangs.all) == {"shop/train"}
    world.delete(pod_group())
    assert (world.gangs.all, world.gangs.of_pod, world.gangs._listing) == ({}, {}, {})


def test_pods_that_are_bound_together_say_so_and_one_alone_does_not() -> None:
    world = World(2)
    world.put(*gang(2, least=2))
    [bind] = world.decide()
    assert isinstance(bind, Bind)
    patch = bind.members[0].plan.patch
    assert patch is not None
    said = patch.body["metadata"]["annotations"]
    assert said["internal.scheduling.koordinator.sh/bind-gang-group-id"] == "shop/train"
    assert said["internal.scheduling.koordinator.sh/bind-gang-member-count"] == "2"
    world.bind(bind)
    late = member("late", least=2)
    told = {**late.metadata.annotations, "internal.scheduling.koordinator.sh/bind-gang-member-count": "7"}
    world.put(replace(late, metadata=replace(late.metadata, annotations=told)))
    world.core.put(NODES, node("more", cpu="1"))
    [alone] = world.decide()
    assert isinstance(alone, Bind)
    patch = alone.members[0].plan.patch
    assert patch is not None
    assert patch.body["metadata"]["annotations"] == {"internal.scheduling.koordinator.sh/bind-gang-member-count": None}


def test_a_plain_pod_is_bound_as_ever() -> None:
    world = World(2)
    world.put(ask("plain").pod)
    [bind] = world.decide()
    assert isinstance(bind, Bind)
    assert (bind.members[0].plan.patch, bind.keeps_s, bind.unplaced) == (None, 0.0, ())


def test_people_who_look_into_a_scheduler_see_how_far_each_member_has_come() -> None:
    world = World(2)
    world.put(*gang(3, least=2))
    [bind] = world.decide()
    assert isinstance(bind, Bind)
    world.core.bound(bind, bind.members[0].ask)
    world.hear_bound("shop/train-0", "n0")
    [plugin] = [plugin for plugin in world.core.profiles.plugins() if plugin.name == "Coscheduling"]
    assert plugin.controller is not None
    services = plugin.controller.services
    told = services["gang/:namespace/:name"]("shop/train")
    assert isinstance(told, dict)
    assert told["boundChildren"] == ["shop/train-0"]
    assert told["waitingForBindChildren"] == ["shop/train-1"]
    assert told["pendingChildren"] == ["shop/train-2"]
    assert (told["minRequiredNumber"], told["mode"], told["hasGangInit"]) == (2, "Strict", True)
    assert services["gang/:namespace/:name"]("shop/none") is None
    assert services["gangs"]("") == {"shop/train": told}


def test_a_plan_tells_what_becomes_of_gangs_and_their_pod_groups(capsys: pytest.CaptureFixture[str]) -> None:
    examples = Path(__file__).parents[3] / "examples"
    files = [
        str(examples / "plan" / "nodes.yaml"),
        *(str(examples / "jobs" / f"{name}.yaml") for name in ("job", "pod-group")),
    ]
    assert run(["plan", "-o", "json", *(word for file in files for word in ("-f", file))]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert {pod["outcome"] for pod in planned["pods"].values()} == {"scheduled"}
    assert len(planned["pods"]) == 12
    status = planned["podGroups"]["default/render"]
    assert (status["phase"], status["scheduled"]) == ("Scheduled", 4)


def test_a_gang_that_does_not_fit_is_explained_as_a_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    amounts = {"cpu": "5", "memory": "32Gi", "pods": "110"}
    small = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": amounts}}
    path = tmp_path / "node.json"
    path.write_text(json.dumps(small))
    job = str(Path(__file__).parents[3] / "examples" / "jobs" / "job.yaml")
    run(["explain", "default/train-0", "-f", str(path), "-f", job])
    printed = capsys.readouterr().out
    assert "default/train-0 fits nowhere" in printed
    assert "gang default/train needs 8 pods at once, 5 fit; short of 3 x (cpu 1, memory 1Gi)" in " ".join(
        printed.split()
    )


@pytest.mark.parametrize("least", [1, 5, 10**9])
@pytest.mark.parametrize("mode", ["Strict", "NonStrict"])
def test_a_gang_that_lists_one_of_another_namespace_holds_it_up_in_nothing(least: int, mode: str) -> None:
    """The other one does not list it: it waits for the other, and not the other for it."""
    world = World(4)
    groups = json.dumps(["theirs/train", "shop/mine"])
    world.put(
        *(member(f"m{i}", "mine", least=least, groups=groups, mode=mode, cpu="3") for i in range(2)),
        *(member(f"t{i}", least=3, namespace="theirs", made="2026-01-02T00:00:00Z") for i in range(3)),
    )
    assert {"t0", "t1", "t2"} <= world.settle().keys()
