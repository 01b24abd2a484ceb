"""Real test hosts on one Linux machine: systemd in nspawn containers, own addresses in an own network namespace.

`python -m tools.hosts` is the command, `Lab` in lab.py what tests use; docs/test-hosts.md says what they need.
"""
