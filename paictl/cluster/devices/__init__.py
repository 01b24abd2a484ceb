"""Devices as Kubernetes knows them (Dynamic Resource Allocation), matched to leaf cells, and claims on them.

`slices` reads what a driver publishes and says which device is which leaf cell; `claims` reads ResourceClaims and
makes their allocations; `ledger` knows who holds which device; `writing` writes allocations and takes them back;
`support` says what a cluster lacks for it. It must never decide who gets which devices: `paictl.scheduler` does.
`docs/devices.md` has the facts and the reasons.
"""
