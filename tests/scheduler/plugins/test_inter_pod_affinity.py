"""InterPodAffinity by examples, with the arithmetic shown."""

from __future__ import annotations

from typing import Any

from koord.api.configuration.scheduler_args import InterPodAffinityArgs
from koord.api.kubernetes.core import Namespace
from koord.api.machinery.codec import convert
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.plugins.inter_pod_affinity import NOT_NEAR, SHUNNED, SHUNNING, InterPodAffinity
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.build import node, pod
from tests.scheduler.plugins.neighbours import alone

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def zones(**args: Any) -> Engine:
    """Nodes a1 and a2 in zone a, b1 in zone b, and far in none."""
    cluster = Cluster()
    for name in ("a1", "a2", "b1"):
        cluster.put_node(node(name, labels={ZONE: name[0]}))
    cluster.put_node(node("far"))
    return alone(cluster, InterPodAffinity(convert(InterPodAffinityArgs, args)))


def term(app: str, key: str = ZONE, **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def away(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def rather(weight: int, wanted: dict[str, Any]) -> dict[str, Any]:
    """A preferred term, of anti-affinity where the weight is negative."""
    part = "podAffinity" if weight > 0 else "podAntiAffinity"
    weighted = {"weight": abs(weight), "podAffinityTerm": wanted}
    return {part: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}


def ask(app: str, affinity: dict[str, Any] | None = None, *, name: str = "next", **more: Any) -> Ask:
    labels = {"app": app, **more.pop("labels", {})}
    return Ask(pod(name, labels=labels, affinity=affinity, **more))


def put(engine: Engine, wanted: Ask, on: str) -> None:
    engine.cluster.place(wanted.record(), engine.cluster.table.row_of[on])


def refusals(engine: Engine, wanted: Ask) -> dict[str, str]:
    names = engine.cluster.table.names
    return {names[row]: why for row, (_, [why]) in engine.class_of(wanted).rejections().items()}


def scores(engine: Engine, wanted: Ask) -> dict[str, int]:
    pod_class, names = engine.class_of(wanted), engine.cluster.table.names
    return {names[row]: pod_class.scores(int(row))[InterPodAffinity.name] for row in pod_class.feasible_rows()}


def test_a_pod_goes_only_where_the_wanted_one_is_near() -> None:
    engine = zones()
    put(engine, ask("db", name="db"), "a1")
    assert refusals(engine, ask("web", near(term("db")))) == {"b1": NOT_NEAR, "far": NOT_NEAR}
    assert refusals(engine, ask("web", near(term("db", HOST)))).keys() == {"a2", "b1", "far"}


def test_nodes_that_are_all_alike_and_fill_the_table_are_ruled_out_too() -> None:
    cluster = Cluster()
    for i in range(cluster.table.capacity):
        cluster.put_node(node(f"n{i}"))
    assert len(cluster.table) == cluster.table.capacity
    pod_class = alone(cluster, InterPodAffinity()).class_of(ask("web", near(term("db", "rack")) | away(term("db"))))
    assert pod_class.best() is None
    assert len(pod_class.feasible_rows()) == 0


def test_one_pod_must_match_all_terms() -> None:
    engine = zones()
    put(engine, ask("db", name="db"), "a1")
    put(engine, ask("cache", name="cache"), "a1")
    both = near(term("db"), term("cache"))
    assert refusals(engine, ask("web", both)).keys() == {"a1", "a2", "b1", "far"}


def test_the_first_of_its_kind_may_go_anywhere_with_the_label() -> None:
    engine = zones()
    first = ask("web", near(term("web")))
    assert refusals(engine, first) == {"far": NOT_NEAR}
    put(engine, ask("web", name="there"), "b1")
    assert refusals(engine, first) == {"a1": NOT_NEAR, "a2": NOT_NEAR, "far": NOT_NEAR}


def test_a_pod_that_would_not_want_itself_is_not_the_first_of_its_kind() -> None:
    assert len(refusals(zones(), ask("web", near(term("db"))))) == 4


def test_a_pod_keeps_away_from_those_it_shuns() -> None:
    engine = zones()
    put(engine, ask("db", name="db"), "a1")
    assert refusals(engine, ask("web", away(term("db")))) == {"a1": SHUNNED, "a2": SHUNNED}


def test_a_pod_keeps_away_from_those_that_shun_it() -> None:
    engine = zones()
    put(engine, ask("db", away(term("web")), name="db"), "a1")
    assert refusals(engine, ask("web")) == {"a1": SHUNNING, "a2": SHUNNING}
    assert refusals(engine, ask("other")) == {}
    engine.cluster.remove_pod("default/db")
    assert refusals(engine, ask("web")) == {}


def test_reasons_come_in_order() -> None:
    engine = zones()
    put(engine, ask("db", away(term("web")), name="db"), "a1")
    wants = near(term("db", HOST)) | away(term("db"))
    assert refusals(engine, ask("web", wants)) == {"a1": SHUNNED, "a2": NOT_NEAR, "b1": NOT_NEAR, "far": NOT_NEAR}
    assert refusals(engine, ask("web", away(term("db")))) == {"a1": SHUNNED, "a2": SHUNNED}


def test_one_pod_of_a_kind_per_host() -> None:
    engine = zones()
    placements = [engine.place(ask("web", away(term("web", HOST)), name=f"web-{i}")) for i in range(5)]
    assert {placement.node for placement in placements[:4]} == {"a1", "a2", "b1", "far"}
    # The rest of the kind are shunned by the others as much as they shun them: the first rule gives the reason.
    assert placements[4].rejections == {SHUNNED: 4}


def test_namespaces_are_the_pods_own_unless_named_or_chosen() -> None:
    engine = zones()
    put(engine, ask("db", name="db", namespace="data"), "a1")
    assert refusals(engine, ask("web", away(term("db")))) == {}
    assert refusals(engine, ask("web", away(term("db", namespaces=["data"])))).keys() == {"a1", "a2"}
    chosen = away(term("db", namespaceSelector={"matchLabels": {"team": "x"}}))
    assert refusals(engine, ask("web", chosen)) == {}
    engine.cluster.put_namespace(convert(Namespace, {"metadata": {"name": "data", "labels": {"team": "x"}}}))
    assert refusals(engine, ask("web", chosen)).keys() == {"a1", "a2"}
    assert refusals(engine, ask("web", away(term("db", namespaceSelector={})))).keys() == {"a1", "a2"}


def test_namespaces_of_others_terms_are_chosen_by_the_incoming_pods_namespace() -> None:
    engine = zones()
    shuns = away(term("web", namespaceSelector={"matchLabels": {"team": "x"}}))
    put(engine, ask("db", shuns, name="db", namespace="data"), "a1")
    assert refusals(engine, ask("web")) == {}
    engine.cluster.put_namespace(convert(Namespace, {"metadata": {"name": "default", "labels": {"team": "x"}}}))
    assert refusals(engine, ask("web")).keys() == {"a1", "a2"}


def test_match_label_keys_and_mismatch_label_keys_read_the_pods_own_labels() -> None:
    engine = zones()
    put(engine, ask("web", name="old", labels={"rev": "1"}), "a1")
    same, other = away(term("web", matchLabelKeys=["rev"])), away(term("web", mismatchLabelKeys=["rev"]))
    assert refusals(engine, ask("web", same, labels={"rev": "1"})).keys() == {"a1", "a2"}
    assert refusals(engine, ask("web", same, labels={"rev": "2"})) == {}
    assert refusals(engine, ask("web", other, labels={"rev": "1"})) == {}
    assert refusals(engine, ask("web", other, labels={"rev": "2"})).keys() == {"a1", "a2"}


def test_scores_are_stretched_between_the_least_and_the_most() -> None:
    """a: +5; b: -3; far: 0. (5 + 3) / 8 = 1, 0, 3 / 8 = 0.375."""
    engine = zones()
    put(engine, ask("db", name="db"), "a1")
    put(engine, ask("noise", name="noise"), "b1")
    wants = rather(5, term("db")) | rather(-3, term("noise"))
    assert scores(engine, ask("web", wants)) == {"a1": 100, "a2": 100, "b1": 0, "far": 37}


def test_raw_five_minus_three_and_one_give_a_hundred_nothing_and_fifty() -> None:
    engine = zones()
    put(engine, ask("db", name="db"), "a1")
    put(engine, ask("noise", name="noise"), "b1")
    put(engine, ask("log", name="log"), "far")
    wants = {
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "podAffinityTerm": term("db")},
                {"weight": 1, "podAffinityTerm": term("log", HOST)},
            ]
        }
    } | rather(-3, term("noise"))
    assert scores(engine, ask("web", wants)) == {"a1": 100, "a2": 100, "b1": 0, "far": 50}


def test_others_preferences_count_alike_and_their_hard_terms_by_weight() -> None:
    """a: one pod that would like web near, by 10; b: two that need it, by hardPodAffinityWeight 4 each."""
    engine = zones(hardPodAffinityWeight=4)
    put(engine, ask("db", rather(10, term("web")), name="db"), "a1")
    for i in range(2):
        put(engine, ask("cache", near(term("web")), name=f"cache-{i}"), "b1")
    assert scores(engine, ask("web")) == {"a1": 100, "a2": 100, "b1": 80, "far": 0}


def test_others_preferences_can_be_ignored_for_pods_that_have_none() -> None:
    engine = zones(ignorePreferredTermsOfExistingPods=True)
    put(engine, ask("db", rather(10, term("web")), name="db"), "a1")
    assert engine.class_of(ask("web")).parts == ()


def test_pods_that_differ_only_in_labels_which_nobody_names_share_a_class() -> None:
    engine = zones()
    put(engine, ask("db", away(term("web")), name="db"), "a1")
    classes = {id(engine.class_of(ask("web", name=f"w{i}", labels={"pod-name": f"w{i}"}))) for i in range(4)}
    assert len(classes) == 1
