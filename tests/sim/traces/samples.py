"""Small files in the forms of published traces."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike

BITBRAINS_MACHINES = "id,start_time,stop_time,cpu_count,cpu_capacity,mem_capacity\nvm1,a,b,2,5000,4194304\n"
SURF_TASKS = (
    "id,submission_time,duration,cpu_count,cpu_capacity,mem_capacity\n"
    "7,1665093660000,60000,16,33600.0,100000\n"
    "3,1665093600000,90000,16,33600.0,100000\n"
)


def text(content: str) -> BinaryIO:
    return io.BytesIO(content.encode())


def archive(**arrays: ArrayLike) -> BinaryIO:
    stream = io.BytesIO()
    named: dict[str, Any] = {name: np.asarray(array) for name, array in arrays.items()}
    np.savez(stream, **named)
    stream.seek(0)
    return stream


def bitbrains(samples: str, machines: str = BITBRAINS_MACHINES) -> dict[str, BinaryIO]:
    header = "id,t_s,dur_s,cpu_count,cpu_mhz\n"
    return {"vm_cpu_50vms.csv": text(header + samples), "vm_meta.csv": text(machines)}


def surf(tasks: str = SURF_TASKS, **arrays: ArrayLike) -> dict[str, BinaryIO]:
    use: dict[str, ArrayLike] = {"task_id": [3, 7], "offset": [0, 3, 5], "cpu_mhz": [33600, 16800, 0, 2100, 4200]}
    return {"surf_week_tasks.csv": text(tasks), "surf_week_task_cpu_30s.npz": archive(**(use | arrays))}
