"""What a recording of a cluster contains: lines of the table form, from reports of nodes or from metrics.

rows       lines, and the text of a file's part
reports    NodeMetrics to lines
series     Prometheus' series to lines
"""
