"""Koordinator's own runtime proxy with koord's hooks behind it, where its binary lies beside the control plane's."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from koord.agent.live import asked
from koord.runtime.live import hook_service
from koord.runtime.live.hook_service import HookServiceOptions
from tests.control_plane import find_binary
from tests.runtime.containerd import containerd
from tests.runtime.cri_client import client, printed
from tests.runtime.test_nri import SPEC, Agent
from tests.runtime.test_nri_with_containerd import ended
from tests.runtime.test_proxy import SAYS, answering

pytestmark = [pytest.mark.runtime, pytest.mark.timeout(120)]
PROXY = find_binary("koord-runtime-proxy-go")
OWN_ETC = (
    "mount -t overlay overlay -o lowerdir=/etc,upperdir={folder}/upper,workdir={folder}/work /etc &&"
    " mkdir -p /etc/runtime/hookserver.d && mount --bind {folder}/hooks /etc/runtime/hookserver.d && exec"
)
"""It looks for hook servers in one place alone, which is the test's own here: in a mount namespace."""


@pytest.mark.skipif(PROXY is None, reason="build Koordinator's cmd/koord-runtime-proxy as koord-runtime-proxy-go")
async def test_koordinators_proxy_sets_containers_up_by_koords_hooks(tmp_path: Path) -> None:
    for name in ("upper", "work", "hooks"):
        (tmp_path / name).mkdir()
    socket, agent = tmp_path / "theirs.sock", Agent()
    options = HookServiceOptions(tmp_path / "koordlet.sock", str(tmp_path / "agent.sock"), tmp_path / "hooks", "Fail")
    async with AsyncExitStack() as stack:
        runtime = stack.enter_context(containerd(tmp_path))
        serving = await asked.serve(tmp_path / "agent.sock", agent.answer)
        stack.push_async_callback(serving.cleanup)
        ready = asyncio.Event()
        hooks = asyncio.create_task(hook_service.run(options, on_ready=ready.set))
        stack.push_async_callback(ended, hooks)
        await asyncio.wait([hooks, asyncio.create_task(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
        says = f"{OWN_ETC.format(folder=tmp_path)} {PROXY} --koord-runtimeproxy-endpoint {socket}"
        run = f"{says} --remote-runtime-service-endpoint {runtime.socket}"
        process = await asyncio.create_subprocess_exec("unshare", "--mount", "sh", "-c", run)
        try:
            cri = await stack.enter_async_context(client(socket))
            await answering(cri)
            labels, annotations = (
                {"koordinator.sh/qosClass": "BE"},
                {"node.koordinator.sh/extended-resource-spec": SPEC},
            )
            pod = await cri.run_sandbox("job", runtime.parent, tmp_path, labels, annotations)
            made = await cri.create(pod, "main", ["/bin/sh", "-c", SAYS])
            await cri.start(made)
            assert (await printed(tmp_path / "main.log", 3))[:2] == ["50000", "512"], "at its first instruction"
            await cri.end(pod[0])
        finally:
            process.terminate()
            await process.wait()
    asked_for = [(each.by, each.container, each.is_over) for each in agent.asked]
    assert asked_for[:2] == [("RuntimeHookService", "", False), ("RuntimeHookService", "main", False)]
    assert asked_for[-1] == ("RuntimeHookService", "", True)
