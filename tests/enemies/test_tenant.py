"""What a tenant writes on pods of its own costs the pods of others nothing."""

from __future__ import annotations

from msgspec.json import decode

from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert, encode
from tests.scheduler.gangs import World, member


def plain(name: str, cpu: str, *, on: str = "", phase: str = "Pending", **metadata: object) -> Pod:
    manifest = decode(encode(member(name, cpu=cpu, on=on, phase=phase)))
    manifest["metadata"] = {**manifest["metadata"], "annotations": {}, **metadata}
    return convert(Pod, manifest)


def test_a_pod_that_ended_has_nothing_whatever_finalizers_keep_it() -> None:
    world = World(4)
    kept = {"finalizers": ["example.com/forever"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    world.put(plain("kept", "3", on="n0", phase="Running", **kept), plain("waits", "3"))
    assert not world.settle(), "it runs until its kubelet has ended it"
    world.put(plain("kept", "3", on="n0", phase="Succeeded", **kept))
    assert world.settle() == {"waits": "n0"}
