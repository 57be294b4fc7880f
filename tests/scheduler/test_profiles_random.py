"""Any choice of plugins, points and weights: the engine has what the plain reading has, and kube-scheduler reads it.

A profile is written by `random_profile` as a user would: sets per point, multiPoint, `*`, weights, arguments.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.configuration.component_config import PluginRef, PluginSet
from koord.api.configuration.scheduler_args import ARGS
from koord.api.configuration.scheduler_config import SchedulerConfiguration, SchedulerProfile, parse
from koord.api.configuration.scheduler_plugins import DEFAULT_PLUGINS, IMPLEMENTS, Plugins
from koord.api.text.yaml import load
from koord.scheduler.profiles import profiles_of
from koord_chaos.stories.dice import Dice
from tests.control_plane import find_binary
from tests.scheduler.generate import random_scene
from tests.scheduler.profiles import PROFILES, twins
from tests.scheduler.reference import cycle
from tests.scheduler.world import differences, engine_of

STOCK = [plugin_ref.name for plugin_ref in DEFAULT_PLUGINS.multi_point.enabled]
NEEDED = ("PrioritySort", "DefaultBinder")


def random_profile(dice: Dice, arguments: SchedulerProfile) -> SchedulerProfile:
    """Some plugins off everywhere, some at one point, some with other weights, some points written out whole."""
    chosen = [name for name in STOCK if name not in NEEDED]
    sets: dict[str, PluginSet] = {}
    if dice.chance(0.3):
        kept = [name for name in STOCK if name in NEEDED or dice.chance(0.7)]
        sets["multi_point"] = PluginSet(tuple(map(PluginRef, kept)), (PluginRef("*"),))
    elif dice.chance(0.6):
        sets["multi_point"] = PluginSet(disabled=tuple(map(PluginRef, dice.some(chosen, 4))))
    filters = [name for name in chosen if "filter" in IMPLEMENTS[name]]
    scores = [name for name in chosen if "score" in IMPLEMENTS[name]]
    if dice.chance(0.3):
        # A plugin that is to filter must have been asked before filters, where it has something to say there.
        shuffled = _shuffled(dice, filters)[: dice.integer(3, len(filters))]
        before = tuple(PluginRef(name) for name in filters if "preFilter" in IMPLEMENTS[name])
        sets["filter"] = PluginSet(tuple(map(PluginRef, shuffled)), (PluginRef("*"),))
        sets["pre_filter"] = PluginSet(before, (PluginRef("*"),))
    elif dice.chance(0.5):
        sets["filter"] = PluginSet(disabled=tuple(map(PluginRef, dice.some(filters, 3))))
    weighed = tuple(PluginRef(name, dice.integer(0, 9)) for name in dice.some(scores, 4))
    off = dice.one(((), (PluginRef("*"),), tuple(map(PluginRef, dice.some(scores, 2)))))
    sets["score"] = PluginSet(weighed, off)
    return replace(arguments, scheduler_name=f"{arguments.scheduler_name}-otherwise", plugins=Plugins(**sets))


def _shuffled(dice: Dice, names: list[str]) -> list[str]:
    left = list(names)
    return [left.pop(dice.integer(0, len(left) - 1)) for _ in names]


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_the_engine_has_the_plugins_that_a_profile_resolves_to(seed: int) -> None:
    scene = random_scene(seed)
    profile = random_profile(Dice(seed ^ 0xC0FFEE), scene.profile)
    (profile,) = parse(SchedulerConfiguration(profiles=(profile,)).manifest()).profiles
    plain = scene.cluster()
    engine = engine_of(plain, profile)
    resolved = profile.resolved()
    assert engine.profile.weights == dict(resolved.weights)
    takes_part = {name for point in ("preFilter", "filter", "score", "postFilter") for name in resolved.at[point]}
    helping = {name for name, _ in engine.profile.at("postFilter", "post_filter")}
    assert {*engine.judging, *helping} == takes_part
    for pod in scene.pods():
        assert list(differences(engine, pod, plain, profile)) == []


def test_profiles_with_every_argument_reach_the_plugins() -> None:
    for profile in PROFILES:
        (built,) = profiles_of(SchedulerConfiguration(profiles=(profile,))).profiles.values()
        assert {plugin.name for plugin in built.plugins} >= cycle.SCORES.keys() - {"LoadAwareScheduling"}
    assert all(
        "have no effect" not in warning for warning in profiles_of(SchedulerConfiguration(profiles=PROFILES)).warnings
    )


@pytest.mark.cluster
@pytest.mark.skipif(find_binary("kube-scheduler") is None, reason="no kube-scheduler")
def test_kube_scheduler_reads_what_is_written_as_koord_does(tmp_path: Path) -> None:
    """It writes down the configuration as it understood it, all defaults filled in, and ends."""
    random = [random_profile(Dice(seed), PROFILES[seed % len(PROFILES)]) for seed in range(40)]
    profiles = [*PROFILES, *(twin for profile in PROFILES for twin in twins(profile)), *random]
    named = tuple(
        replace(profile, scheduler_name=f"{i}-{profile.scheduler_name}") for i, profile in enumerate(profiles)
    )
    config = SchedulerConfiguration(profiles=named)
    (tmp_path / "kubeconfig").write_text(json.dumps(KUBECONFIG))
    manifest: dict[str, Any] = config.manifest()
    manifest |= {"clientConnection": {"kubeconfig": str(tmp_path / "kubeconfig")}}
    manifest |= {"leaderElection": {"leaderElect": False}}
    (tmp_path / "config").write_text(json.dumps(manifest))
    binary = find_binary("kube-scheduler")
    subprocess.run(
        [str(binary), f"--config={tmp_path}/config", f"--write-config-to={tmp_path}/written", "--secure-port=0"],
        check=True,
        capture_output=True,
        timeout=60,
    )
    read: Any = load((tmp_path / "written").read_text(), "written")
    for ours, theirs in zip(config.profiles, parse(read).profiles, strict=True):
        assert ours.resolved() == theirs.resolved()
        # Arguments of plugins that run nowhere are dropped.
        for plugin in ARGS.keys() & ours.resolved().names:
            assert ours.written_args(plugin).completed() == theirs.written_args(plugin).completed()


KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "nobody"}}],
    "users": [{"name": "nobody", "user": {}}],
    "current-context": "none",
}
