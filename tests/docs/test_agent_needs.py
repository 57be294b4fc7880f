"""The page on what the agent needs from the kernel is the agent's own table."""

from pathlib import Path

from koord.agent.host.cgroups import Version
from koord.agent.host.features import TABLE, features
from koord.api.kubernetes.cgroup import CgroupDriver
from tests.agent.trees import Tree
from tools.agent_needs import page

PAGE = Path(__file__).parents[2] / "docs/what-the-agent-needs.md"


def test_the_page_is_what_the_table_says() -> None:
    assert PAGE.read_text() == page(), "run: python -m tools.agent_needs docs/what-the-agent-needs.md"


def test_what_a_kernel_is_asked_for_is_in_the_table(tmp_path: Path) -> None:
    tree = Tree(tmp_path, Version.V2, CgroupDriver.CGROUPFS)
    asked = [feature.name for feature in features(tree.cgroups, "kubepods")]
    assert asked == ["cgroup", *(kernel_feature.name for kernel_feature in TABLE)]
    assert len({*asked}) == len(asked)
