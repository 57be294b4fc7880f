"""Koordinator's own runtime proxy with koord's hooks behind it, and its own agent behind koord's proxy, where their
binaries lie beside the control plane's."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from koord.agent.live import asked
from koord.runtime.live import hook_service
from koord.runtime.live.hook_service import HookServiceOptions
from tests.control_plane import find_binary
from tests.runtime.containerd import CONTROLLERS, containerd
from tests.runtime.cri_client import client, printed
from tests.runtime.test_nri import SPEC, Agent
from tests.runtime.test_nri_with_containerd import ended
from tests.runtime.test_proxy import SAYS, answering
from tests.runtime.test_whole_node import KUBELET, PLACED, PLACEMENT, Node, create, node, of, until_printed

pytestmark = pytest.mark.runtime
PROXY, KOORDLET = find_binary("koord-runtime-proxy-go"), find_binary("koordlet-go")
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


class NodeOfKoordlets(Node):
    """Koordinator's agent in the place of koord's. It is kept from the machine's settings, and finds kubelet's cgroups
    where it looks for them by links."""

    def start_agent(self, cgroup: str) -> None:
        # It takes a kubelet without pods for one that fails.
        create(self, "first", "LS", "prod", "sleep 1000", "{}", PLACEMENT)
        self.until(lambda: of(self, "first", ".status.phase") == "Running", "a first pod")
        stages = ["PreRunPodSandbox", "PreCreateContainer", "PostStopPodSandbox"]
        (self.folder / "hooks.d" / "koord.json").unlink()
        said = {"remote-endpoint": str(self.hooks), "failure-policy": "Fail", "runtime-hooks": stages}
        (self.folder / "hooks.d" / "koordlet.json").write_text(json.dumps(said))
        own = {name: self.folder / name for name in ("cgroups", "theirs", "run-root", "log", "series", "fs")}
        for each in own.values():
            each.mkdir(exist_ok=True)
        for controller in CONTROLLERS.iterdir():
            if (controller / cgroup).is_dir():
                (own["cgroups"] / controller.name).symlink_to(controller / cgroup)
        flags = {
            "kubeconfig": self.kubeconfig,
            "cgroup-root-dir": f"{own['cgroups']}/",
            "sys-root-dir": "/sys/",
            "sys-fs-root-dir": f"{own['fs']}/",
            "run-root-dir": f"{own['run-root']}/",
            "var-run-root-dir": f"{own['run-root']}/",
            "var-lib-kubelet-dir": f"{self.folder}/kubelet/",
            "runtime-hooks-addr": self.hooks,
            "runtime-hooks-host-endpoint": self.hooks,
            "runtime-hooks-config-path": own["theirs"],
            "audit-log-dir": own["log"],
            "tsdb-path": own["series"],
            "prediction-checkpoint-filepath": own["series"],
            "pod-resources-proxy-path": own["run-root"],
            "addr": "127.0.0.1:0",
            "pprof-addr": "127.0.0.1:0",
            "enable-nri-runtime-hook": "false",
            "logtostderr": "true",
        }
        run = " ".join([f"{KOORDLET}", *(f"-{name}={value}" for name, value in flags.items())])
        self.start("koordlet", "unshare", "--mount", "sh", "-c", f"mount -o bind,ro /proc/sys /proc/sys && exec {run}")

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "NODE_NAME": "real"}


@pytest.mark.kubectl
@pytest.mark.skipif(KOORDLET is None, reason="build Koordinator's cmd/koordlet as koordlet-go")
@pytest.mark.skipif(KUBELET is None, reason="put kubelet where $KUBEBUILDER_ASSETS points")
def test_koordinators_agent_sets_containers_up_behind_koords_proxy(tmp_path: Path) -> None:
    with node(tmp_path, "proxy", is_real=False, kind=NodeOfKoordlets) as (found, _):
        create(found, "placed", "BE", "batch", PLACED, "{}", PLACEMENT)
        until_printed(found, "placed")
        assert found.kubectl("logs", "placed").split("\n")[0] == "0", "its CPUs, at its first instruction"
