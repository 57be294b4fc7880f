"""PlanetLab: days of percent become curves over all days."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from koord.sim.traces.planetlab import FILE, read
from koord.sim.traces.trace import TraceFault
from tests.sim.traces.samples import archive


def test_the_busiest_machines_of_all_days_make_one_service() -> None:
    first = np.repeat([[50], [10]], 288, axis=1)
    second = np.repeat([[20], [60]], 288, axis=1)
    trace = read({FILE: archive(d1=first, d2=second)})
    assert trace.services is not None
    assert trace.services.cpu_milli.shape == (2, 576)
    assert trace.services.cpu_milli[:, [0, -1]].tolist() == [[100, 200], [500, 600]]
    assert trace.repairs == ()


def test_machines_without_a_partner_and_negative_values_are_counted() -> None:
    first = np.repeat([[50], [10], [-3]], 288, axis=1)
    trace = read({FILE: archive(d1=first, d2=np.zeros((1, 288)))})
    assert [(repair.count, repair.first) for repair in trace.repairs] == [
        (288, f"{FILE} d1, row 2"),
        (2, f"{FILE} d1"),
    ]


@pytest.mark.parametrize(
    ("day", "message"),
    [
        (np.zeros((1, 10)), "array d1 must have 288 steps a machine, not 10"),
        (np.full((1, 288), 101), "array d1, row 0: percent must be 0 to 100"),
        (np.zeros(288), "array d1 must have 2 dimensions of numbers, not 1 of float64"),
        (np.full((1, 288), "x"), "array d1 must have 2 dimensions of numbers, not 2 of <U1"),
    ],
)
def test_other_arrays_are_refused(day: np.ndarray[tuple[int, ...], np.dtype[np.generic]], message: str) -> None:
    with pytest.raises(TraceFault, match=message):
        read({FILE: archive(d1=day)})


def test_what_is_no_archive_is_refused() -> None:
    with pytest.raises(TraceFault, match=f"{FILE}: is not a NumPy archive"):
        read({FILE: io.BytesIO(b"not an archive at all")})


def test_an_array_that_would_fill_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ten_tera = io.BytesIO()
    np.lib.format.write_array_header_1_0(ten_tera, {"descr": "<f8", "fortran_order": False, "shape": (10**13,)})
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w") as packed:
        packed.writestr("d1.npy", ten_tera.getvalue())
    with pytest.raises(TraceFault, match="is not a NumPy archive"):
        read({FILE: bomb})
    monkeypatch.setattr("koord.sim.traces.archive.MOST_BYTES", 1000)
    with pytest.raises(TraceFault, match="has 0 MiB of arrays, and at most 0 are read"):
        read({FILE: archive(d1=np.zeros((2, 288)))})
