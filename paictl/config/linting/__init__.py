"""Linting: rules over documents, their reports and their repairs.

It must never keep a model of its own: rules ask `models`, `workload` and `cells`.
"""
