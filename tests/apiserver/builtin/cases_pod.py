"""Pods as people write them, right and wrong."""

from __future__ import annotations

from typing import Any

from tests.apiserver.builtin.case import Case, Obj

C = {"name": "c", "image": "nginx"}


def pod(*containers: Obj, meta: Obj | None = None, **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta or {},
        "spec": {"containers": [{**C, **each} for each in containers or ({},)], **spec},
    }


def with_volume(volume: Obj, **mount: Any) -> Obj:
    mounts = [{"name": "v", "mountPath": "/v", **mount}]
    return pod({"volumeMounts": mounts}, volumes=[{"name": "v", **volume}])


def limits(requests: Obj | None = None, limits: Obj | None = None) -> Obj:
    return {"resources": {k: v for k, v in (("requests", requests), ("limits", limits)) if v}}


def toleration(**each: Any) -> Obj:
    return pod(tolerations=[each])


def spread(**each: Any) -> Obj:
    whole = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **each}
    return pod(topologySpreadConstraints=[whole], meta={"labels": {"app": "a"}})


def node_affinity(**requirement: Any) -> Obj:
    term = {"matchExpressions": [requirement]}
    required = {"nodeSelectorTerms": [term]}
    return pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})


def pod_affinity(**term: Any) -> Obj:
    return pod(
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        meta={"labels": {"app": "a"}},
    )


def probe(**content: Any) -> Obj:
    return pod({"livenessProbe": content})


def env(**variable: Any) -> Obj:
    return pod({"env": [{"name": "A", **variable}]})


DEFAULTS = [
    Case("a minimal one", pod()),
    Case("no metadata at all", {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [C]}}),
    Case("image tags decide the pull policy", pod({"image": "nginx:latest"}, {"name": "d", "image": "nginx:1.2"})),
    Case("a digest is pulled if not present", pod({"image": "nginx@sha256:" + "a" * 64})),
    Case("a registry with a port", pod({"image": "registry.example:5000/a/b"})),
    Case("a registry with a port and a tag", pod({"image": "registry.example:5000/a/b:v1"})),
    Case("image with upper case", pod({"image": "Nginx"})),
    Case("ports", pod({"ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}]})),
    Case("host network ports", pod({"ports": [{"containerPort": 80}]}, hostNetwork=True)),
    Case("http probe", probe(httpGet={"port": 80})),
    Case("grpc probe", probe(grpc={"port": 80})),
    Case("exec probe with times", probe(exec={"command": ["true"]}, initialDelaySeconds=3, periodSeconds=1)),
    Case(
        "lifecycle",
        pod({"lifecycle": {"preStop": {"httpGet": {"port": "web"}}, "postStart": {"sleep": {"seconds": 1}}}}),
    ),
    Case("requests follow limits", pod(limits(limits={"cpu": "1", "memory": "1Gi"}))),
    Case("some requests follow limits", pod(limits({"cpu": "100m"}, {"cpu": "1", "memory": "1Gi"}))),
    Case("guaranteed", pod(limits({"cpu": "1000m", "memory": "1024Mi"}, {"cpu": "1", "memory": "1Gi"}))),
    Case("burstable", pod(limits({"cpu": 1}))),
    Case("zero requests are best effort", pod(limits({"cpu": 0, "memory": "0"}))),
    Case(
        "an init container that asks makes it burstable",
        pod(initContainers=[{**C, "name": "i", **limits({"cpu": "1"})}]),
    ),
    Case("fine quantities are rounded up", pod(limits({"cpu": "1.0001", "memory": "1.5Gi"}, {"cpu": "3"}))),
    Case("extended resources", pod(limits({"example.com/gpu": 1}, {"example.com/gpu": 1}))),
    Case("extended resource by limit alone", pod(limits(limits={"kubernetes.io/batch-cpu": "1k"}))),
    Case(
        "koordinator's batch resources",
        pod(limits({"kubernetes.io/batch-cpu": "1000"}, {"kubernetes.io/batch-cpu": "2000"})),
    ),
    Case("an empty volume", with_volume({})),
    Case("an emptyDir with a limit", with_volume({"emptyDir": {"sizeLimit": "1024Mi", "medium": "Memory"}})),
    Case("a hostPath", with_volume({"hostPath": {"path": "/tmp"}})),
    Case("a secret volume", with_volume({"secret": {"secretName": "s", "items": [{"key": "a", "path": "b"}]}})),
    Case("a config map volume", with_volume({"configMap": {"name": "s", "defaultMode": 0o400}})),
    Case(
        "a projected volume",
        with_volume(
            {
                "projected": {
                    "sources": [
                        {"configMap": {"name": "c"}},
                        {
                            "downwardAPI": {
                                "items": [
                                    {"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}},
                                    {
                                        "path": "m",
                                        "resourceFieldRef": {"containerName": "c", "resource": "limits.memory"},
                                    },
                                ]
                            }
                        },
                    ]
                }
            }
        ),
    ),
    Case("a claim", with_volume({"persistentVolumeClaim": {"claimName": "x"}})),
    Case(
        "an ephemeral claim",
        with_volume(
            {
                "ephemeral": {
                    "volumeClaimTemplate": {
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
                    }
                }
            }
        ),
    ),
    Case(
        "env from everywhere",
        pod(
            {
                "env": [
                    {"name": "a", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "b", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                    {"name": "c", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                    {"name": "d", "value": "x"},
                ],
                "envFrom": [{"configMapRef": {"name": "m"}}],
            }
        ),
    ),
    Case("service account", pod(serviceAccountName="robot")),
    Case("the old name of the service account", pod(serviceAccount="robot")),
    Case(
        "a sidecar",
        pod(
            initContainers=[{**C, "name": "s", "restartPolicy": "Always", "readinessProbe": {"tcpSocket": {"port": 1}}}]
        ),
    ),
    Case("scheduling gates", pod(schedulingGates=[{"name": "example.com/wait"}])),
    Case("status is not the author's", {**pod(), "status": {"phase": "Running", "hostIP": "1.2.3.4"}}),
    Case(
        "match label keys",
        pod_affinity(topologyKey="zone", labelSelector={"matchLabels": {"x": "y"}}, matchLabelKeys=["app"]),
    ),
    Case("spread with match label keys", spread(labelSelector={"matchLabels": {"x": "y"}}, matchLabelKeys=["app"])),
    Case(
        "pod level resources",
        pod(
            limits({"cpu": "100m"}),
            {"name": "d", **limits({"cpu": "200m"})},
            resources={"limits": {"cpu": "1", "memory": "1Gi"}},
        ),
    ),
    Case("generateName", pod(meta={"name": "", "generateName": "web-"})),
    Case("a node at once", pod(nodeName="n1")),
    Case("overhead", pod(overhead={"cpu": "0.5"}, runtimeClassName="r")),
    Case(
        "everything about security",
        pod(
            {"securityContext": {"runAsUser": 5, "privileged": True, "capabilities": {"add": ["NET_ADMIN"]}}},
            securityContext={
                "fsGroup": 2,
                "seccompProfile": {"type": "RuntimeDefault"},
                "sysctls": [{"name": "net.core.somaxconn", "value": "1"}],
            },
        ),
    ),
]

NAMES = [
    Case("no containers", {"apiVersion": "v1", "kind": "Pod", "spec": {}}),
    Case("container without name and image", {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{}]}}),
    Case("container name in capitals", pod({"name": "Web"})),
    Case("container name with dots", pod({"name": "a.b"})),
    Case("container name too long", pod({"name": "a" * 64})),
    Case("two containers of one name", pod({}, {})),
    Case("init container with a container's name", pod(initContainers=[C])),
    Case("image with spaces", pod({"image": " nginx"})),
    Case("unknown pull policy", pod({"imagePullPolicy": "Sometimes"})),
    Case("unknown restart policy", pod(restartPolicy="Maybe")),
    Case("unknown dns policy", pod(dnsPolicy="Maybe")),
    Case("unknown message policy", pod({"terminationMessagePolicy": "Maybe"})),
    Case("dns policy None without servers", pod(dnsPolicy="None")),
    Case("dns policy None with an empty config", pod(dnsPolicy="None", dnsConfig={})),
    Case(
        "dns config",
        pod(dnsConfig={"nameservers": ["1.2.3.4", "x"], "searches": ["a_b.c", "?", "."], "options": [{"value": "1"}]}),
    ),
    Case("hostname not a label", pod(hostname="a.b", subdomain="A")),
    Case("bad node name", pod(nodeName="N_1")),
    Case("bad service account", pod(serviceAccountName="A b")),
    Case("bad priority class", pod(priorityClassName="A_b")),
    Case("bad preemption policy", pod(preemptionPolicy="Maybe")),
    Case("bad runtime class", pod(runtimeClassName="A_b")),
    Case("deadline of zero", pod(activeDeadlineSeconds=0)),
    Case("negative grace", pod(terminationGracePeriodSeconds=-1)),
    Case("bad node selector", pod(nodeSelector={"a b": "c d"})),
    Case("bad host alias", pod(hostAliases=[{"ip": "x", "hostnames": ["A"]}])),
    Case("bad readiness gate", pod(readinessGates=[{"conditionType": "a b"}])),
    Case("bad and repeated gates", pod(schedulingGates=[{"name": "a b"}, {"name": "x"}, {"name": "x"}])),
    Case("gated and bound", pod(schedulingGates=[{"name": "x"}], nodeName="n")),
    Case("ephemeral containers at creation", pod(ephemeralContainers=[{"name": "e", "image": "i"}])),
    Case("hostname override", pod(hostnameOverride="A b", setHostnameAsFQDN=True, hostNetwork=True)),
    Case("deletion cost", pod(meta={"annotations": {"controller.kubernetes.io/pod-deletion-cost": "+5"}})),
    Case("mirror without node", pod(meta={"annotations": {"kubernetes.io/config.mirror": "x"}})),
    Case("unknown os", pod(os={"name": "plan9"})),
    Case("os without name", pod(os={})),
    Case("windows pod with linux settings", pod({"securityContext": {"runAsUser": 1}}, os={"name": "windows"})),
]

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

UPDATES = [
    Case("new image", pod(), {"spec": {"containers": [{**C, "image": "nginx:2"}]}}),
    Case("labels", pod(), {"metadata": {"labels": {"a": "b"}}}),
    Case("no image", pod(), {"spec": {"containers": [{**C, "image": ""}]}}),
    Case("another container", pod(), {"spec": {"containers": [C, {**C, "name": "d"}]}}),
    Case("another init container", pod(), {"spec": {"initContainers": [{**C, "name": "d"}]}}),
    Case("renamed container", pod(), {"spec": {"containers": [{**C, "name": "d"}]}}),
    Case("node name", pod(), {"spec": {"nodeName": "n1"}}),
    Case("resources", pod(), {"spec": {"containers": [{**C, **limits({"cpu": "1"})}]}}),
    Case("grace", pod(), {"spec": {"terminationGracePeriodSeconds": 5}}),
    Case("a deadline", pod(), {"spec": {"activeDeadlineSeconds": 5}}),
    Case("an earlier deadline", pod(activeDeadlineSeconds=9), {"spec": {"activeDeadlineSeconds": 5}}),
    Case("a later deadline", pod(activeDeadlineSeconds=5), {"spec": {"activeDeadlineSeconds": 9}}),
    Case("no deadline any more", pod(activeDeadlineSeconds=5), {"spec": {"activeDeadlineSeconds": None}}),
    Case("one more toleration", pod(), {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}),
    Case("one toleration less", toleration(key="a", operator="Exists"), {"spec": {"tolerations": None}}),
    Case(
        "another toleration",
        toleration(key="a", operator="Exists"),
        {"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}},
    ),
    Case("a bad toleration more", pod(), {"spec": {"tolerations": [{"key": "a", "operator": "Like"}]}}),
    Case("gate removed", pod(schedulingGates=[{"name": "x"}]), {"spec": {"schedulingGates": None}}),
    Case(
        "gate added",
        pod(schedulingGates=[{"name": "x"}]),
        {"spec": {"schedulingGates": [{"name": "x"}, {"name": "y"}]}},
    ),
    Case("gated: narrower node selector", pod(schedulingGates=[{"name": "x"}]), {"spec": {"nodeSelector": {"a": "b"}}}),
    Case(
        "gated: wider node selector",
        pod(schedulingGates=[{"name": "x"}], nodeSelector={"a": "b"}),
        {"spec": {"nodeSelector": {"a": None}}},
    ),
    Case("ungated node selector", pod(), {"spec": {"nodeSelector": {"a": "b"}}}),
    Case(
        "status is not for the main resource",
        pod(),
        {"status": {"phase": "Running"}, "metadata": {"labels": {"a": "b"}}},
    ),
    Case(
        "status", pod(), {"status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "podIP": "10.0.0.1"}}, "status"
    ),
    Case(
        "status does not change the spec",
        pod(),
        {"spec": {"nodeName": "n"}, "metadata": {"labels": {"a": "b"}}, "status": {"phase": "Failed"}},
        "status",
    ),
    Case("status qos", pod(), {"status": {"qosClass": "Guaranteed"}}, "status"),
    Case(
        "status bad ips",
        pod(),
        {"status": {"podIPs": [{"ip": "x"}], "hostIP": "1.2.3.4", "hostIPs": [{"ip": "1.2.3.5"}]}},
        "status",
    ),
    Case(
        "status bad condition and node",
        pod(),
        {"status": {"conditions": [{"type": "a b", "status": "True"}], "nominatedNodeName": "A"}},
        "status",
    ),
    Case(
        "status restarted a finished container",
        pod(restartPolicy="Never"),
        {
            "status": {
                "containerStatuses": [
                    {
                        "name": "c",
                        "image": "i",
                        "imageID": "x",
                        "ready": True,
                        "restartCount": 1,
                        "state": {"running": {}},
                    }
                ]
            }
        },
        "status",
        before={
            "status": {
                "containerStatuses": [
                    {
                        "name": "c",
                        "image": "i",
                        "imageID": "x",
                        "ready": False,
                        "restartCount": 0,
                        "state": {"terminated": {"exitCode": 1}},
                    }
                ]
            }
        },
    ),
]

CASES = [*DEFAULTS, *NAMES, *CONTAINERS, *RESOURCES, *VOLUMES, *SCHEDULING, *UPDATES]
