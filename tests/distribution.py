"""In which order files go to the workers.

A worker gets whole files (`--dist loadfile`), so that what a file sets up is set up once. The longest are handed out
first, so that no worker is left alone with one of them while the others have nothing more to do.
"""

from __future__ import annotations

import pytest

LONGEST_FIRST = (
    "tests/docs/test_pages.py",
    "tests/minicluster/apiserver/differential/test_records.py",
    "tests/cluster/test_story.py",
    "tests/cluster/test_migration.py",
    "tests/scheduler/test_engine_story.py",
    "tests/minicluster/up/test_end_to_end.py",
    "tests/runtime/test_whole_node.py",
    "tests/manager/live/test_webhooks.py",
    "tests/scheduler/live/test_faults.py",
    "tests/minicluster/hollow/test_live.py",
    "tests/bench/test_manager.py",
    "tests/minicluster/apiserver/test_kubectl.py",
    "tests/kube/test_leader.py",
    "tests/minicluster/apiserver/differential/test_differential.py",
    "tests/agent/live/test_probing.py",
    "tests/manager/live/test_stories.py",
    "tests/scheduler/test_engine_recorded.py",
    "tests/agent/test_real_kernel.py",
    "tests/minicluster/up/test_colocation.py",
    "tests/minicluster/apiserver/differential/test_generated.py",
    "tests/api/configuration/test_without_effect.py",
    "tests/scheduler/test_kube_scheduler.py",
    "tests/cli/test_colocation.py",
    "tests/minicluster/controllers/test_restarts_on_a_cluster.py",
    "tests/agent/live/test_daemon.py",
    "tests/agent/host/test_cgroups.py",
    "tests/kube/test_informer_on_a_cluster.py",
    "tests/scheduler/live/test_reservations.py",
    "tests/install/test_page.py",
    "tests/scheduler/live/test_kept_apart.py",
    "tests/operate/test_live.py",
    "tests/scheduler/plugins/test_neighbours.py",
    "tests/minicluster/apiserver/test_faults.py",
    "tests/scheduler/core/test_events.py",
    "tests/agent/test_real_disturbed.py",
    "tests/minicluster/up/test_guide.py",
    "tests/minicluster/up/test_status.py",
    "tests/bench/test_agent.py",
    "tests/descheduler/live/test_killed_processes.py",
)
_PLACES = {path: place for place, path in enumerate(LONGEST_FIRST)}


def place_in_the_queue(item: pytest.Item) -> int:
    """Of a test's file. Files that are not listed keep their order, after the others."""
    return _PLACES.get(item.nodeid.partition("::")[0], len(_PLACES))
