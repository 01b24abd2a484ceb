"""From bare machines to a running Kubernetes: what config.yaml and the host lists wish, as phases of playbooks.

`settings` and `inventory` say what is wished, `artifacts` which files it takes, `desired` what each host shall be like,
`phases` how it gets there, `kubeconfig` how it is reached then.

This package must never log in to a host or run Ansible itself (`remote` does), put a secret into a file that stays, or
change a kubeconfig's other contexts.
"""
