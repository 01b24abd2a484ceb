"""Playbooks on hosts, by ansible-runner; the only code that uses it.

`environment` makes ansible-core's own virtual environment, `run` runs a playbook there, `outcome` is what comes of it.
Host keys are verified. Secrets go through a file that only the owner can read, in memory where that can be; they must
never get into a command line, an environment, an event or a log.
"""
