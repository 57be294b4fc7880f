"""Pods that are wrong in one field: volumes, mounts, containers, probes, the spec and its affinities."""

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.differential.steps import CORE, Step, each, pod, post, sequence

CONTAINER = {"name": "main", "image": "i"}


def _pod(**spec: Any) -> Step:
    return post(f"{CORE}/pods?dryRun=All", pod("p", **{"containers": [CONTAINER], **spec}))


def _container(**parts: Any) -> Step:
    return _pod(containers=[{**CONTAINER, **parts}])


VOLUMES: list[dict[str, Any]] = [
    {"name": "v"},
    {"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}},
    {"name": "V_", "emptyDir": {}},
    {"name": "v", "emptyDir": {"sizeLimit": "-1"}},
    {"name": "v", "emptyDir": {"medium": "Odd"}},
    {"name": "v", "hostPath": {"path": ""}},
    {"name": "v", "hostPath": {"path": "../x"}},
    {"name": "v", "hostPath": {"path": "/x", "type": "Odd"}},
    {"name": "v", "secret": {}},
    {
        "name": "v",
        "secret": {
            "secretName": "s",
            "defaultMode": 999,
            "items": [{"key": "", "path": "/x"}, {"key": "a", "path": "../b"}],
        },
    },
    {"name": "v", "configMap": {}},
    {"name": "v", "configMap": {"name": "c", "defaultMode": -1}},
    {"name": "v", "persistentVolumeClaim": {}},
    {"name": "v", "persistentVolumeClaim": {"claimName": "A_"}},
    {"name": "v", "nfs": {}},
    {"name": "v", "nfs": {"server": "s", "path": "x"}},
    {
        "name": "v",
        "downwardAPI": {
            "items": [
                {"path": "", "fieldRef": {"fieldPath": "metadata.name"}},
                {"path": "a", "fieldRef": {"fieldPath": "odd"}},
                {"path": "b", "resourceFieldRef": {"resource": "limits.cpu"}},
                {"path": "c"},
            ]
        },
    },
    {"name": "v", "projected": {}},
    {
        "name": "v",
        "projected": {
            "sources": [
                {"secret": {"name": ""}},
                {"serviceAccountToken": {"path": "", "expirationSeconds": 5}},
                {},
                {"configMap": {"name": "c"}, "secret": {"name": "s"}},
            ]
        },
    },
    {"name": "v", "csi": {}},
    {"name": "v", "csi": {"driver": "x y"}},
    {"name": "v", "ephemeral": {}},
    {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
    {"name": "v", "image": {"reference": "", "pullPolicy": "Odd"}},
    {"name": "v", "gitRepo": {"repository": ""}},
    {"name": "v", "iscsi": {"targetPortal": "", "iqn": "bad", "lun": -1}},
    {"name": "v", "rbd": {}},
    {"name": "v", "fc": {}},
    {"name": "v", "flexVolume": {"driver": ""}},
    {"name": "v", "azureDisk": {"diskName": "", "diskURI": "", "kind": "Odd"}},
    {"name": "v", "glusterfs": {"endpoints": "", "path": ""}},
    {"name": "v", "cephfs": {}},
    {"name": "v", "gcePersistentDisk": {"pdName": "", "partition": 300}},
    {"name": "v", "awsElasticBlockStore": {"volumeID": ""}},
    {"name": "v", "cinder": {"volumeID": ""}},
    {"name": "v", "vsphereVolume": {"volumePath": ""}},
    {"name": "v", "photonPersistentDisk": {"pdID": ""}},
    {"name": "v", "portworxVolume": {"volumeID": ""}},
    {"name": "v", "quobyte": {"registry": "x", "volume": ""}},
    {"name": "v", "scaleIO": {"gateway": "", "system": ""}},
    {"name": "v", "storageos": {"volumeName": "A_"}},
    {"name": "v", "azureFile": {"secretName": "", "shareName": ""}},
    {"name": "v", "flocker": {}},
]
SEQUENCES = [
    sequence(
        "pod-volumes-bad",
        *[_pod(volumes=[v]) for v in VOLUMES],
        _pod(volumes=[{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]),
    ),
    sequence(
        "pod-mounts-bad",
        *[_container(volumeMounts=m) for m in ([{"name": "x", "mountPath": "/a"}], [{"name": "", "mountPath": ""}])],
        *[
            _pod(
                volumes=[{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}],
                containers=[{**CONTAINER, "volumeMounts": m}],
            )
            for m in (
                [{"name": "v", "mountPath": "/a"}, {"name": "w", "mountPath": "/a"}],
                [{"name": "v", "mountPath": "/a:b"}],
                [{"name": "v", "mountPath": "/a", "subPath": "../x"}],
                [{"name": "v", "mountPath": "/a", "subPath": "/x"}],
                [{"name": "v", "mountPath": "/a", "subPath": "x", "subPathExpr": "y"}],
                [{"name": "v", "mountPath": "/a", "mountPropagation": "Odd"}],
                [{"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"}],
                [{"name": "v", "mountPath": "/a", "recursiveReadOnly": "Odd"}],
                [{"name": "v", "mountPath": "/a", "recursiveReadOnly": "Enabled"}],
                [{"name": "v", "mountPath": "/a", "readOnly": True, "recursiveReadOnly": "Enabled"}],
            )
        ],
        _pod(
            containers=[
                {**CONTAINER, "volumeDevices": [{"name": "x", "devicePath": "/dev"}, {"name": "", "devicePath": ""}]}
            ]
        ),
    ),
    sequence(
        "pod-containers-bad",
        _pod(containers=[]),
        _pod(containers=[CONTAINER, CONTAINER]),
        _container(name=""),
        _container(name="A_"),
        _container(image=""),
        _container(image=" i"),
        _container(imagePullPolicy="Odd"),
        _container(terminationMessagePolicy="Odd"),
        _container(ports=[{"containerPort": 0}]),
        _container(ports=[{"containerPort": 80, "hostPort": 70000, "protocol": "Odd", "name": "ABC", "hostIP": "x"}]),
        _container(ports=[{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]),
        _container(ports=[{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]),
        _container(env=[{"name": ""}]),
        _container(env=[{"name": "a=b", "value": "x"}]),
        _container(env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        _container(env=[{"name": "A", "valueFrom": {}}]),
        _container(
            env=[
                {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "odd"}}},
                {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "odd"}}},
                {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": ""}}},
                {"name": "D", "valueFrom": {"configMapKeyRef": {"name": "", "key": "a b"}}},
                {"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a b']"}}},
                {"name": "F", "valueFrom": {"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}}},
            ]
        ),
        _container(envFrom=[{}]),
        _container(
            envFrom=[
                {"prefix": "a b", "configMapRef": {"name": ""}},
                {"secretRef": {"name": "A_"}, "configMapRef": {"name": "c"}},
            ]
        ),
        _container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        _container(resources={"requests": {"cpu": "-1"}}),
        _container(resources={"limits": {"odd": "1"}}),
        _container(resources={"limits": {"e.com/x": "1.5"}}),
        _container(resources={"requests": {"e.com/x": "1"}}),
        _container(resources={"limits": {"hugepages-2Mi": "2Mi"}}),
        _container(resources={"limits": {"memory": "1Ki", "hugepages-2Mi": "3Mi"}}),
        _container(resources={"claims": [{"name": "x"}]}),
        _container(resizePolicy=[{"resourceName": "odd", "restartPolicy": "Odd"}]),
        _container(restartPolicy="Odd"),
        _pod(
            initContainers=[
                {
                    **CONTAINER,
                    "name": "i",
                    "restartPolicy": "Always",
                    "lifecycle": {"preStop": {"exec": {"command": ["x"]}}},
                },
                {**CONTAINER, "name": "j", "restartPolicy": "OnFailure"},
                {**CONTAINER, "name": "main"},
                {**CONTAINER, "name": "k", "readinessProbe": {"exec": {"command": ["x"]}}},
            ]
        ),
        _container(stdinOnce=True),
        _container(workingDir="x", command=[""], args=[""]),
    ),
    sequence(
        "pod-probes-bad",
        *[
            _container(**{w: p})
            for w in ("livenessProbe", "readinessProbe", "startupProbe")
            for p in each(
                {},
                {"exec": {}},
                {"exec": {"command": ["a"]}, "httpGet": {"port": 80}},
                {"httpGet": {"port": 0, "path": "", "scheme": "Odd", "host": "a b"}},
                {"httpGet": {"port": "x_"}},
                {"httpGet": {"port": 80, "httpHeaders": [{"name": "a b", "value": ""}]}},
                {"tcpSocket": {"port": 70000}},
                {"grpc": {"port": 0}},
                {
                    "exec": {"command": ["a"]},
                    "timeoutSeconds": -1,
                    "periodSeconds": -1,
                    "successThreshold": -1,
                    "failureThreshold": -1,
                    "initialDelaySeconds": -1,
                },
                {"exec": {"command": ["a"]}, "successThreshold": 2, "terminationGracePeriodSeconds": -5},
            )
        ],
        _container(lifecycle={"postStart": {}}),
        _container(lifecycle={"preStop": {"sleep": {"seconds": -1}}}),
        _container(lifecycle={"preStop": {"sleep": {"seconds": 9999}}}),
        _container(lifecycle={"stopSignal": "SIGODD"}),
        _container(lifecycle={"postStart": {"httpGet": {"port": "a"}, "exec": {"command": []}}}),
    ),
    sequence(
        "pod-spec-bad",
        _pod(restartPolicy="Odd"),
        _pod(dnsPolicy="Odd"),
        _pod(dnsPolicy="None"),
        _pod(
            dnsConfig={
                "nameservers": ["x", "1.1.1.1", "1.1.1.2", "1.1.1.3"],
                "searches": ["A_"],
                "options": [{"name": ""}],
            }
        ),
        _pod(terminationGracePeriodSeconds=-1),
        _pod(activeDeadlineSeconds=0),
        _pod(nodeSelector={"a b": "c"}),
        _pod(nodeSelector={"a": "-"}),
        _pod(nodeName="A_"),
        _pod(serviceAccountName="A_"),
        _pod(hostname="A.b"),
        _pod(subdomain="A_"),
        _pod(priority=5),
        _pod(priorityClassName="nope"),
        _pod(preemptionPolicy="Odd"),
        _pod(schedulerName="x" * 260),
        _pod(imagePullSecrets=[{"name": ""}, {}]),
        _pod(hostAliases=[{"ip": "x", "hostnames": ["A_"]}]),
        _pod(
            tolerations=[
                {"operator": "Odd"},
                {"key": "", "operator": "Equal"},
                {"key": "a", "operator": "Exists", "value": "b"},
                {"key": "a b"},
                {"effect": "Odd", "operator": "Exists"},
                {"tolerationSeconds": 3, "operator": "Exists"},
                {"key": "a", "value": "-"},
                {"key": "a", "operator": "Gt", "value": "5"},
            ]
        ),
        _pod(
            securityContext={
                "runAsUser": -1,
                "runAsGroup": -1,
                "fsGroup": -1,
                "supplementalGroups": [-1],
                "fsGroupChangePolicy": "Odd",
                "sysctls": [{"name": "a b", "value": "c"}, {"name": "", "value": ""}],
                "seccompProfile": {"type": "Odd"},
                "appArmorProfile": {"type": "Localhost"},
                "supplementalGroupsPolicy": "Odd",
                "seLinuxChangePolicy": "Odd",
            }
        ),
        _container(
            securityContext={
                "privileged": True,
                "allowPrivilegeEscalation": False,
                "runAsUser": -1,
                "procMount": "Odd",
                "capabilities": {"add": ["CAP_X"]},
                "seccompProfile": {"type": "Localhost"},
                "windowsOptions": {"gmsaCredentialSpecName": "", "runAsUserName": ""},
            }
        ),
        _pod(hostNetwork=True, containers=[{**CONTAINER, "ports": [{"containerPort": 80, "hostPort": 81}]}]),
        _pod(hostUsers=False, hostNetwork=True),
        _pod(shareProcessNamespace=True, hostPID=True),
        _pod(runtimeClassName="A_"),
        _pod(overhead={"cpu": "-1"}),
        _pod(readinessGates=[{"conditionType": "a b"}]),
        _pod(schedulingGates=[{"name": "a b"}, {"name": "e.com/x"}, {"name": "e.com/x"}]),
        _pod(os={"name": "odd"}),
        _pod(os={"name": "windows"}, hostPID=True, securityContext={"runAsUser": 1}),
        _pod(setHostnameAsFQDN=True, hostname="x" * 63),
        _pod(enableServiceLinks=None, automountServiceAccountToken=None),
        _pod(resourceClaims=[{"name": "A_"}, {"name": "x"}]),
        _pod(resources={"requests": {"cpu": "1"}, "limits": {"cpu": "500m"}}),
        _pod(resources={"requests": {"e.com/x": "1"}}),
    ),
    sequence(
        "pod-affinity-bad",
        *[
            _pod(affinity=a)
            for a in each(
                {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}},
                {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {"key": "a", "operator": "Odd"},
                                        {"key": "a b", "operator": "In"},
                                        {"key": "a", "operator": "Exists", "values": ["x"]},
                                        {"key": "a", "operator": "Gt", "values": ["x", "y"]},
                                    ],
                                    "matchFields": [
                                        {"key": "spec", "operator": "In", "values": ["a"]},
                                        {"key": "metadata.name", "operator": "In", "values": ["a", "b"]},
                                        {"key": "metadata.name", "operator": "Exists"},
                                    ],
                                }
                            ]
                        }
                    }
                },
                {
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 0, "preference": {}},
                            {
                                "weight": 101,
                                "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]},
                            },
                        ]
                    }
                },
                {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}},
                {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "topologyKey": "a b",
                                "labelSelector": {
                                    "matchLabels": {"a b": "c"},
                                    "matchExpressions": [
                                        {"key": "a", "operator": "In"},
                                        {"key": "b", "operator": "Odd"},
                                    ],
                                },
                                "namespaces": ["A_"],
                                "namespaceSelector": {"matchLabels": {"q r": "s"}},
                                "matchLabelKeys": ["a b"],
                                "mismatchLabelKeys": ["x"],
                            }
                        ]
                    }
                },
                {
                    "podAntiAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 0, "podAffinityTerm": {"topologyKey": ""}}
                        ]
                    }
                },
            )
        ],
        *[
            _pod(topologySpreadConstraints=[t])
            for t in (
                {},
                {"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Odd"},
                {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 2},
                {
                    "maxSkew": 1,
                    "topologyKey": "a",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "minDomains": 0,
                    "nodeAffinityPolicy": "Odd",
                    "nodeTaintsPolicy": "Odd",
                    "matchLabelKeys": ["a b"],
                    "labelSelector": {"matchLabels": {"-": "x"}},
                },
                {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["x"]},
            )
        ],
        _pod(topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}] * 2),
    ),
]
