"""Manifests from templates: `templates/<service>/*.yaml.j2` and the pushed configuration → objects of Kubernetes.

`templating` knows Jinja2 and YAML and says where something is wrong; `images` knows which image a name stands for;
`context` what a template may use. It must never talk to a cluster, nor let a secret into an object that is no Secret.
"""
