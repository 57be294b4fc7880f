"""Containers, resources, volumes and scheduling constraints of pods, mostly wrong."""

from __future__ import annotations

from tests.minicluster.apiserver.builtin.case import Case
from tests.minicluster.apiserver.builtin.pods import (
    C,
    env,
    limits,
    node_affinity,
    pod,
    pod_affinity,
    probe,
    spread,
    toleration,
    with_volume,
)

CONTAINERS = [
    Case("port zero", pod({"ports": [{}]})),
    Case("port too high", pod({"ports": [{"containerPort": 70000, "hostPort": -1}]})),
    Case("port protocol unknown", pod({"ports": [{"containerPort": 1, "protocol": "tcp"}]})),
    Case("bad port names", pod({"ports": [{"containerPort": 1, "name": "-A--b-this-is-long"}]})),
    Case("port name of digits", pod({"ports": [{"containerPort": 1, "name": "80"}]})),
    Case("port names repeated", pod({"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]})),
    Case(
        "host ports repeated",
        pod({"ports": [{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}]}),
    ),
    Case("host network with another port", pod({"ports": [{"containerPort": 1, "hostPort": 5}]}, hostNetwork=True)),
    Case("ports repeated", pod({"ports": [{"containerPort": 1}, {"containerPort": 1}]})),
    Case(
        "port names repeated across containers",
        pod(
            {"ports": [{"containerPort": 1, "name": "a"}]}, {"name": "d", "ports": [{"containerPort": 2, "name": "a"}]}
        ),
    ),
    Case("env without name", pod({"env": [{"value": "x"}]})),
    Case("env name with equals", env(name="a=b")),
    Case("env name starts with a digit", env(name="1A")),
    Case("env repeated", pod({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]})),
    Case(
        "env with two sources",
        env(valueFrom={"fieldRef": {"fieldPath": "metadata.name"}, "secretKeyRef": {"name": "s", "key": "k"}}),
    ),
    Case("env with value and source", env(value="x", valueFrom={"fieldRef": {"fieldPath": "metadata.name"}})),
    Case("env with no source", env(valueFrom={})),
    Case("env field unknown", env(valueFrom={"fieldRef": {"fieldPath": "spec.nothing"}})),
    Case("env field not for env", env(valueFrom={"fieldRef": {"fieldPath": "metadata.labels"}})),
    Case("env field of a label", env(valueFrom={"fieldRef": {"fieldPath": "metadata.labels['app']"}})),
    Case("env field of a bad label", env(valueFrom={"fieldRef": {"fieldPath": "metadata.labels['a b']"}})),
    Case("env field with a wrong subscript", env(valueFrom={"fieldRef": {"fieldPath": "metadata.name['a']"}})),
    Case("env field missing", env(valueFrom={"fieldRef": {}})),
    Case("env resource unknown", env(valueFrom={"resourceFieldRef": {"resource": "limits.gpu"}})),
    Case("env resource divisor", env(valueFrom={"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1Mi"}})),
    Case("env secret key bad", env(valueFrom={"secretKeyRef": {"name": "S", "key": "a b"}})),
    Case("env config map key missing", env(valueFrom={"configMapKeyRef": {"name": ""}})),
    Case(
        "env file",
        pod(
            {"env": [{"name": "a", "valueFrom": {"fileKeyRef": {"key": "k", "path": "../x", "volumeName": "nope"}}}]},
            volumes=[{"name": "v"}],
        ),
    ),
    Case("envFrom nothing", pod({"envFrom": [{"prefix": "a="}]})),
    Case("envFrom bad name", pod({"envFrom": [{"secretRef": {"name": "A"}}, {"configMapRef": {}}]})),
    Case("mount of nothing", pod({"volumeMounts": [{"name": "v", "mountPath": "/v"}]})),
    Case("mount without path", with_volume({}, mountPath="")),
    Case(
        "mounts at one path",
        pod(
            {"volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v"}]},
            volumes=[{"name": "v"}],
        ),
    ),
    Case("sub path climbs", with_volume({}, subPath="../x")),
    Case("sub path absolute and expr", with_volume({}, subPath="/x", subPathExpr="$(A)")),
    Case("propagation", with_volume({}, mountPropagation="Bidirectional")),
    Case("probe without handler", probe()),
    Case("probe with two handlers", probe(exec={"command": ["a"]}, tcpSocket={"port": 1})),
    Case("probe with an empty command", probe(exec={})),
    Case(
        "probe with bad ports",
        probe(httpGet={"port": 0, "scheme": "FTP", "httpHeaders": [{"name": "a b", "value": "c"}]}),
    ),
    Case("probe with a bad port name", probe(tcpSocket={"port": "A"})),
    Case(
        "probe with negative times",
        probe(
            exec={"command": ["a"]},
            initialDelaySeconds=-1,
            timeoutSeconds=-1,
            periodSeconds=-1,
            failureThreshold=-1,
            successThreshold=2,
            terminationGracePeriodSeconds=0,
        ),
    ),
    Case(
        "readiness with grace",
        pod({"readinessProbe": {"exec": {"command": ["a"]}, "terminationGracePeriodSeconds": 5}}),
    ),
    Case("hook without handler", pod({"lifecycle": {"preStop": {}}})),
    Case("hook sleeps too long", pod({"lifecycle": {"preStop": {"sleep": {"seconds": 60}}}})),
    Case(
        "init container with a probe",
        pod(initContainers=[{**C, "name": "i", "livenessProbe": {"exec": {"command": ["a"]}}}]),
    ),
    Case(
        "init container with unknown restart policy",
        pod(initContainers=[{**C, "name": "i", "restartPolicy": "Sometimes"}]),
    ),
    Case(
        "restart rules without policy",
        pod({"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]}),
    ),
    Case(
        "resize policies",
        pod(
            {
                "resizePolicy": [
                    {"resourceName": "gpu", "restartPolicy": "x"},
                    {"resourceName": "cpu", "restartPolicy": "RestartContainer"},
                ]
            },
            restartPolicy="Never",
        ),
    ),
    Case(
        "privileged without escalation",
        pod({"securityContext": {"privileged": True, "allowPrivilegeEscalation": False}}),
    ),
    Case(
        "negative user",
        pod(
            {"securityContext": {"runAsUser": -1, "runAsGroup": 2**31}},
            securityContext={"fsGroup": -1, "supplementalGroups": [1, -2]},
        ),
    ),
    Case(
        "seccomp",
        pod(
            {"securityContext": {"seccompProfile": {"type": "Localhost"}}},
            securityContext={"seccompProfile": {"type": "Odd", "localhostProfile": "x"}},
        ),
    ),
    Case("proc mount", pod({"securityContext": {"procMount": "Unmasked"}})),
    Case(
        "sysctls",
        pod(
            securityContext={
                "sysctls": [
                    {"name": "A b", "value": "1"},
                    {"name": "net.a", "value": "1"},
                    {"name": "net.a", "value": "1"},
                ]
            },
            hostNetwork=True,
        ),
    ),
    Case("share process namespace and hostPID", pod(shareProcessNamespace=True, hostPID=True)),
    Case("fs group change policy", pod(securityContext={"fsGroupChangePolicy": "Maybe"})),
]

RESOURCES = [
    Case("request above limit", pod(limits({"cpu": "2"}, {"cpu": "1"}))),
    Case("negative", pod(limits({"cpu": "-1"}, {"memory": "-1Gi"}))),
    Case("unknown plain name", pod(limits({"gpu": "1"}))),
    Case("a quota's name", pod(limits({"pods": "1"}))),
    Case("a bad name", pod(limits({"a b": "1"}))),
    Case("extended not whole", pod(limits({"example.com/gpu": "500m"}, {"example.com/gpu": "500m"}))),
    Case("extended without limit", pod(limits({"example.com/gpu": "1"}))),
    Case("extended with another limit", pod(limits({"example.com/gpu": "1"}, {"example.com/gpu": "2"}))),
    Case(
        "extended with the prefix of quotas",
        pod(limits({"requests.example.com/gpu": "1"}, {"requests.example.com/gpu": "1"})),
    ),
    Case("huge pages alone", pod(limits({"hugepages-2Mi": "2Mi"}, {"hugepages-2Mi": "2Mi"}))),
    Case("huge pages by the half", pod(limits({"hugepages-2Mi": "3Mi", "cpu": 1}, {"hugepages-2Mi": "3Mi"}))),
    Case("fractional bytes", pod(limits({"memory": "100m"}))),
    Case("claim of nothing", pod({"resources": {"claims": [{"name": "x"}]}})),
    Case(
        "claims declared wrongly",
        pod(resourceClaims=[{"name": "A"}, {"name": "b", "resourceClaimName": "x", "resourceClaimTemplateName": "y"}]),
    ),
    Case(
        "pod level below the sum",
        pod(limits({"cpu": "600m"}), {"name": "d", **limits({"cpu": "600m"})}, resources={"requests": {"cpu": "1"}}),
    ),
    Case("pod level unknown", pod(resources={"requests": {"example.com/gpu": "1"}})),
    Case("container limit above the pod's", pod(limits(limits={"cpu": "2"}), resources={"limits": {"cpu": "1"}})),
]

VOLUMES = [
    Case("two sources", with_volume({"emptyDir": {}, "hostPath": {"path": "/x"}})),
    Case("name missing", pod(volumes=[{"emptyDir": {}}])),
    Case("name bad", pod(volumes=[{"name": "a_b"}])),
    Case("names repeated", pod(volumes=[{"name": "a"}, {"name": "a"}])),
    Case("hostPath empty", with_volume({"hostPath": {"path": ""}})),
    Case("hostPath climbs and odd type", with_volume({"hostPath": {"path": "/a/../b", "type": "Odd"}})),
    Case("negative size", with_volume({"emptyDir": {"sizeLimit": "-1"}})),
    Case("secret without name", with_volume({"secret": {}})),
    Case(
        "mode too high",
        with_volume(
            {"secret": {"secretName": "s", "defaultMode": 0o1000, "items": [{"key": "", "path": "", "mode": -1}]}}
        ),
    ),
    Case(
        "config map items climb",
        with_volume(
            {
                "configMap": {
                    "name": "s",
                    "items": [{"key": "a", "path": "../x"}, {"key": "a", "path": "/x"}, {"key": "a", "path": "..x"}],
                }
            }
        ),
    ),
    Case("claim without name", with_volume({"persistentVolumeClaim": {"claimName": ""}})),
    Case("nfs", with_volume({"nfs": {"server": "", "path": "x"}})),
    Case("csi without driver", with_volume({"csi": {"driver": ""}})),
    Case(
        "downward api",
        with_volume(
            {"downwardAPI": {"items": [{"path": "a"}, {"path": "b", "fieldRef": {"fieldPath": "status.podIP"}}]}}
        ),
    ),
    Case(
        "projected token without account",
        with_volume({"projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 5}}]}}),
    ),
    Case(
        "projected conflicts",
        with_volume(
            {
                "projected": {
                    "sources": [
                        {"secret": {"name": "a", "items": [{"key": "k", "path": "p"}]}},
                        {"configMap": {"name": "b", "items": [{"key": "k", "path": "p"}]}},
                    ]
                }
            }
        ),
    ),
    Case(
        "projected two in one",
        with_volume({"projected": {"sources": [{"secret": {"name": "a"}, "configMap": {"name": "a"}}]}}),
    ),
    Case(
        "device of an emptyDir",
        pod({"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]}, volumes=[{"name": "v"}]),
    ),
    Case("ephemeral without template", with_volume({"ephemeral": {}})),
]

SCHEDULING = [
    Case("toleration without key", toleration(value="x")),
    Case("toleration exists with value", toleration(key="a", operator="Exists", value="x")),
    Case("toleration operator", toleration(key="a", operator="Like", value="x")),
    Case("toleration gt", toleration(key="a", operator="Gt", value="5")),
    Case("toleration effect", toleration(key="a", operator="Exists", effect="Never")),
    Case("toleration seconds", toleration(key="a", operator="Exists", effect="NoSchedule", tolerationSeconds=5)),
    Case("toleration bad key and value", toleration(key="a b", value="c d")),
    Case("affinity in nothing", node_affinity(key="a", operator="In")),
    Case("affinity exists something", node_affinity(key="a", operator="Exists", values=["x"])),
    Case("affinity gt two", node_affinity(key="a", operator="Gt", values=["1", "2"])),
    Case("affinity operator", node_affinity(key="a b", operator="Like", values=["a b"])),
    Case(
        "affinity without terms",
        pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}),
    ),
    Case(
        "affinity fields",
        pod(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchFields": [
                                    {"key": "metadata.name", "operator": "In", "values": ["A", "b"]},
                                    {"key": "spec.x", "operator": "Exists"},
                                ]
                            }
                        ]
                    }
                }
            }
        ),
    ),
    Case(
        "affinity weight",
        pod(
            affinity={
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 0,
                            "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["a b"]}]},
                        }
                    ]
                }
            }
        ),
    ),
    Case("pod affinity without topology", pod_affinity(labelSelector={"matchLabels": {"a": "b"}})),
    Case("pod affinity without selector", pod_affinity(topologyKey="zone")),
    Case(
        "pod affinity bad selector",
        pod_affinity(
            topologyKey="a b",
            namespaces=["A"],
            labelSelector={"matchLabels": {"a b": "c d"}, "matchExpressions": [{"key": "x", "operator": "Like"}]},
        ),
    ),
    Case(
        "pod affinity weight",
        pod(
            affinity={
                "podAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 101, "podAffinityTerm": {"topologyKey": "x", "labelSelector": {}}}
                    ]
                }
            }
        ),
    ),
    Case("match keys without selector", pod_affinity(topologyKey="zone", matchLabelKeys=["a"])),
    Case(
        "match keys in both",
        pod_affinity(
            topologyKey="zone",
            labelSelector={"matchLabels": {"app": "b"}},
            matchLabelKeys=["app"],
            mismatchLabelKeys=["app"],
        ),
    ),
    Case("spread skew", spread(maxSkew=0, topologyKey="", whenUnsatisfiable="Maybe")),
    Case(
        "spread repeated",
        pod(topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}] * 2),
    ),
    Case("spread min domains", spread(minDomains=0, whenUnsatisfiable="ScheduleAnyway", nodeAffinityPolicy="Maybe")),
    Case("spread selector", spread(labelSelector={"matchExpressions": [{"key": "a", "operator": "In"}]})),
    Case("old labels warn", pod(nodeSelector={"beta.kubernetes.io/os": "linux"})),
]
