"""Our container images, built without docker and without being root: ``python -m tools.images`` (``make images``)."""
