"""paictl: administration toolkit for multi-tenant GPU clusters with topology guarantees.

The packages below form a total order (see ``tests/test_architecture.py``); this module holds only the
version and must never import any of them.
"""

__version__ = "0.1.0.dev0"
