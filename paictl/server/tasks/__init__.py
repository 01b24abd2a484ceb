"""What tasks serve (TensorBoard, notebooks): a host name for each, and a proxy in front that lets in who may.

What a task sends is its user's, not ours: it is never shown on the portal's own host name, gets no cookie and no token
of ours, and can set none. This package must never decide who may see a job (that is `server.routing`).
"""
