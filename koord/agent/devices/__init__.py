"""GPUs and RDMA cards of this node.

What there is (`inventory`), who tells of it (`nvml`, `rdma`, `vendor_files`), where it is attached (`pci`), which
belong together (`partitions`), who uses it (`use`), and how it is told to the cluster (`device_infos`).
"""
