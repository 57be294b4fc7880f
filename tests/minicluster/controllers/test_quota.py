"""How much of a quota is used, from the objects that it counts."""

from __future__ import annotations

from typing import Any

from koord_minicluster.controllers.quota import counted, status, status_change

SERVED = [("", "pods"), ("", "configmaps"), ("apps", "deployments"), ("", "persistentvolumeclaims")]


def _quota(hard: dict[str, str], now: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "7"}, "spec": {"hard": hard, **spec}, "status": now or {}}


def _pod(cpu: str = "", phase: str = "Running") -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    return {"spec": {"containers": [{"name": "c", "resources": resources}]}, "status": {"phase": phase}}


def test_a_quota_counts_only_what_it_limits() -> None:
    assert counted(["pods", "requests.cpu"], SERVED) == [("", "pods")]
    assert counted(["count/deployments.apps", "configmaps"], SERVED) == [("", "configmaps"), ("apps", "deployments")]


def test_pods_that_have_ended_use_nothing_but_their_object() -> None:
    quota = _quota({"pods": "5", "requests.cpu": "2", "count/pods": "9"})
    pods = [_pod("500m"), _pod("1"), _pod("1", phase="Succeeded")]
    used = status(quota, {("", "pods"): pods})["used"]
    assert used == {"pods": "2", "requests.cpu": "1500m", "count/pods": "3"}


def test_scopes_choose_pods() -> None:
    quota = _quota({"pods": "5"}, scopes=["BestEffort"])
    assert status(quota, {("", "pods"): [_pod(), _pod("1")]})["used"] == {"pods": "1"}


def test_only_a_changed_status_is_written_and_for_the_version_that_was_read() -> None:
    wanted = {"hard": {"pods": "5"}, "used": {"pods": "1"}}
    assert status_change(_quota({"pods": "5"}, wanted), wanted) is None
    stale = {"hard": {"pods": "5", "secrets": "1"}, "used": {"pods": "1", "secrets": "0"}}
    change = status_change(_quota({"pods": "5"}, stale), wanted)
    assert change == {
        "metadata": {"resourceVersion": "7"},
        "status": {"hard": {"secrets": None, "pods": "5"}, "used": {"secrets": None, "pods": "1"}},
    }
