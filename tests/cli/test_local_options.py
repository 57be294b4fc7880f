"""A local node has no more than the machine, and its agent the gates that it is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from koord.api.configuration.features import AgentGate, parse_gates
from koord.cli.main import run
from koord_minicluster.up.plan import UpOptions, components

Told = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--cpu", "100000"), "cpu 100000: must be from 100m to "),
        (("--cpu", "10m"), "cpu 10m: must be from 100m to "),
        (("--memory", "1Ei"), "memory 1Ei: must be from 64Mi to "),
        (("--memory", "1Mi"), "memory 1Mi: must be from 64Mi to "),
    ],
)
def test_more_than_the_machine_has_is_refused_by_name(options: tuple[str, str], told: str, capsys: Told) -> None:
    option, value = options
    assert run(["local", option, value]) == 2
    assert f"--{told}" in capsys.readouterr().err
    assert run(["up", "--headless", "--local-node", f"--local-{option[2:]}", value]) == 2
    said = capsys.readouterr().err
    assert f"--local-{told}" in said
    assert "all that this machine has" in said


def test_the_agent_of_a_local_node_gets_gates_beside_its_own_and_over_them() -> None:
    given = "InterferenceDetection=true,PSICollector=false"
    plan = {
        component.name: component
        for component in components(UpOptions(local_args=(), agent_gates=given), Path("/d"), 1)
    }
    args = plan["agent"].args
    gates = parse_gates(AgentGate, args[args.index("--feature-gates") + 1])
    assert gates[AgentGate.INTERFERENCE_DETECTION]
    assert gates[AgentGate.BE_MEMORY_EVICT]
    assert not gates[AgentGate.PSI_COLLECTOR]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--agent-feature-gates", "CPUBurst=true"), "--agent-feature-gates go with --local-node"),
        (
            ("--local-node", "--agent-feature-gates", "Nonsense=true"),
            "feature gate Nonsense: is not known here; valid are",
        ),
    ],
)
def test_gates_that_cannot_be_given_are_refused(options: tuple[str, ...], told: str, capsys: Told) -> None:
    assert run(["up", "--headless", *options]) == 2
    assert told in capsys.readouterr().err
