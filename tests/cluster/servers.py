"""The two clusters of the story, each with controllers and nothing else: Kubernetes' own processes, and koord's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from koord.kube.program import own_program
from koord.operate.install.settings import COMPONENTS
from tests.control_plane import ControlPlane, kubernetes_controllers
from tests.minicluster.apiserver.server_process import ServerProcess

ACCOUNT = "system:serviceaccount:koordinator-system:"
"""What the API server calls a service account of an installation, before the account's name."""


@dataclass(frozen=True)
class Place:
    """A cluster without nodes."""

    kubeconfig: Path
    audit: Path | None = None
    "Where the API server writes down the requests of koord's service accounts, if it does."


@contextmanager
def real(folder: Path) -> Iterator[Place]:
    """etcd, kube-apiserver and kube-controller-manager."""
    policy, audit = folder / "audit-policy.json", folder / "audit.log"
    accounts = [f"{ACCOUNT}{component.full_name}" for component in COMPONENTS]
    rules = [{"level": "Metadata", "users": accounts, "omitStages": ["RequestReceived"]}, {"level": "None"}]
    policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={audit}")
    with ControlPlane(*flags) as plane, kubernetes_controllers(plane):
        yield Place(plane.kubeconfig, audit)


@contextmanager
def embedded(folder: Path) -> Iterator[Place]:
    """koord's own API server and controllers."""
    kubeconfig = folder / "data" / "kubeconfig"
    with ServerProcess(folder / "data", "--durability", "fast"), (folder / "controllers.log").open("wb") as log:
        process = subprocess.Popen([*own_program(), "controllers", "--kubeconfig", str(kubeconfig)], stderr=log)
        try:
            yield Place(kubeconfig)
        finally:
            process.kill()
            process.wait(timeout=60)


SERVERS: dict[str, Callable[[Path], AbstractContextManager[Place]]] = {"embedded": embedded, "real": real}
