"""The cell model: what a cluster is made of and what its tenants were promised.

Holds the specification of a cluster, its chains of cell types, the immutable trees of physical and virtual
cells, and the one formula that says whether quotas fit. Everything here is frozen once built and knows nothing
of jobs. It must never hold scheduling state, read files, or import anything but the standard library and
`paictl.errors`.
"""
