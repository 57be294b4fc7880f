from __future__ import annotations

import json
from pathlib import Path

from tests.distribution import DURATIONS, ROOT, recorded

REPORT = """<testsuites><testsuite name="pytest">
<testcase classname="tests.test_groups" name="test_a" time="1.4" />
<testcase classname="tests.test_groups.TestOfAClass" name="test_b" time="2.4" />
<testcase classname="tests.test_examples" name="test_c" time="0.2" />
<testcase classname="tests.test_gone" name="test_d" time="9" />
</testsuite></testsuites>"""


def test_every_file_with_a_recorded_duration_exists() -> None:
    assert [path for path in json.loads(DURATIONS.read_text()) if not (ROOT / path).is_file()] == []


def test_a_run_replaces_the_durations_of_the_files_that_it_ran(tmp_path: Path) -> None:
    report = tmp_path / "tests.xml"
    report.write_text(REPORT)
    before = {"tests/test_explore.py": 7, "tests/test_examples.py": 5, "tests/test_gone.py": 3}
    assert recorded(report, before) == {"tests/test_explore.py": 7, "tests/test_groups.py": 4}
