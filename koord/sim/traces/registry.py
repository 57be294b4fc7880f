"""The traces that koord reads, in the order in which tables show them."""

from __future__ import annotations

from typing import Final

from koord.sim.traces import aggregates, alibaba2018, bitbrains, openb, planetlab, surf, synthetic
from koord.sim.traces.trace import TraceReader

READERS: Final = (
    TraceReader(
        name="synthetic",
        summary="services and batch pods from formulas; needs no files",
        folder="",
        files=(),
        contents=("services", "batch"),
        read=synthetic.read,
    ),
    TraceReader(
        name="bitbrains",
        summary="business virtual machines, 30 days of 5-minute CPU use",
        folder="bitbrains",
        files=(bitbrains.SAMPLES, bitbrains.MACHINES),
        contents=("services",),
        read=bitbrains.read,
    ),
    TraceReader(
        name="planetlab",
        summary="virtual machines of PlanetLab, 5 days of 5-minute CPU use",
        folder="planetlab",
        files=(planetlab.FILE,),
        contents=("services",),
        read=planetlab.read,
    ),
    TraceReader(
        name="surf",
        summary="a week of jobs of an HPC cluster, CPU use every 30 s",
        folder="surf",
        files=(surf.TASKS, surf.USE),
        contents=("batch",),
        read=surf.read,
    ),
    TraceReader(
        name="openb",
        summary="GPU nodes of a production cluster, and 149 days of their pods",
        folder="openb",
        files=(openb.NODES, openb.PODS),
        contents=("nodes", "gpu pods"),
        read=openb.read,
    ),
    TraceReader(
        name="alibaba2018",
        summary="production machines, 8 days of CPU use every minute",
        folder="alibaba-v2018-colocation",
        files=(alibaba2018.USAGE, alibaba2018.MACHINES),
        contents=("services",),
        read=alibaba2018.read,
    ),
    TraceReader(
        name="alibaba2018-mean",
        summary="mean of about 4,000 machines every 30 s: the shape of a day",
        folder="alibaba-v2018-colocation",
        files=(aggregates.ALIBABA,),
        contents=("services",),
        read=aggregates.read_alibaba,
    ),
    TraceReader(
        name="google2019",
        summary="mean of a Borg cell over a month: the shape of a day",
        folder="google-v2019",
        files=(aggregates.GOOGLE,),
        contents=("services",),
        read=aggregates.read_google,
    ),
    TraceReader(
        name="azure",
        summary="sum over all virtual machines of a month: the shape of a day",
        folder="azure",
        files=(aggregates.AZURE,),
        contents=("services",),
        read=aggregates.read_azure,
    ),
)


TABLE: Final = "table"
"The documented form of CSV and Parquet files: a folder with services, batch and nodes."

SHIPPED: Final = "shipped"
"A small one in that form, which is a part of koord."


NAMES: Final = (*(reader.name for reader in READERS), TABLE, SHIPPED)


def reader(name: str) -> TraceReader | None:
    return next((reader for reader in READERS if reader.name == name), None)
