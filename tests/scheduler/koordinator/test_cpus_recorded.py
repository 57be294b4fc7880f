"""CPUs are taken as Koordinator's accumulator takes them."""

from __future__ import annotations

from collections import Counter

from koord.scheduler.plugins.numa.accumulator import BindRule, Free, take
from koord.scheduler.plugins.numa.topology import cpus_in
from tests.scheduler.koordinator.recording import Answer, Question, read, unexplained
from tests.scheduler.plugins.numa.machines import machine, mask, told


def taken(question: Question) -> str | None:
    topology = machine("x".join(map(str, question["shape"])), siblings_apart=question.get("apart", False))
    most_refs, wanted = question.get("max_ref", 1), question.get("exclusive", "")
    preferred = mask(question.get("preferred", ""))
    refs, marks = Counter[int](), dict[int, str]()
    for pod in question.get("pods", ()):
        for cpu in cpus_in(mask(pod["cpus"])):
            refs[cpu] += 1
            marks[cpu] = pod.get("exclusive", "")
    # The owner of a reservation gets its CPUs back.
    refs.subtract(cpu for cpu in cpus_in(preferred) if refs[cpu])
    used = sum(1 << cpu for cpu, times in refs.items() if times >= most_refs)
    marked = sum(1 << cpu for cpu, mark in marks.items() if wanted and mark == wanted and refs[cpu])
    free = topology.cpus & ~used & ~mask(question.get("reserved", ""))
    wish = BindRule(question["bind"], question.get("required", False), wanted, question["strategy"] == "MostAllocated")
    return told(take(Free(topology, free, marked, refs if most_refs > 1 else None), question["n"], wish, preferred))


def differences(question: Question, answer: Answer) -> list[str]:
    found = taken(question)
    return [] if found == answer.get("cpus") else [f"{found}, not {answer}"]


def test_cpus_are_those_that_koordinator_takes() -> None:
    assert unexplained("cpus", differences) == []


def test_the_recording_is_of_many_machines() -> None:
    cases = read("cpus").cases
    asked = [case.question for case in cases]
    assert len(cases) >= 500
    assert sum(1 for case in cases if "error" in case.answers[0]) >= 20
    for key in ("preferred", "required", "reserved", "exclusive", "max_ref", "apart"):
        assert sum(1 for each in asked if key in each) >= 30, key
