"""`koord agent --once --dry-run` and its relatives, as a user types them."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from koord.agent.host.cgroups import Version
from koord.agent.host.knobs import CPUSET_CPUS
from koord.agent.live.holding import HeldError, held
from koord.agent.once import OnceError
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from koord.api.text.cpuset import CPUSet
from koord.cli.agent import agent
from tests.agent.resctrl_tree import ResctrlMachine
from tests.agent.trees import GIB, Tree

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {"capacity": {"cpu": "8", "memory": "16Gi"}, "allocatable": {"cpu": "8", "memory": "16Gi"}},
}
SLO = {
    "apiVersion": "slo.koordinator.sh/v1alpha1",
    "kind": "NodeSLO",
    "metadata": {"name": "n1"},
    "spec": {"resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressThresholdPercent": 60}},
}


def pod(name: str, qos: str, resources: dict[str, Any], priority: int) -> dict[str, Any]:
    container_id = f"containerd://{name}-main"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "labels": {"koordinator.sh/qosClass": qos},
        },
        "spec": {
            "nodeName": "n1",
            "priority": priority,
            "containers": [{"name": "main", "image": "i", "resources": resources}],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": "main", "image": "i", "imageID": "", "ready": True, "restartCount": 0,
                 "containerID": container_id, "state": {"running": {}}}
            ],
        },
    }  # fmt: skip


WEB = pod("web", "LS", {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}, 9500)
BATCH = {"kubernetes.io/batch-cpu": "2000", "kubernetes.io/batch-memory": "2Gi"}
JOB = pod("job", "BE", {"requests": BATCH, "limits": BATCH}, 5500)


def used(cpu: str, memory: str) -> dict[str, Any]:
    return {"resources": {"cpu": cpu, "memory": memory}}


def metric(memory: str = "4Gi") -> dict[str, Any]:
    return {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": "n1"},
        "status": {
            "updateTime": "2026-11-15T04:25:02Z",
            "nodeMetric": {"nodeUsage": used("4", memory), "systemUsage": used("500m", "1Gi")},
            "podsMetric": [
                {"name": "web", "namespace": "default", "podUsage": used("2", "1Gi")},
                {"name": "job", "namespace": "default", "podUsage": used("1500m", "2Gi")},
            ],
        },
    }


class Asked:
    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        tree.pod("web", KubeQoS.BURSTABLE, "web-main")
        tree.pod("job", KubeQoS.BEST_EFFORT, "job-main")
        for directory in tree.made:
            tree.cgroups.set(CPUSET_CPUS, directory, CPUSet(range(8)))
        self.files = {each: each.read_bytes() for each in tree.root.rglob("*") if each.is_file()}

    def run(self, *objects: dict[str, Any], args: tuple[str, ...] = ()) -> Result:
        manifests = self.tree.root.parent / "manifests.json"
        manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        own = ("--once", "--dry-run", "--host-root", str(self.tree.root), "-f", str(manifests), "-o", "json")
        return CliRunner().invoke(agent, [*own, *args], standalone_mode=False, catch_exceptions=False)

    def really(self, *objects: dict[str, Any], args: tuple[str, ...] = ()) -> Result:
        """One round that writes, told as a table."""
        manifests, state = self.tree.root.parent / "manifests.json", str(self.state)
        manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        own = ("--once", "--host-root", str(self.tree.root), "--state-dir", state, "-f", str(manifests))
        return CliRunner().invoke(agent, [*own, *args], standalone_mode=False, catch_exceptions=False)

    @property
    def state(self) -> Path:
        return self.tree.root.parent / "state"

    def shown(self) -> dict[Path, bytes]:
        return {file: file.read_bytes() for file in self.files}


@pytest.fixture(params=[(version, driver) for version in Version for driver in CgroupDriver], ids="-".join)
def asked(request: pytest.FixtureRequest, tmp_path: Path) -> Asked:
    version, driver = request.param
    return Asked(Tree(tmp_path / "host", version, driver, cores=8, threads=1))


def test_it_says_what_it_would_write_and_writes_nothing(asked: Asked) -> None:
    answer = json.loads(asked.run(NODE, SLO, WEB, JOB, metric()).stdout)
    by = {write["by"] for write in answer["writes"]}
    assert by == {"batch_resource", "cpu_suppress"}
    suppressed = [write for write in answer["writes"] if write["by"] == "cpu_suppress"]
    # 60% of 8000m - 2000m - 500m = 2300m: 3 CPUs, of the best-effort directory, the pod and the container.
    assert len(suppressed) == 3
    assert {len(CPUSet.parse(each["value"])) for each in suppressed} == {3}
    assert all(each["old"] == "0-7" for each in suppressed)
    assert all((asked.tree.root / write["file"]).exists() for write in answer["writes"])
    assert answer["nodeMetric"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"] == "4"
    assert {file: file.read_bytes() for file in asked.files} == asked.files


def test_it_says_what_files_would_show(asked: Asked) -> None:
    answer = json.loads(asked.run(NODE, SLO, WEB, JOB, metric()).stdout)
    shown = {write["file"].rpartition("/")[2]: (write["old"], write["value"]) for write in answer["writes"]}
    if asked.tree.version is Version.V1:
        assert shown["cpu.shares"] == ("1024", "2048")
    else:
        assert shown["cpu.weight"] == ("100", "79")
        assert shown["cpu.max"] == ("max 100000", "200000 100000")


def test_it_says_whom_it_would_evict(asked: Asked) -> None:
    answer = asked.run(NODE, SLO, WEB, JOB, metric("13Gi"), args=("--feature-gates", "BEMemoryEvict=true"))
    (eviction,) = json.loads(answer.stdout)["evictions"]
    assert eviction["pod"] == "default/job"
    assert "81%" in eviction["why"]


def test_without_a_node_metric_the_host_itself_is_measured(asked: Asked) -> None:
    asked.tree.node_usage(busy_ticks=1000, memory_used_bytes=2 * GIB)
    answer = json.loads(asked.run(NODE, SLO, WEB, JOB).stdout)
    assert answer["nodeMetric"]["nodeMetric"]["nodeUsage"]["resources"]["memory"] == "2Gi"


def test_without_settings_nothing_is_wanted(asked: Asked) -> None:
    result = asked.run(NODE, WEB, JOB, metric())
    assert json.loads(result.stdout)["writes"] == []
    assert "NodeSLO" in result.stderr


def shared(**own: Any) -> dict[str, Any]:
    classes = {"beClass": {"resctrlQOS": {"enable": True, **own}}}
    return {**SLO, "spec": {"resourceQOSStrategy": classes}}


def test_it_says_which_groups_of_resctrl_it_would_make(tmp_path: Path) -> None:
    """The machine is composed (`resctrl_tree`): none at hand has resctrl."""
    machine = ResctrlMachine(tmp_path / "host")
    asked = Asked(machine.tree)
    machine.run("kubepods/besteffort/podjob/job-main", 10)
    before = machine.shown()
    answer = json.loads(asked.run(NODE, shared(mbaPercent=20), WEB, JOB, metric()).stdout)
    found = [(write["file"], write["old"], write["value"]) for write in answer["writes"] if write["by"] == "resctrl"]
    assert found == [
        ("sys/fs/resctrl/BE/schemata", "absent", "L3:0=f;1=f MB:0=20;1=20"),
        ("sys/fs/resctrl/tasks", "/", "BE"),
    ]
    assert machine.shown() == before


def test_it_says_that_there_is_no_resctrl(asked: Asked) -> None:
    answer = json.loads(asked.run(NODE, shared(), WEB, JOB, metric()).stdout)
    (told,) = answer["refused"]
    assert told.startswith("cannot share the cache and memory bandwidth: this machine has no resctrl")


def test_a_real_round_writes_with_a_record_and_restore_puts_all_back(asked: Asked) -> None:
    result = asked.really(NODE, SLO, WEB, JOB, metric())
    assert result.return_value == 0
    changed = {file for file in asked.files if file.read_bytes() != asked.files[file]}
    assert changed
    assert all(str(each.relative_to(asked.tree.root)) in result.stdout for each in changed)
    roots = ("--state-dir", str(asked.state), "--host-root", str(asked.tree.root))
    assert f"written; koord agent restore {' '.join(roots)} puts back" in result.stderr
    result = CliRunner().invoke(agent, ["audit", "--state-dir", str(asked.state)], standalone_mode=False)
    assert "cpu_suppress" in result.stdout
    restored = CliRunner().invoke(agent, ["restore", *roots], standalone_mode=False, catch_exceptions=False)
    assert restored.return_value == 0
    # What a composed file shows is what was written; the kernel would show the same amount in its own words.
    assert {file: file.read_bytes().strip() for file in asked.files} == {
        each: text.strip() for each, text in asked.files.items()
    }


def test_what_a_second_round_wants_no_more_is_put_back(asked: Asked) -> None:
    asked.really(NODE, SLO, WEB, JOB, metric())
    off = {**SLO, "spec": {"resourceUsedThresholdWithBE": {"enable": False}}}
    result = asked.really(NODE, off, WEB, JOB, metric(), args=("-o", "json"))
    answer = json.loads(result.stdout)
    assert answer["dryRun"] is False
    assert {write["by"] for write in answer["writes"] if write.get("isRestore")} == {"cpu_suppress"}


def test_a_real_round_evicts_no_pod_and_says_so(asked: Asked) -> None:
    gate = ("--feature-gates", "BEMemoryEvict=true")
    result = asked.really(NODE, SLO, WEB, JOB, metric("13Gi"), args=gate)
    assert "would evict default/job: " in result.stdout
    assert "--once evicts no pod" in result.stderr


def test_a_real_round_keeps_off_a_node_that_has_an_agent(asked: Asked) -> None:
    with held(asked.tree.root.parent / "daemon", asked.tree.cgroups, "koord agent", "now"):
        with pytest.raises(HeldError, match="only one agent may act on a node"):
            asked.really(NODE, SLO, WEB, JOB, metric())
        assert json.loads(asked.run(NODE, SLO, WEB, JOB, metric()).stdout)["writes"], "a dry run needs no lock"
    assert asked.shown() == asked.files


def test_pods_that_are_not_on_this_host_are_named(asked: Asked) -> None:
    elsewhere = pod("elsewhere", "LS", {}, 9500)
    elsewhere["spec"]["nodeName"] = "n2"
    absent = pod("absent", "BE", {"requests": BATCH, "limits": BATCH}, 5500)
    ended = pod("ended", "BE", {}, 5500)
    ended["status"] = {"phase": "Succeeded"}
    manifests = (NODE, {**SLO, "spec": {}}, elsewhere, absent, ended, metric())
    result = asked.run(*manifests)
    answer = json.loads(result.stdout)
    assert [each["pod"] for each in answer["absent"]] == ["default/elsewhere", "default/absent"]
    table = asked.run(*manifests[:-2], metric(), args=("-o", "table"))
    assert "nothing to write: none of the pods is on this host" in table.stderr
    assert "pod default/elsewhere is left out: its node is n2, not n1" in table.stderr
    assert "pod default/absent is left out: this host has no cgroup kubepods" in table.stderr
    assert "ended" not in table.stderr


def test_a_node_name_that_no_manifest_has_is_refused(asked: Asked) -> None:
    with pytest.raises(OnceError, match="--node-name n2: there is no such Node among the manifests, which have n1"):
        asked.run(NODE, SLO, WEB, args=("--node-name", "n2"))


def test_a_host_that_is_not_there_is_named(tmp_path: Path) -> None:
    said = CliRunner().invoke(agent, ["--once", "--dry-run", "--host-root", f"{tmp_path}/slip"], standalone_mode=False)
    assert str(said.exception) == f"--host-root {tmp_path}/slip: there is no such folder"
