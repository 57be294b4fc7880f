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


@pytest.mark.parametrize(
    ("option", "text", "told"),
    [
        ("--prediction-cold-start-duration", "a day", "--prediction-cold-start-duration: "),
        ("--prediction-cold-start-duration", "-1h", "must not be negative"),
        ("--prediction-training-interval", "0s", "--prediction-training-interval: must be longer than 0s"),
        ("--prediction-cpu-histogram-decay-halflife", "0s", "must be longer than 0s"),
        ("--prediction-safety-margin-percent", "-5", "--prediction-safety-margin-percent"),
        (
            "--prediction-model-expiration-duration",
            "30s",
            "must be longer than --prediction-training-interval, not 30s",
        ),
    ],
)
def test_a_prediction_option_that_makes_no_sense_is_refused_by_name(
    option: str, text: str, told: str, capsys: Told
) -> None:
    assert run(["agent", option, text]) == 2
    assert told in capsys.readouterr().err
