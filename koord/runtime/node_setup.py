"""What a node's configuration files need so that koord stands in front of its containers: pure, from texts to texts.

proxy   kubelet's runtime endpoint is koord's proxy, which finds the agent by a file
nri     the runtime's NRI is on (containerd 2 has it on by itself, 1.7 and CRI-O do not)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from koord.api.machinery.faults import BadInput
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
_ENDPOINT: Final = re.compile(r"^containerRuntimeEndpoint:.*$", re.MULTILINE)
_FLAG: Final = re.compile(r"--container-runtime-endpoint=\S*?(?=[\"\s]|$)")
_VERSION: Final = re.compile(r"^version\s*=\s*(\d+)", re.MULTILINE)
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
    "None: there is no such file."
    after: str


def changes(setup: Setup, files: Mapping[str, str]) -> list[FileChange]:
    """What is to be written; nothing where all is so. `files`: those of READ that there are. Raises BadInput."""
    wanted = dict(_of_proxy(setup, files) if setup.way is Way.PROXY else _of_nri(setup, files))
    return [FileChange(path, files.get(path), text) for path, text in wanted.items() if files.get(path) != text]


def next_steps(setup: Setup) -> list[str]:
    """What to do by hand, in this order."""
    agent = f"koord agent --hooks-socket {setup.agent}"
    if setup.way is Way.PROXY:
        proxy = f"koord runtime-proxy --listen {setup.listen} --runtime-endpoint {SOCKETS[setup.runtime]}"
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
        raise BadInput(f"{KUBELET_CONFIG}: there is no such file; kubelet's configuration must be there")
    if "kind: KubeletConfiguration" not in config:
        raise BadInput(f"{KUBELET_CONFIG}: it is no KubeletConfiguration")
    line = f"containerRuntimeEndpoint: unix://{setup.listen}"
    if _ENDPOINT.search(config):
        yield KUBELET_CONFIG, _ENDPOINT.sub(line, config)
    else:
        yield KUBELET_CONFIG, config.rstrip("\n") + f"\n{line}\n"
    # A flag would count over the file.
    if flags is not None and _FLAG.search(flags):
        yield KUBELET_FLAGS, _FLAG.sub(f"--container-runtime-endpoint=unix://{setup.listen}", flags)


def _of_nri(setup: Setup, files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if setup.runtime == "cri-o":
        yield CRIO_NRI, "[crio.nri]\nenable_nri = true\n"
        return
    config = files.get(CONTAINERD_CONFIG, "version = 2\n")
    found = _VERSION.search(config)
    version = int(found[1]) if found else 1
    if version < 2:
        raise BadInput(
            f"{CONTAINERD_CONFIG}: version is {version}; NRI needs containerd 1.7 and a version of 2 or later"
        )
    yield CONTAINERD_NRI, f'version = {version}\n\n[plugins."io.containerd.nri.v1.nri"]\n  disable = false\n'
    yield CONTAINERD_CONFIG, _with_import(config)


def _with_import(config: str) -> str:
    wanted = f"{CONTAINERD_FOLDER}/*.toml"
    imports = _IMPORTS.search(config)
    if imports is not None:
        if wanted in imports[1]:
            return config
        kept = imports[1].strip().rstrip(",")
        listed = f'{kept}, "{wanted}"' if kept else f'"{wanted}"'
        return config[: imports.start()] + f"imports = [{listed}]" + config[imports.end() :]
    # Before the first table: what comes after it belongs to it.
    table = _TABLE.search(config)
    place = table.start() if table is not None else len(config)
    return f'{config[:place]}imports = ["{wanted}"]\n{config[place:]}'
