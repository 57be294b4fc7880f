"""`koord bench runtime`, at its smallest."""

from koord_bench.runtime import run


def test_the_proxys_cost_is_told_for_both_kinds_of_calls() -> None:
    found = {(result.case, result.metric): result.value for result in run(quick=True)}
    assert {case for case, _ in found} == {"a call that is passed", "a call that is looked into", "the proxy"}
    assert 10 < found["the proxy", "resident memory"] < 200
    assert found["a call that is passed", "without the proxy"] > 0
