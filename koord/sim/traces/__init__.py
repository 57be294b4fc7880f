"""Readers of traces: from the bytes of published files to services, batch pods and nodes as columns.

registry      the list of readers, by the name that scenarios use
trace         what a reader gets and gives; its faults and repairs, with file and line
rows          lines of a CSV file with typed fields
archive       arrays of a NumPy archive, checked
grid          samples at any time to means on a regular grid, with gaps
synthetic     curves and tasks from formulas
bitbrains     virtual machines of a service provider (services)
planetlab     virtual machines of PlanetLab (services)
table         the documented form of CSV and Parquet files, which recordings have
surf          jobs of an HPC cluster (batch)
openb         GPU nodes and pods
alibaba2018   production machines (services)
aggregates    whole clusters as one curve: Alibaba 2018, Google 2019, Azure
"""
