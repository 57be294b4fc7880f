from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import time

import pytest

from koord.kube.errors import NotFound, Status
from koord.kube.shell import causes, run_component
from tests.crowd import crowd


def test_the_result_of_main_is_the_exit_code() -> None:
    async def fine() -> None: ...
    async def three() -> int:
        return 3

    assert run_component(fine) == 0
    assert run_component(three) == 3


def test_an_expected_error_out_of_nested_groups_is_one_message_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fails() -> None:
        raise NotFound(Status(code=404, message="nodes is unknown"), verb="list", what="nodes")

    async def main() -> None:
        async with asyncio.TaskGroup() as outer:
            outer.create_task(asyncio.sleep(60))
            async with asyncio.TaskGroup() as inner:
                inner.create_task(fails())

    with caplog.at_level(logging.ERROR):
        assert run_component(main) == 1
    (line,) = caplog.records
    assert line.getMessage() == "list nodes: nodes is unknown (404)"
    assert line.exc_info is None


def test_an_unexpected_error_has_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        raise KeyError("spec")

    with caplog.at_level(logging.ERROR):
        assert run_component(main) == 1
    (line,) = caplog.records
    assert "KeyError" in line.getMessage()
    assert line.exc_info


def test_causes_are_the_leaves_in_order() -> None:
    first, second = ValueError("1"), OSError("2")
    group = BaseExceptionGroup("", [ExceptionGroup("", [first]), asyncio.CancelledError(), second])
    assert list(causes(group)) == [first, second]


PROGRAM = """
import asyncio, sys, time
from koord.kube.logs import setup_logging
from koord.kube.shell import run_component

async def main():
    print("up", flush=True)
    try:
        await asyncio.sleep(60)
    finally:
        print("cleaning", flush=True)
        await asyncio.sleep(float(sys.argv[1]))
        print("clean", flush=True)

setup_logging()
sys.exit(run_component(main, name="test"))
"""


def start(cleanup_s: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(cleanup_s)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_lets_the_component_clean_up(number: signal.Signals, code: int) -> None:
    process = start(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert out == "cleaning\nclean\n"
    assert f"{number.name}: stopping" in err
    assert "Traceback" not in err


def test_a_second_signal_ends_the_component_at_once() -> None:
    process = start(30)
    assert process.stdout is not None
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "cleaning\n"
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert time.monotonic() - started < 5 * crowd()
    assert process.returncode == 130


def test_the_wire_needs_nothing_heavy() -> None:
    """The agent runs on every node: what it imports is paid for there."""
    modules = "client controller leader events health metrics logs shell informer"
    program = "import sys; " + "; ".join(f"import koord.kube.{name}" for name in modules.split())
    heavy = "[n for n in ('numpy', 'rich', 'grpc', 'cryptography', 'click') if n in sys.modules]"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; print({heavy})"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"
