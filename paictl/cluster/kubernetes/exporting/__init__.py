"""Services as files for other tools: a Helm chart, a base of kustomize, and what belongs into neither.

The objects are those of `service start`, from the same templates. `objects` collects them, `values` finds the settings
that a chart can leave open, `chart` and `base` write the files. It must never put a secret into a file, nor an object
that a tool would delete although it is not ours: a node.
"""
