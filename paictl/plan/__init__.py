"""From a request to what became of it: phases in order, an event for everything that happens, a folder that remembers.

`phase` is the contract of a phase, `run` carries a list of them out, `events` is what it tells, `folder` keeps a run so
that it can be looked at and resumed. Services, deployment and whatever else takes several steps use it.

This package must never do anything to a cluster, a host or a terminal itself, nor must it read a clock: what happens,
happens in the phases that it is given, and whoever wants to see it listens.
"""
