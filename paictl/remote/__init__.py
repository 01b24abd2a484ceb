"""The outside world: the only code that talks to Kubernetes, SSH and Ansible.

A folder for each of them, which others import by its own name, so that a command pays only for what it uses. It
must never decide anything and hold no state of a cluster beyond what the protocol needs.
"""
