"""A cluster on this machine: no daemon, one SQLite file, a clock that is read only when a command asks.

`world` is the cluster as a deterministic state machine (commands in, events out); `store` keeps its command log and its
state; `folder` joins the two, and `cluster` answers the interface with them. Only `present` may read the
time, only `store` may touch the disk.
"""
