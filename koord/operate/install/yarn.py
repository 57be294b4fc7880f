"""`koord install --with yarn`: the operator, and the copilot on nodes that YARN shares.

The user provides Hadoop's configuration: the ConfigMap `hadoop-conf` has the files of a HADOOP_CONF_DIR, including the
settings of NodeManagers. The user also runs the NodeManagers, as pods or as processes of the host.
"""

from __future__ import annotations

from typing import Final

from koord.api.configuration.features import Gate
from koord.api.protocol import names
from koord.api.protocol.copilot import SOCKET
from koord.operate.install.access import access_for
from koord.operate.install.manifest import Json, made
from koord.operate.install.node_agent import COPILOT_DIR, HOST
from koord.operate.install.rights import LEASES, SERVING, Right
from koord.operate.install.settings import Component, Settings
from koord.operate.install.workloads import budget, common, deployed, image, pull_secrets, selector, template

HADOOP_CONF: Final = "hadoop-conf"
CONF_DIR: Final = "/etc/hadoop/conf"
LOCAL_DIR: Final = "/var/lib/yarn"
"""Where NodeManagers keep their containers: the copilot reads the containers' process IDs there."""
SHARED: Final = {"yarn": "shared"}
"""The label of nodes that YARN shares."""
YARN_USER: Final = "yarn"


class NoGate(Gate):
    """Neither the operator nor the copilot has feature gates."""


OPERATOR: Final = Component("yarn-operator", NoGate, 10257, "tells YARN what it may use")
COPILOT: Final = Component("yarn-copilot", NoGate, 0, "knows YARN's containers on a node")

RIGHTS: Final = (
    Right("know what nodes lend, and write YARN's claim on them", ("nodes",), ("get", "list", "watch", "patch")),
    Right("say on nodes whether YARN has its part, and if not, what to set", ("nodes/status",), ("patch",)),
    Right("know what batch pods hold, and find NodeManagers", ("pods",), ("list", "watch")),
    Right(
        "find, follow and renew its lease",
        (LEASES,),
        ("get", "watch", "patch"),
        (names.LEASE_YARN_OPERATOR,),
        "configuration",
    ),
    Right("take its lease the first time", (LEASES,), ("create",), (), "configuration"),
    *SERVING,
)

CAPABILITIES: Final = (
    ("DAC_OVERRIDE", "read which processes containers of other users have, and write to cgroups"),
    ("KILL", "end containers when the node needs their memory or CPU"),
    ("SYS_NICE", "move processes of other users to other CPUs with their cgroup"),
)


def objects(settings: Settings) -> list[Json]:
    return [
        *access_for(OPERATOR.name, OPERATOR.full_name, RIGHTS, settings),
        made("v1", "ServiceAccount", COPILOT.full_name, settings.namespace, component=COPILOT.name),
        budget(OPERATOR, settings),
        operator(settings),
        copilot(settings),
    ]


def operator(settings: Settings) -> Json:
    arguments = ["yarn", "operator", "--leader-elect", "--hadoop-conf-dir", CONF_DIR, "--user", YARN_USER]
    resources = ("200m", "256Mi", "1Gi")
    return deployed(OPERATOR, settings, [*arguments, *common(OPERATOR, settings)], resources, {CONF_DIR: HADOOP_CONF})


def copilot(settings: Settings) -> Json:
    """The copilot's DaemonSet. The copilot talks to the NodeManager and the agent, never to the API server."""
    arguments = ["yarn", "copilot", "--hadoop-conf-dir", CONF_DIR, "--host-root", HOST, "--socket", SOCKET]
    container: Json = {
        "name": COPILOT.name,
        **image(settings),
        "args": [*arguments, "--log-format", "json"],
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": [name for name, _ in CAPABILITIES]},
        },
        "volumeMounts": [
            {"name": "conf", "mountPath": CONF_DIR, "readOnly": True},
            {"name": "local", "mountPath": LOCAL_DIR, "readOnly": True},
            {"name": "cgroup", "mountPath": f"{HOST}/sys/fs/cgroup"},
            {"name": "socket", "mountPath": COPILOT_DIR},
        ],
    }
    pod: Json = {
        "serviceAccountName": COPILOT.full_name,
        "automountServiceAccountToken": False,
        "priorityClassName": "system-node-critical",
        "hostNetwork": True,
        "hostPID": True,
        "dnsPolicy": "ClusterFirstWithHostNet",
        "nodeSelector": {"kubernetes.io/os": "linux", **SHARED},
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 10,
        "containers": [container],
        "volumes": [
            {"name": "conf", "configMap": {"name": HADOOP_CONF}},
            {"name": "local", "hostPath": {"path": LOCAL_DIR, "type": "DirectoryOrCreate"}},
            {"name": "cgroup", "hostPath": {"path": "/sys/fs/cgroup", "type": ""}},
            {"name": "socket", "hostPath": {"path": COPILOT_DIR, "type": "DirectoryOrCreate"}},
        ],
        **pull_secrets(settings),
    }
    return made(
        "apps/v1",
        "DaemonSet",
        COPILOT.full_name,
        settings.namespace,
        component=COPILOT.name,
        spec={
            "selector": selector(COPILOT),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "10%"}},
            "template": template(COPILOT, settings, pod),
        },
    )
