"""`koord node setup`: writes what is needed, says it, checks it, and takes it back."""

from __future__ import annotations

from pathlib import Path

import pytest

from koord.api.machinery.faults import BadInput
from koord.cli.main import run
from koord.runtime.node_setup import (
    CONTAINERD_CONFIG,
    CONTAINERD_NRI,
    CRIO_NRI,
    KUBELET_CONFIG,
    KUBELET_FLAGS,
    Setup,
    Way,
    changes,
)

KUBELET = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: systemd\n"
CONTAINERD = 'version = 3\nroot = "/x"\n\n[plugins]\n  [plugins."io.containerd.cri.v1.runtime"]\n    a = 1\n'


def after(setup: Setup, files: dict[str, str]) -> dict[str, str]:
    return {file_change.path: file_change.after for file_change in changes(setup, files)}


@pytest.mark.parametrize(
    ("setup", "files"),
    [
        (Setup(way=Way.PROXY), {KUBELET_CONFIG: KUBELET}),
        (Setup(way=Way.PROXY), {KUBELET_CONFIG: KUBELET + "containerRuntimeEndpoint: unix:///run/containerd/x.sock\n"}),
        (Setup(way=Way.NRI), {CONTAINERD_CONFIG: CONTAINERD}),
        (Setup(way=Way.NRI), {CONTAINERD_CONFIG: 'version = 2\nimports = ["/a/*.toml"]\n'}),
        (Setup(way=Way.NRI), {}),
        (Setup("cri-o", Way.NRI), {}),
    ],
)
def test_a_second_time_changes_nothing(setup: Setup, files: dict[str, str]) -> None:
    found = after(setup, files)
    assert found
    assert changes(setup, {**files, **found}) == []


def test_the_proxy_is_kubelets_endpoint_whoever_says_it() -> None:
    flags = 'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/containerd/containerd.sock --v=2"\n'
    old = KUBELET.replace("cgroupDriver", "containerRuntimeEndpoint: unix:///old.sock\ncgroupDriver")
    found = after(Setup(way=Way.PROXY), {KUBELET_CONFIG: old, KUBELET_FLAGS: flags})
    endpoint = "unix:///var/run/koord-runtimeproxy/runtimeproxy.sock"
    assert f"containerRuntimeEndpoint: {endpoint}\ncgroupDriver: systemd\n" in found[KUBELET_CONFIG]
    assert found[KUBELET_FLAGS] == f'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint={endpoint} --v=2"\n'


@pytest.mark.parametrize(
    ("config", "flags", "socket"),
    [
        (
            "containerRuntimeEndpoint: unix:///run/k3s/containerd/containerd.sock\n",
            "",
            "/run/k3s/containerd/containerd.sock",
        ),
        ("containerRuntimeEndpoint: /run/k3s/x.sock\n", "", "/run/k3s/x.sock"),
        (
            "containerRuntimeEndpoint: unix:///run/x.sock\n",
            "--container-runtime-endpoint=unix:///run/flag.sock",
            "/run/flag.sock",
        ),
        ("", "", "/run/containerd/containerd.sock"),
        ("containerRuntimeEndpoint: ''\n", "", "/run/containerd/containerd.sock"),
    ],
)
def test_the_proxy_asks_the_runtime_that_kubelet_had(
    config: str, flags: str, socket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, text in ((KUBELET_CONFIG, KUBELET + config), (KUBELET_FLAGS, f'ARGS="{flags}"\n' if flags else "")):
        file = tmp_path / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    command = ["node", "setup", "--way", "proxy", "--host-root", str(tmp_path)]
    for time in ("first", "second"):
        assert run(command) == 0
        assert f"--runtime-endpoint {socket}\n" in capsys.readouterr().out, f"the {time} time"
    run([*command, "--check"])
    assert f"runtime at {socket}" in capsys.readouterr().out


def test_containerd_imports_what_turns_nri_on() -> None:
    found = after(Setup(way=Way.NRI), {CONTAINERD_CONFIG: CONTAINERD})
    assert found[CONTAINERD_CONFIG].index("imports =") < found[CONTAINERD_CONFIG].index("[plugins]")
    assert found[CONTAINERD_NRI].startswith("version = 3\n")
    kept = after(Setup(way=Way.NRI), {CONTAINERD_CONFIG: 'version = 2\nimports = ["/a/*.toml"]\n'})
    assert 'imports = ["/a/*.toml", "/etc/containerd/conf.d/*.toml"]' in kept[CONTAINERD_CONFIG]
    assert list(after(Setup("cri-o"), {})) == [CRIO_NRI]


KIND = "kind: KubeletConfiguration\n"


@pytest.mark.parametrize(
    ("way", "files", "says"),
    [
        (Way.PROXY, {}, "the file does not exist"),
        (Way.PROXY, {KUBELET_CONFIG: "kind: Pod\n"}, "no KubeletConfiguration"),
        (Way.NRI, {CONTAINERD_CONFIG: "[plugins]\n"}, "version is 1"),
        (Way.PROXY, {KUBELET_CONFIG: "kind: [\n"}, "config.yaml: line"),
        (Way.PROXY, {KUBELET_CONFIG: f"{KIND}containerRuntimeEndpoint: >-\n  unix:///a\n"}, "by hand"),
        (Way.PROXY, {KUBELET_CONFIG: f"{KIND}...\n"}, "by hand"),
        (Way.NRI, {CONTAINERD_CONFIG: "version = [\n"}, "no valid TOML"),
        (Way.NRI, {CONTAINERD_CONFIG: 'version = 2\nimports = ["/a]/*.toml"]\n'}, "by hand"),
        (Way.NRI, {CONTAINERD_CONFIG: 'version = 2\nroot = """\n[x]\n"""\n'}, "by hand"),
        (Way.NRI, {CONTAINERD_CONFIG: 'version = "2"\n'}, "version is '2'"),
    ],
)
def test_what_cannot_be_changed_is_refused(way: Way, files: dict[str, str], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        changes(Setup(way=way), files)


def test_files_are_written_and_put_back_as_they_were(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "var/lib/kubelet/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(KUBELET)
    config.chmod(0o600)

    def setup(*arguments: str) -> tuple[int, str]:
        code = run(["node", "setup", "--host-root", str(tmp_path), *arguments])
        said = capsys.readouterr()
        return code, said.out + said.err

    shown = setup("--way", "proxy", "--dry-run")
    assert "+containerRuntimeEndpoint" in shown[1]
    assert "systemctl restart kubelet" in shown[1]
    assert config.read_text() == KUBELET
    assert setup("--way", "proxy", "--check")[0] == 1
    assert setup("--way", "proxy")[0] == 0
    assert "runtimeproxy.sock" in config.read_text()
    assert config.stat().st_mode & 0o777 == 0o600
    assert "All files are so already" in setup("--way", "proxy")[1]
    config.write_text(config.read_text() + "maxPods: 5\n")
    code, said = setup("--undo")
    assert code != 0
    assert "somebody has changed /var/lib/kubelet/config.yaml" in said
    config.write_text(config.read_text().removesuffix("maxPods: 5\n"))
    assert setup("--undo")[0] == 0
    assert config.read_text() == KUBELET
    assert [each for each in tmp_path.rglob("*.json") if each.is_file()] == []
    assert "Nothing was set up" in setup("--undo")[1]
    assert setup("--undo", "--check")[0] == 2
