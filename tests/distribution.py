"""In which order files go to the workers.

A worker gets whole files (`--dist loadfile`), so that what a file sets up is set up once. The longest are handed out
first, so that no worker is left alone with one of them while the others have nothing more to do.
"""

from __future__ import annotations

import pytest

LONGEST_FIRST = (
    "tests/cluster/test_story.py",
    "tests/docs/test_pages.py",
    "tests/minicluster/hollow/test_live.py",
    "tests/minicluster/local/test_loop.py",
    "tests/minicluster/apiserver/differential/test_records.py",
    "tests/runtime/test_whole_node.py",
    "tests/minicluster/apiserver/differential/test_generated.py",
    "tests/minicluster/up/test_end_to_end.py",
    "tests/scheduler/test_engine_recorded.py",
    "tests/manager/live/test_stories.py",
    "tests/agent/test_real_kernel.py",
    "tests/minicluster/up/test_colocation.py",
    "tests/agent/host/test_cgroups.py",
    "tests/manager/live/test_rollout.py",
    "tests/manager/live/test_webhooks.py",
    "tests/minicluster/apiserver/differential/test_differential.py",
    "tests/kube/test_leader.py",
    "tests/operate/install/test_migrate.py",
    "tests/scheduler/test_engine_story.py",
    "tests/scheduler/live/test_faults.py",
    "tests/minicluster/apiserver/test_kubectl.py",
    "tests/cli/test_colocation.py",
    "tests/operate/install/test_on_servers.py",
    "tests/scheduler/live/test_reservations.py",
    "tests/manager/live/test_faults.py",
    "tests/manager/test_eviction_loop.py",
    "tests/kube/test_informer_on_a_cluster.py",
    "tests/operate/install/test_migration_page.py",
    "tests/cluster/test_migration.py",
    "tests/scheduler/live/test_kept_apart.py",
    "tests/scheduler/test_kube_scheduler.py",
    "tests/minicluster/local/test_node.py",
    "tests/scheduler/live/test_gangs.py",
    "tests/minicluster/controllers/test_restarts_on_a_cluster.py",
    "tests/manager/live/test_drain.py",
    "tests/operate/install/test_rights.py",
    "tests/agent/live/test_daemon.py",
    "tests/runtime/test_proxy.py",
    "tests/minicluster/controllers/test_nodes_on_a_cluster.py",
    "tests/runtime/test_koordinators_own.py",
    "tests/minicluster/apiserver/bodies/test_recorded.py",
    "tests/manager/live/test_thresholds.py",
    "tests/yarn/test_operator.py",
    "tests/kube/test_streamed_list.py",
    "tests/minicluster/local/test_trouble.py",
    "tests/scheduler/framework/test_panels.py",
    "tests/runtime/test_nri_with_containerd.py",
    "tests/cli/test_main.py",
    "tests/descheduler/live/test_scale_first.py",
    "tests/operate/install/test_older_server.py",
    "tests/scheduler/live/test_closing.py",
    "tests/minicluster/apiserver/test_store.py",
    "tests/operate/test_live.py",
    "tests/minicluster/up/test_demo.py",
    "tests/scheduler/live/test_live.py",
    "tests/scheduler/live/test_diagnosis.py",
    "tests/scheduler/live/test_rest.py",
    "tests/scheduler/core/test_events.py",
    "tests/kube/test_client.py",
    "tests/docs/test_claims.py",
    "tests/descheduler/live/test_stories.py",
    "tests/scheduler/test_preemption_recorded.py",
    "tests/minicluster/controllers/test_garbage_on_a_cluster.py",
    "tests/minicluster/apiserver/test_bounds.py",
    "tests/minicluster/apiserver/builtin/test_recorded.py",
    "tests/scheduler/framework/test_leading.py",
    "tests/agent/qos/test_resctrl.py",
    "tests/bench/test_apiserver.py",
    "tests/manager/live/test_recommendation.py",
    "tests/minicluster/up/test_guide.py",
    "tests/bench/test_agent.py",
    "tests/scheduler/live/test_killed_scheduler.py",
)
_PLACES = {path: place for place, path in enumerate(LONGEST_FIRST)}


def place_in_the_queue(item: pytest.Item) -> int:
    """Of a test's file. Files that are not listed keep their order, after the others."""
    return _PLACES.get(item.nodeid.partition("::")[0], len(_PLACES))
