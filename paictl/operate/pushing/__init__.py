"""A push of configuration files: read, checked, merged, compared with what others did, and sent.

Nothing here must ever send files that nobody has seen the effect of: `plan` decides everything and changes nothing,
`send` does what a plan says, and only if the cluster is still as the plan found it.
"""
