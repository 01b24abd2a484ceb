"""The portal: pages made on the server, little script, nothing from elsewhere.

Each module holds the handlers of some pages and their `ROUTES`; `rendering` turns a template of ``templates/portal/``
and its values into an answer. A page must never put text into markup but through a template, which escapes it.
"""
