"""Quotas: who is promised what by a configuration, and what a change takes from whom.

It must never decide whether promises fit: `paictl.cells.quota` does.
"""
