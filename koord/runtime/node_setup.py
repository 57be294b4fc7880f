"""What a node's configuration files need so that koord stands in front of its containers: pure, from texts to texts.

proxy   kubelet's runtime endpoint is koord's proxy, which finds the agent by a file
nri     the runtime's NRI is on (containerd 2 has it on by itself, 1.7 and CRI-O do not)

Files are changed line by line, so that comments stay. What comes out is read again: a file that is written in a way in
which that goes wrong is refused, since kubelet or the runtime would not start with it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from koord.api.machinery.faults import BadInput
from koord.api.text.yaml import YamlError, load
from koord.runtime.stages import Stage

KUBELET_CONFIG: Final = "/var/lib/kubelet/config.yaml"
KUBELET_FLAGS: Final = "/var/lib/kubelet/kubeadm-flags.env"
HOOK_FILE: Final = "/etc/runtime/hookserver.d/koord.json"
CONTAINERD_CONFIG: Final = "/etc/containerd/config.toml"
CONTAINERD_FOLDER: Final = "/etc/containerd/conf.d"
CONTAINERD_NRI: Final = f"{CONTAINERD_FOLDER}/koord-nri.toml"
CRIO_NRI: Final = "/etc/crio/crio.conf.d/50-koord-nri.conf"
READ: Final = (KUBELET_CONFIG, KUBELET_FLAGS, HOOK_FILE, CONTAINERD_CONFIG, CONTAINERD_NRI, CRIO_NRI)
"""All that is looked at."""

SOCKETS: Final = {"containerd": "/run/containerd/containerd.sock", "cri-o": "/run/crio/crio.sock"}
_KEY: Final = "containerRuntimeEndpoint"
_ENDPOINT: Final = re.compile(rf"^{_KEY}:.*$", re.MULTILINE)
_IMPORTED: Final = f"{CONTAINERD_FOLDER}/*.toml"
_FLAG: Final = re.compile(r"--container-runtime-endpoint=\S*?(?=[\"\s]|$)")
_IMPORTS: Final = re.compile(r"^imports\s*=\s*\[([^\]]*)\]", re.MULTILINE)
_TABLE: Final = re.compile(r"^\s*\[", re.MULTILINE)


class Way(StrEnum):
    PROXY = "proxy"
    NRI = "nri"


@dataclass(frozen=True, slots=True)
class Setup:
    runtime: str = "containerd"
    way: Way = Way.NRI
    listen: str = "/var/run/koord-runtimeproxy/runtimeproxy.sock"
    agent: str = "/var/run/koord/hooks.sock"


@dataclass(frozen=True, slots=True)
class FileChange:
    path: str
    before: str | None
    "None: the file does not exist."
    after: str


def changes(setup: Setup, files: Mapping[str, str]) -> list[FileChange]:
    """The files to write; empty if all are up to date. `files`: the existing files of READ. Raises BadInput."""
    wanted = dict(_of_proxy(setup, files) if setup.way is Way.PROXY else _of_nri(setup, files))
    return [FileChange(path, files.get(path), text) for path, text in wanted.items() if files.get(path) != text]


def runtime_socket(setup: Setup, files: Mapping[str, str]) -> str:
    """The runtime's address that kubelet had before it got the proxy. `files`: those of READ before the first setup."""
    flag = _FLAG.search(files.get(KUBELET_FLAGS, ""))
    written = flag[0].partition("=")[2] if flag else _yaml(files.get(KUBELET_CONFIG, "")).get(_KEY)
    socket = written.removeprefix("unix://") if isinstance(written, str) else ""
    return socket if socket.startswith("/") and socket != setup.listen else SOCKETS[setup.runtime]


def next_steps(setup: Setup, socket: str) -> list[str]:
    """What to do by hand, in this order. `socket`: where the runtime answers."""
    agent = f"koord agent --hooks-socket {setup.agent}"
    if setup.way is Way.PROXY:
        proxy = f"koord runtime-proxy --listen {setup.listen} --runtime-endpoint {socket}"
        return [agent, proxy, "systemctl restart kubelet"]
    service = "containerd" if setup.runtime == "containerd" else "crio"
    return [agent, f"systemctl restart {service}", f"koord nri --agent-socket {setup.agent}"]


def _of_proxy(setup: Setup, files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    said = {
        "remote-endpoint": setup.agent,
        "protocol": "koord",
        "failure-policy": "Ignore",
        "runtime-hooks": [
            str(stage)
            for stage in (
                Stage.PRE_RUN_POD_SANDBOX,
                Stage.POST_STOP_POD_SANDBOX,
                Stage.PRE_CREATE_CONTAINER,
                Stage.PRE_UPDATE_CONTAINER_RESOURCES,
            )
        ],
    }
    yield HOOK_FILE, json.dumps(said, indent=2) + "\n"
    config, flags = files.get(KUBELET_CONFIG), files.get(KUBELET_FLAGS)
    if config is None:
        raise BadInput(f"{KUBELET_CONFIG}: the file does not exist; kubelet's configuration is required")
    settings = _yaml(config)
    if settings.get("kind") != "KubeletConfiguration":
        raise BadInput(f"{KUBELET_CONFIG}: it is no KubeletConfiguration")
    endpoint = f"unix://{setup.listen}"
    line = f"{_KEY}: {endpoint}"
    after = _ENDPOINT.sub(line, config) if _ENDPOINT.search(config) else config.rstrip("\n") + f"\n{line}\n"
    if not _is_so(lambda: _yaml(after), {**settings, _KEY: endpoint}):
        raise BadInput(f"{KUBELET_CONFIG}: it is written in another way than koord changes; set {line} by hand")
    yield KUBELET_CONFIG, after
    # A flag would count over the file.
    if flags is not None and _FLAG.search(flags):
        yield KUBELET_FLAGS, _FLAG.sub(f"--container-runtime-endpoint=unix://{setup.listen}", flags)


def _of_nri(setup: Setup, files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if setup.runtime == "cri-o":
        yield CRIO_NRI, "[crio.nri]\nenable_nri = true\n"
        return
    config = files.get(CONTAINERD_CONFIG, "version = 2\n")
    settings = _toml(config)
    version, imports = settings.get("version", 1), settings.get("imports", [])
    if not isinstance(version, int) or version < 2:
        raise BadInput(
            f"{CONTAINERD_CONFIG}: version is {version!r}; NRI needs containerd 1.7 and a version of 2 or later"
        )
    yield CONTAINERD_NRI, f'version = {version}\n\n[plugins."io.containerd.nri.v1.nri"]\n  disable = false\n'
    if _IMPORTED in imports:
        yield CONTAINERD_CONFIG, config
        return
    after = _with_import(config)
    if not _is_so(lambda: _toml(after), {**settings, "imports": [*imports, _IMPORTED]}):
        raise BadInput(
            f"{CONTAINERD_CONFIG}: it is written in another way than koord changes; add {_IMPORTED} to imports by hand"
        )
    yield CONTAINERD_CONFIG, after


def _yaml(text: str) -> Mapping[str, Any]:
    try:
        config = load(text, KUBELET_CONFIG)
    except YamlError as error:
        raise BadInput(f"{KUBELET_CONFIG}: line {error.line}: {error.problem}") from None
    return config if isinstance(config, dict) else {}


def _toml(text: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{CONTAINERD_CONFIG}: it is no valid TOML: {error}") from None


def _is_so(read: Callable[[], Mapping[str, Any]], wanted: Mapping[str, Any]) -> bool:
    try:
        return read() == wanted
    except BadInput:
        return False


def _with_import(config: str) -> str:
    imports = _IMPORTS.search(config)
    if imports is not None:
        kept = imports[1].strip().rstrip(",")
        listed = f'{kept}, "{_IMPORTED}"' if kept else f'"{_IMPORTED}"'
        return config[: imports.start()] + f"imports = [{listed}]" + config[imports.end() :]
    # Before the first table: what comes after it belongs to it.
    table = _TABLE.search(config)
    place = table.start() if table is not None else len(config)
    return f'{config[:place]}imports = ["{_IMPORTED}"]\n{config[place:]}'
