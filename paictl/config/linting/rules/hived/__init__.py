"""Rules about the hivedscheduler configuration: cell types, physical cells, pinned cells, promises, quotas, SKUs."""
