"""Pods as people write them, right and wrong."""

from __future__ import annotations

from tests.minicluster.apiserver.builtin.case import Case
from tests.minicluster.apiserver.builtin.cases_pod_parts import CONTAINERS, RESOURCES, SCHEDULING, VOLUMES
from tests.minicluster.apiserver.builtin.pods import (
    C,
    limits,
    pod,
    pod_affinity,
    probe,
    spread,
    toleration,
    with_volume,
)

DEFAULTS = [
    Case("a minimal one", pod()),
    Case("no metadata at all", {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [C]}}),
    Case("image tags decide the pull policy", pod({"image": "nginx:latest"}, {"name": "d", "image": "nginx:1.2"})),
    Case("a digest is pulled if not present", pod({"image": "nginx@sha256:" + "a" * 64})),
    Case("a registry with a port", pod({"image": "registry.example:5000/a/b"})),
    Case("a registry with a port and a tag", pod({"image": "registry.example:5000/a/b:v1"})),
    Case("image with upper case", pod({"image": "Nginx"})),
    Case("a path with upper case", pod({"image": "example.com/Nginx"})),
    Case("a host in upper case", pod({"image": "EXAMPLE/nginx"})),
    Case("a host with a port and no tag", pod({"image": "localhost:5000/nginx"})),
    Case(
        "an odd image",
        pod({"image": "a//b"}, {"name": "d", "image": "a_b__c-d.e/f"}, {"name": "e", "image": "x:latest@y"}),
    ),
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

TWICE = {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}

UPDATES = [
    Case("warned of once", pod(TWICE), {"metadata": {"labels": {"a": "b"}}}),
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
