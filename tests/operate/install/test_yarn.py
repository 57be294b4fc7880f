"""`koord install --with yarn`: what it makes is what the operator and the copilot take, and enough for what they do."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from koord.api import kinds
from koord.api.kinds import Kind
from koord.cli.main import run as koord
from koord.kube.errors import ApiError
from koord.operate.install import yarn
from koord.operate.install.extras import EXTRAS
from koord.operate.install.manifest import Json
from koord.operate.install.objects import desired
from koord.operate.install.settings import Settings
from koord.yarn.amount import of_yarn
from koord.yarn.live.run import OperatorOptions, run
from koord_minicluster.up.bootstrap import CLUSTER_ROLE_BINDINGS
from tests.manager.live.managing import fresh, make_node, managing, report, until_there
from tests.operate.install.recorded import Refusals, as_account
from tests.scheduler.live.embedded import serving
from tests.waiting import eventually
from tests.yarn.stand_in import resource_manager
from tests.yarn.test_operator import NODE_ID, QUICK, SLOWLY_S, condition, until_cap

SETTINGS = Settings(image="koord:1", version="1.0.0", extras=("yarn",))
RBAC = "rbac.authorization.k8s.io"
ROLES: dict[str, Kind[Any]] = {
    each.kind: each
    for each in (
        *kinds.ALL,
        CLUSTER_ROLE_BINDINGS,
        Kind(RBAC, "v1", "Role", "roles", True, CLUSTER_ROLE_BINDINGS.type),
        Kind(RBAC, "v1", "RoleBinding", "rolebindings", True, CLUSTER_ROLE_BINDINGS.type),
    )
}


def container(of: Json) -> Any:
    made: Any = of
    return made["spec"]["template"]["spec"]["containers"][0]


def test_it_adds_its_objects_to_an_installation_and_no_others() -> None:
    with_yarn, without = desired(SETTINGS), desired(Settings(image="koord:1", version="1.0.0"))
    assert with_yarn == [*without, *EXTRAS["yarn"].objects(SETTINGS)]


@pytest.mark.parametrize("workload", [yarn.operator, yarn.copilot])
def test_their_commands_take_what_they_are_given(workload: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert koord([*container(workload(SETTINGS))["args"], "--help"]) == 0
    assert "Usage: koord yarn" in capsys.readouterr().out


def test_the_copilot_is_not_privileged_and_asks_no_api_server() -> None:
    made: Any = yarn.copilot(SETTINGS)
    security = container(made)["securityContext"]
    assert security["capabilities"]["drop"] == ["ALL"]
    assert "privileged" not in security
    assert made["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    assert not [each for each in yarn.objects(SETTINGS) if "Role" in str(each["kind"]) and "copilot" in str(each)]


async def test_its_rights_are_enough_for_all_that_an_operator_does(tmp_path: Path) -> None:
    refusals = Refusals()
    async with serving(tmp_path) as admin, resource_manager(n1=of_yarn(1, 1024)) as rm:
        await fresh(admin)
        for each in yarn.objects(SETTINGS):
            if str(each["kind"]) in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"):
                with suppress(ApiError):
                    await admin.create(ROLES[str(each["kind"])], each)
        async with await as_account(admin, yarn.OPERATOR.full_name) as client:
            client.observe(refusals)
            with pytest.raises(ApiError):
                await client.delete(kinds.NODES, "n1")
            refusals.codes.clear()
            options = OperatorOptions({"": rm.cluster}, QUICK, elect=True, look_s=0.2, soon_s=0.05)
            async with managing(admin):
                operator = asyncio.create_task(run(client, options))
                try:
                    await make_node(admin, "n1", annotations=NODE_ID)
                    await until_there(admin, kinds.NODE_METRICS, "n1")
                    await report(admin, "n1")
                    await until_cap(rm, 17)

                    async def is_shared() -> bool:
                        return (await condition(admin))[1] == "Shared"

                    await eventually(is_shared, SLOWLY_S)
                finally:
                    operator.cancel()
                    with suppress(asyncio.CancelledError):
                        await operator
    assert (refusals.codes[401], refusals.codes[403]) == (0, 0), refusals.codes
