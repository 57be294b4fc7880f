"""GPUs and RDMA cards of this node.

The devices (`inventory`), their sources (`nvml`, `rdma`, `vendor_files`), where they are attached (`pci`), which
belong together (`partitions`), which pods use them (`use`), and how they are reported (`device_infos`).
"""
