from __future__ import annotations

from koord.api.kubernetes.coordination import Lease, LeaseSpec
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.protocol.announcements import ANNOUNCED, VALID_S, lease_name, schedulers
from koord.api.text.timestamp import micro_from_seconds

NOW_S = 1_800_000_000.0


def lease(
    name: str, age_s: float, *, namespace: str = "kube-system", holder: str = "a", announces: bool = False
) -> Lease:
    labels = {ANNOUNCED: "true"} if announces else {}
    spec = LeaseSpec(holder, VALID_S, renew_time=micro_from_seconds(NOW_S - age_s))
    return Lease(ObjectMeta(name=name, namespace=namespace, labels=labels), spec)


def test_each_scheduler_answers_to_the_names_it_announces() -> None:
    found = schedulers([lease(lease_name("packed"), 5, namespace="x", announces=True)], NOW_S)
    assert found.answered == ("packed",)
    assert found.nobody("packed") == ""
    assert found.nobody("spread-out") == "no scheduler answers to the name spread-out"


def test_kube_scheduler_answers_to_the_default_name() -> None:
    assert schedulers([lease("kube-scheduler", 5)], NOW_S).nobody("default-scheduler") == ""
    elsewhere = schedulers([lease("kube-scheduler", 5, namespace="shop")], NOW_S)
    assert "no scheduler answers" in elsewhere.nobody("default-scheduler")


def test_a_scheduler_that_stopped_renewing_its_lease_does_not_answer() -> None:
    assert "kube-scheduler 90 s ago" in schedulers([lease("kube-scheduler", 90)], NOW_S).nobody("default-scheduler")
    released = schedulers([lease("kube-scheduler", 5, holder="")], NOW_S)
    assert "it was stopped" in released.nobody("default-scheduler")


def test_of_several_leases_for_a_name_the_freshest_counts() -> None:
    leases = [lease("kube-scheduler", 900), lease(lease_name("default-scheduler"), 3, holder="b", announces=True)]
    assert schedulers(leases, NOW_S).nobody("default-scheduler") == ""
    assert schedulers(leases[::-1], NOW_S).nobody("default-scheduler") == ""


def test_the_election_of_a_scheduler_that_announces_its_names_stands_for_no_other_name() -> None:
    election = lease("koord-scheduler", 3, namespace="koordinator-system", holder="me")
    announced = lease(lease_name("packed"), 3, holder="me", announces=True)
    assert schedulers([election], NOW_S).answered == ("koord-scheduler",)
    assert schedulers([election, announced], NOW_S).answered == ("packed",)
