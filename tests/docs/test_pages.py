"""The commands of the user's pages, run as they stand: what a page promises must work for every user who types it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from tests.control_plane import find_binary
from tests.waiting import until

DOCS = Path(__file__).parents[2] / "docs"
LIMIT_S = 240


@dataclass(frozen=True)
class Times:
    """A text that is printed so often."""

    number: int
    text: str


Said: TypeAlias = str | re.Pattern[str] | Times

ON_A_CLUSTER: Final[Mapping[str, tuple[Said, ...]]] = {
    "why-is-my-pod-pending.md": (
        "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.",
        "It would fit on hollow-000",
        Times(2, "default/report fits nowhere"),
        "the label disk=ssd on it",
        "a request of 32 cpu instead of 40",
        "default/report is on hollow-0001",
        "shop/report fits nowhere",
    ),
    "turn-it-off.md": (
        "co-location is off for node hollow-0001",
        "co-location is off for nodes with pool=batch",
        "co-location is off for the cluster",
        "4 pods still run on what was lent",
        "4 pods evicted",
        Times(2, "successfully rolled out"),
    ),
    "roll-out-safely.md": (
        "lending: nodes lend what services leave to batch and mid pods",
        "in all: 2 nodes,",
        re.compile(r"lending +running +10% of 10,50,100 +\d+ of 10"),
        "stopped by hand: release day",
        "lending is off on all nodes, as before",
    ),
    "gangs.md": (
        "together with 7 other pods of its job",
        Times(8, "condition met"),
        re.compile(r"default/train +\S+ +8 +8 +8"),
        "GANG   needs 8, 8 pods, 8 bound, 0 waiting",
        "block b3: 8",
    ),
    "reservations.md": (
        # Of two equal nodes, the other reservation may have got either.
        re.compile(r"night +Available +(east|west)-1 +cpu 3/8, memory 4Gi/16Gi"),
        re.compile(r"reservation/night is Pending: (east|west)-1 has the highest score"),
        Times(2, "condition met"),
        '{"name":"night","uid":"',
        "cpu 3 of 8 used, 5 left",
    ),
    "own-cpus.md": (
        re.compile(r'{"cpuset":"(0-7|16-23)"}'),
        "[bb][bb][bb][bb]",
        "b default/web",
        "at most 16 cpu free on one NUMA node, 20 needed (SingleNUMANode)",
        "the label node.koordinator.sh/numa-topology-policy=Restricted on it",
    ),
    "share-gpus.md": (
        "a request of 60Gi koordinator.sh/gpu-memory instead of 100Gi",
        "150 must be at most 100",
        'deployment "chat" successfully rolled out',
        '"gpu":[{"minor":',
        "default/train 100%",
    ),
    "share-a-cluster.md": (
        "quota research may use cpu 12 and uses 14; the pod asks for 4",
        "pods of quota research that request cpu 6 end",
        "research, beside web, uses cpu 14: 6 more than the 8 that it is guaranteed",
        "elasticquota.scheduling.sigs.k8s.io/research created",
        "  research",
    ),
    "move-without-loss.md": (
        '"scheduling.koord.sh/eviction-deadline":"',
        "koord-scheduler asked it to go (PreemptionByScheduler, for default/urgent)",
        "default/train is gone",
        "koord-scheduler: Preempted by pod",
        "podmigrationjob.scheduling.koordinator.sh/move-shop condition met",
        re.compile(r"\(PodMigrationJob move-shop\): it was replaced by default/shop-\S+ on hollow-000\d"),
        re.compile(r"it replaces default/shop-\S+: somebody asked"),
    ),
    "console.md": (
        "console: http://127.0.0.1:",
        'deployment "report" successfully rolled out',
        "No pod is pending.",
        "hollow-0001 lends batch-cpu",
    ),
    "what-was-it-worth.md": ("jobs/deployment/report", "nodes offered "),
    "record-a-cluster.md": (
        re.compile(r"recorded \d+s with \d+ pods in history"),
        "simulate it: koord sim run history",
        "2026-03-02T01:00:00Z,shop/web-1,n1,",
        Times(2, "batch work, core-hours"),
    ),
    "when-something-is-wrong.md": (
        "wrong: pods that should run all the time and fit on no node: default/giant",
        "fix: koord explain -n default giant",
        "a request of 32 cpu instead of 500",
        Times(2, "all is well"),
        re.compile(r"scheduler +works +outside of the cluster"),
    ),
}
"""Pages whose first command starts a cluster, and what their commands print."""
IN_A_SHELL: Final[Mapping[str, tuple[Said, ...]]] = {
    "latency-model.md": ("measured on: ", "services that fell behind: "),
    "beside-other-systems.md": ('"cluster-autoscaler.kubernetes.io/pod-scale-up-delay":"87600h"',),
    "pack-gpus.md": (
        "GPU allocated (%) when as much GPU was asked for as there is",
        "made-up, load 1",
        "GPU packing: least GPU left for now; ShadowPrices begins when 300 GPU pods are known",
    ),
    "break-it-on-purpose.md": ("round 0: ", "round 2: "),
    "what-would-co-location-bring.md": (
        re.compile(r"^policy +adaptive +none +usage +oracle$", re.MULTILINE),
        "report: out.html",
        "gain: ",
        "risk: ",
    ),
    "compare-policies.md": (
        "POLICY",
        re.compile(r"^target +usage +adaptive$", re.MULTILINE),
        re.compile(r"against usage +\+[\d,.]+ ±[\d,.]+, better"),
        "report: sweep.html",
    ),
    "right-size-requests.md": (
        "following all of it saves 27.5 cores of CPU and saves 49.4 GiB of memory",
        "cpu: 1250m",
        "hours above the target, by their mean",
    ),
    "what-the-agent-does-to-a-node.md": (
        "idle class",
        # 12 of 16 GiB is 75%, and the threshold is 70%.
        Times(2, "would evict default/report: BEMemoryEvict"),
        "170000 100000",
        "dry run: 5 files would be written, nothing was",
        "5 files written; koord agent restore --state-dir agent --host-root ./host puts back what was there; --once",
        "the node's memory usage is 75%, at or above 70%",
        "put back 5 settings",
    ),
    "before-the-first-instruction.md": (
        Times(2, "systemctl restart containerd"),
        "2 files written",
        '[plugins."io.containerd.nri.v1.nri"]',
        "/etc/containerd/config.toml is gone",
    ),
    "run-hadoop-jobs.md": (
        "NodeManager n1.example.com:8041",
        "13 cores, 64.2 GiB, in whole vcores and MiB",
        "--hadoop-conf-dir",
        "--node-manager",
    ),
}
"""Pages whose commands need none, and what they print."""


def commands(page: str) -> list[str]:
    """The indented lines of a page, in order."""
    return [line[4:] for line in (DOCS / page).read_text().splitlines() if line.startswith("    ")]


def from_the_cluster_on(page: str) -> list[str]:
    """Its commands from the one on that starts a cluster."""
    lines = commands(page)
    return lines[next(number for number, line in enumerate(lines) if line.startswith("koord up ")) :]


@pytest.mark.kubectl
def test_the_page_about_the_api_server(tmp_path: Path) -> None:
    lines = commands("apiserver.md")
    assert lines[-1] == "rm -r ./data"
    # Usage is reported a while after a node came; a reader is slower than this script.
    lines = [f"until {line}; do sleep 0.5; done" if line.startswith("kubectl top") else line for line in lines]
    printed = on_a_cluster(lines[:-1], tmp_path, after=lines[-1:], option="")
    assert "successfully rolled out" in printed
    assert "hollow-0003" in printed
    assert "all is well" in printed
    assert not (tmp_path / "data").exists()


@pytest.mark.kubectl
def test_the_page_about_using_the_scheduler(tmp_path: Path) -> None:
    port = free_port()
    lines = [line.replace(":10251", f":{port}") for line in commands("use-koord-as-your-scheduler.md")]
    printed = on_a_cluster(lines, tmp_path)
    assert printed.count("successfully rolled out") == 2
    assert "successfully set debugTopNScores to 3" in printed
    assert "Top3 scores for Pod: default/packed-" in printed
    assert "(profile packed)" in printed
    assert 'scheduler_schedule_attempts_total{profile="packed",result="scheduled"} 4.0' in printed
    assert "4 nodes, 3 pods" in printed


@pytest.mark.kubectl
def test_the_page_about_admission(tmp_path: Path) -> None:
    lines = commands("admission.md")
    assert lines[0] == "koord admit -f examples/admission"  # shown, and tested where the command is
    printed = on_a_cluster(lines[1:], tmp_path)
    assert "pod/nightly-report created" in printed
    assert "must be a whole number of cores, at least 1, for a pod with QoS class LSR, not 2500m" in printed
    assert "one of them is refused" in printed
    assert '{"kubernetes.io/batch-cpu":"500","kubernetes.io/batch-memory":"1Gi"}' in printed
    assert "koordinator-mutating-webhook-configuration is empty: admission is off since" in printed


def test_the_page_about_slow_services(tmp_path: Path) -> None:
    printed = in_a_shell(["set -ex", *commands("who-slows-my-service-down.md")], tmp_path)
    assert "run-queue delays" in printed
    page = (DOCS / "who-slows-my-service-down.md").read_text()
    started, shown, _, placed = re.findall(r"^```\w*\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert started.startswith("koord up --local-node"), "it needs root, and is tried where local nodes are"
    assert shown in printed
    assert placed in printed


@pytest.mark.kubectl
def test_the_page_about_co_location(tmp_path: Path) -> None:
    printed = on_a_cluster(commands("co-locate-batch-jobs.md"), tmp_path)
    assert '{"kubernetes.io/batch-cpu":"2k","kubernetes.io/batch-memory":"1Gi"}' in printed
    assert "co-location is on in the cluster" in printed
    assert "jobs/crunch   n1     BEMemoryEvict   the node's memory usage is 75%, at or above 72%" in printed
    shown = re.findall(r"```\n(NODE .*?)```", (DOCS / "co-locate-batch-jobs.md").read_text(), re.DOTALL)
    assert shown
    assert shown[0] in printed


@pytest.mark.kubectl
def test_the_page_about_what_is_reclaimed(tmp_path: Path) -> None:
    lines = commands("how-much-is-reclaimed.md")
    # Usage is reported a while after a node came; a reader is slower than this script.
    first = lines.index("koord explain node/hollow-0001")
    lines.insert(first, "until koord explain node/hollow-0001 | grep 'published as it is here'; do sleep 1; done")
    printed = on_a_cluster(lines, tmp_path)
    assert "hollow-0001 lends batch-cpu" in printed
    assert "node annotation node.koordinator.sh/colocation-strategy" in printed
    assert "n1 lends batch-cpu 13.2 cores" in printed


def test_the_page_about_plugins(tmp_path: Path) -> None:
    page = (DOCS / "write-a-plugin.md").read_text()
    example, stateful, test = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert example == (DOCS.parent / "examples" / "plugins" / "maintenance.py").read_text()
    assert stateful == (DOCS.parent / "examples" / "plugins" / "licences.py").read_text()
    assert stateful.count("\n") <= 80
    exec(compile(example + test, "write-a-plugin.md", "exec"), {})
    lines = [line for line in commands("write-a-plugin.md") if line.startswith("koord ")]
    assert len(lines) == 4
    printed = in_a_shell(["set -ex", *lines], tmp_path)
    assert "Maintenance" in printed


@pytest.mark.kubectl
@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.parametrize("page", ON_A_CLUSTER)
def test_a_page_with_a_cluster(page: str, tmp_path: Path) -> None:
    says(on_a_cluster(commands(page), tmp_path), ON_A_CLUSTER[page])


@pytest.mark.parametrize("page", IN_A_SHELL)
def test_a_page_without_a_cluster(page: str, tmp_path: Path) -> None:
    says(in_a_shell(["set -ex", *commands(page)], tmp_path), IN_A_SHELL[page])


@pytest.mark.kubectl
def test_the_page_about_claims_of_devices(tmp_path: Path) -> None:
    page = "gpus-by-claim.md"
    live = from_the_cluster_on(page)
    offline = in_a_shell(["set -ex", *commands(page)[: -len(live)]], tmp_path)
    assert "2 nodes, pods: 3 scheduled, 1 unschedulable" in offline
    assert "2 are taken by shop/train-0-gpu-0 and shop/train-1-gpu-0" in offline
    assert "the claim shop/train-0-gpu-0 released" in offline
    assert "GETS   shop/two-near: gpu-2/gpu-0, gpu-2/gpu-1" in offline
    place = tmp_path / "cluster"
    place.mkdir()
    printed = on_a_cluster(live, place)
    assert printed.count("condition met") == 2
    assert len(re.findall(r"[ab]-gpu-\S+ +allocated,reserved", printed)) == 2


def says(printed: str, expected: Sequence[Said]) -> None:
    for each in expected:
        match each:
            case Times(number, text):
                assert printed.count(text) == number, each
            case re.Pattern():
                assert each.search(printed), each.pattern
            case _:
                assert each in printed


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


@pytest.mark.kubectl
def test_the_pages_about_moving_pods(tmp_path: Path) -> None:
    # What `koord deschedule` prints of files comes before, and is tested where the command is.
    cooling, moving = from_the_cluster_on("cool-down-hot-nodes.md"), commands("move-a-pod-by-hand.md")
    assert moving[0].startswith("koord up "), "one cluster serves both pages"
    assert moving[1:3] == cooling[1:3]
    # The page about hot nodes waits for a report of usage, while the other page goes on. A lease, on which
    # the descheduler says its settings, is held by processes of their own alone.
    waits = next(number for number, line in enumerate(cooling) if line.startswith("until koord deschedule"))
    printed = on_a_cluster([*cooling[:waits], *moving[3:], *cooling[waits:]], tmp_path, option="")
    assert "with the settings of the descheduler that runs on the cluster" in printed
    assert re.search(r"default/busy-\S+ +hollow-0001 +hollow-000[23] +yes +node is overutilized", printed)
    assert re.search(r"Succeeded +Complete +hollow-000[23] +\S+ +default +busy-", printed)
    assert "podmigrationjob.scheduling.koordinator.sh/move-web condition met" in printed
    assert re.search(r"move-web +Succeeded +Complete +hollow-\d+ ", printed)
    for step in ("ReservationCreated", "ReservationScheduled", "Evicting", "EvictComplete", "Complete", "Descheduled"):
        assert step in printed


@pytest.mark.kubectl
def test_the_page_about_large_jobs(tmp_path: Path) -> None:
    printed = on_a_cluster(from_the_cluster_on("defragment-for-a-large-job.md"), tmp_path)
    assert "train/large fits nowhere" in printed
    assert re.search(r"Succeeded +Complete +hollow-000[123] +\S+ +default +shop-", printed)
    assert re.search(r"large +\d/1 +\S+ +.*hollow-0004", printed)


def on_a_cluster(lines: list[str], folder: Path, after: Sequence[str] = (), option: str = " --single-process") -> str:
    """What the commands of a page print. The first one starts a cluster, which is stopped before those `after`.

    Its components share a process, unless told otherwise: that takes half of the time, and serves the commands alike.
    """
    assert lines[0].startswith("koord up ")
    assert lines[2].startswith("koord status --wait "), "readers paste the lines as a block"
    up = f"{lines[0].partition(' &')[0]}{option} > out &"
    end = ("for each in $(jobs -p); do kill $each; wait $each; done", "trap - EXIT")
    return in_a_shell(["set -ex", "trap 'kill $(jobs -p)' EXIT", up, *lines[1:], *end, *after], folder)


def in_a_shell(script: list[str], folder: Path) -> str:
    kubectl = find_binary("kubectl")
    folders = [Path(sys.executable).parent, *([kubectl.parent] if kubectl is not None else [])]
    (folder / "examples").symlink_to(DOCS.parent / "examples")
    shell = subprocess.Popen(
        ["bash", "-c", "\n".join(script)],
        cwd=folder,
        env={**os.environ, "PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]]), "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = shell.communicate(timeout=LIMIT_S)
    finally:
        _stop(shell.pid)
    assert shell.returncode == 0, printed[-4000:]
    return printed


def _stop(group: int) -> None:
    """Everything that the script left behind, politely first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            return
        with suppress(TimeoutError):
            until(lambda: not _is_there(group), 2)
            return


def _is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_page_about_waiting_jobs(tmp_path: Path) -> None:
    printed = in_a_shell(["set -ex", *commands("why-is-my-job-waiting.md")], tmp_path)
    shown = re.findall(r"```\n(default/train .*?)```", (DOCS / "why-is-my-job-waiting.md").read_text(), re.DOTALL)
    assert shown[0] in printed
    assert "gang default/train needs 8 pods at once, 4 fit" in printed


def test_the_page_about_gpus_on_a_node(tmp_path: Path) -> None:
    assert commands("gpus-on-a-node.md") == ["koord agent devices"]
    done = subprocess.run([sys.executable, "-m", "koord", "agent", "devices"], capture_output=True, timeout=LIMIT_S)
    assert done.returncode == 0
