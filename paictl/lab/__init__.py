"""Guided labs: manifests, steps, checks, a student's progress, and the report for the teacher.

A lab is data (`labs/NN_topic/`); this package plays it and judges what was observed. Steps and checks know a cluster
through `paictl.cluster.interface` only, so that the same labs can be pointed at a real one; only `embedded` knows that
it is an embedded cluster. This package must never print or ask, and must never touch a cluster that is not a lab's own.
"""
