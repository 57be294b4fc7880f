"""Settings of the whole machine, on composed hosts: no test touches the real files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koord.agent.executor.delivery import Delivery
from koord.agent.executor.executor import Executor
from koord.agent.executor.ledger import Ledger
from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.system_knobs import SYSTEM_KNOBS, scheduler_feature_names, scheduler_features
from koord.agent.qos import system_config
from koord.agent.qos.registry import STRATEGIES
from koord.agent.qos.strategy import Reader, Sight, Strategy
from koord.agent.series.names import NODE_CPU, pod_cpu
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState
from tests.agent.states import GIB, NOW, node, pod, samples
from tests.agent.trees import Tree

FILES = {
    "proc/sys/vm/min_free_kbytes": "67584",
    "proc/sys/vm/watermark_scale_factor": "10",
    "sys/kernel/debug/sched/features": "PLACE_LAG NO_NEXT_BUDDY WAKEUP_PREEMPTION\n",
}


class Host:
    def __init__(self, root: Path) -> None:
        self.tree = Tree(root)
        for name, text in FILES.items():
            self.tree.write(name, f"{text}\n")
        self.executor = Executor(self.tree.cgroups, Ledger())

    def round(self, **settings: Any) -> dict[str, str]:
        """What is written, by file."""
        node_state = _state(settings)
        features = scheduler_feature_names(self.tree.files)
        decision = system_config.decide(node_state, features)
        assert decision is not None
        writes = Delivery(self.tree.cgroups).writes([decision.wishes], node_state)
        outcome = self.executor.apply(writes, {system_config.NAME}, NOW)
        assert not outcome.refused
        return {self.executor.file(done_write.write).rpartition("/")[2]: done_write.text for done_write in outcome.done}


def _state(settings: dict[str, Any]) -> NodeState:
    return node(memory=64 * GIB, slo={"systemStrategy": settings})


def test_memory_that_is_kept_free_is_a_part_of_the_nodes(tmp_path: Path) -> None:
    assert system_config.min_free_kbytes(64 * GIB, 100) == 671088
    assert Host(tmp_path).round(minFreeKbytesFactor=100) == {"min_free_kbytes": "671088"}


def test_a_figure_that_the_kernel_does_not_take_is_left_out(tmp_path: Path) -> None:
    assert Host(tmp_path).round(minFreeKbytesFactor=1, watermarkScaleFactor=5) == {}


def test_what_is_no_longer_wanted_is_as_it_was(tmp_path: Path) -> None:
    host = Host(tmp_path)
    assert host.round(watermarkScaleFactor=150) == {"watermark_scale_factor": "150"}
    assert host.round(watermarkScaleFactor=150) == {}
    assert host.round() == {"watermark_scale_factor": "10"}
    assert len(host.executor.ledger) == 0


def test_features_of_the_scheduler_are_switched_one_by_one(tmp_path: Path) -> None:
    host = Host(tmp_path)
    assert host.round(schedFeatures={"NEXT_BUDDY": True, "PLACE_LAG": True, "UNHEARD_OF": True}) == {
        "features": "NEXT_BUDDY"
    }


def test_what_this_kernel_does_not_have_is_passed_over(tmp_path: Path) -> None:
    assert Host(tmp_path).round(memcgReapBackGround=1, schedIdleSaverWmark=5, schedGroupIdentityEnabled=1) == {}


def test_where_the_node_is_a_part_of_a_machine_the_machine_is_left_alone(tmp_path: Path) -> None:
    tree, state = Tree(tmp_path), _state({"watermarkScaleFactor": 150})
    cgroups = Cgroups(tree.files, Version.V2, "part")
    seen = system_config.STRATEGY.look(Reader(cgroups, state, NOW, is_thorough=True), None)
    decision = system_config.STRATEGY.decide(Sight(state, Samples(), NOW), seen, None).decision
    assert decision is not None
    assert decision.wishes == ()
    assert [problem.why for problem in decision.problems] == [
        "the node is a part of a machine, and these settings are the whole machine's"
    ]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda each: each.name)
def test_on_a_node_that_is_switched_off_nobody_wants_anything(strategy: Strategy[Any, Any], tmp_path: Path) -> None:
    """Whatever the settings ask for: what was written is put back."""
    classes = {"enable": True}
    of_class = {"memoryQOS": {**classes, "minLimitPercent": 50}, "resctrlQOS": classes, "cpuQOS": classes}
    block = {"name": "/dev/sda", "ioCfg": {"readBPS": 5}}
    asked = {
        "systemStrategy": {"watermarkScaleFactor": 150},
        "cpuBurstStrategy": {"policy": "auto"},
        "resourceUsedThresholdWithBE": classes,
        "resourceQOSStrategy": {
            "beClass": {**of_class, "blkioQOS": {**classes, "blocks": [block]}},
            "lsClass": of_class,
        },
    }
    pods = pod("web", "LS", requests={"cpu": "1"}, limits={"cpu": "1"}), pod("job", "BE")
    state = replace(node(*pods, slo=asked), is_colocation_off=True)
    reader = Reader(Tree(tmp_path).cgroups, state, NOW, is_thorough=True)
    usage = samples({NODE_CPU: 0, pod_cpu("web"): 0, pod_cpu("job"): 0})
    seen = strategy.look(reader, strategy.memory)
    decision = strategy.decide(Sight(state, usage, NOW), seen, strategy.memory).decision
    assert decision is not None, "nothing would be put back"
    assert decision.wishes == ()


def test_a_feature_is_a_name_and_no_path() -> None:
    assert scheduler_features("../../x") == ()
    assert scheduler_features("no_caps") == ()
    assert len({knob.name for knob in (*SYSTEM_KNOBS, *scheduler_features("PLACE_LAG"))}) == len(SYSTEM_KNOBS) + 2
