"""Options of `koord agent`: what cannot be is told with the option and what would be valid."""

import pytest

from koord.cli.main import run

Told = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("text", "told"),
    [("ten", "'ten' is not a duration"), ("10", "a unit is missing"), ("0s", "must be longer than 0s, as in 10s")],
)
def test_an_age_that_cannot_be_is_told_with_the_option(text: str, told: str, capsys: Told) -> None:
    assert run(["agent", "--collect-sys-metric-outdated-interval", text]) == 2
    said = capsys.readouterr().err
    assert "--collect-sys-metric-outdated-interval: " in said
    assert told in said
