"""What a file of each kind says, as typed and tolerant views for the rules.

A view is made once per document and kept as long as the document lives. It must never raise and never report: a value
of a wrong shape is absent here, because the schema has already said so.
"""
