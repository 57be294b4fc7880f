"""Which volumes a pod on a node uses: the note that VolumeRestrictions, NodeVolumeLimits and VolumeBinding read."""

from __future__ import annotations

from typing import NamedTuple

from koord.api.kubernetes.pod import Pod, PodSpec, Volume
from koord.scheduler.state.pods import PodRecord, named_claims_of, own_claims_of


class VolumeUse(NamedTuple):
    claims: tuple[str, ...] = ()
    "Names of the persistent volume claims that its volumes name."
    own_claims: tuple[str, ...] = ()
    "Names of the claims that are made for its ephemeral volumes."
    disks: tuple[Volume, ...] = ()
    "Volumes that only one pod may use at a time, or only readers."

    def of_claims(self, namespace: str) -> set[str]:
        """The keys of all its claims."""
        return {f"{namespace}/{name}" for name in (*self.claims, *self.own_claims)}


NOTHING = VolumeUse()


def disks_of(pod: Pod) -> tuple[Volume, ...]:
    """Volumes reduced to their disk sources. API servers allow one source a volume, but do not check a template."""
    return tuple(
        Volume(
            volume.name,
            gce_persistent_disk=volume.gce_persistent_disk,
            aws_elastic_block_store=volume.aws_elastic_block_store,
            iscsi=volume.iscsi,
            rbd=volume.rbd,
        )
        for volume in pod.spec.volumes
        if volume.gce_persistent_disk or volume.aws_elastic_block_store or volume.iscsi or volume.rbd
    )


def volume_use_of(pod: Pod) -> VolumeUse | None:
    """None where it uses none that matters to others."""
    if not pod.spec.volumes:
        return None
    use = VolumeUse(named_claims_of(pod), own_claims_of(pod), disks_of(pod))
    return use if any(use) else None


def is_said_by_spec(spec: PodSpec) -> bool:
    """Whether the spec says all of it. Claims of ephemeral volumes are named by the pod."""
    return not any(volume.ephemeral for volume in spec.volumes)


def noted_use(record: PodRecord, name: str) -> VolumeUse:
    """What a plugin noted of a pod on a node."""
    note = record.note(name)
    return note if isinstance(note, VolumeUse) else NOTHING
