"""Configuration files: from bytes to problems with a place.

`source` reads text and knows lines and columns; `yamltree` and `csvtable` turn it into nodes that remember where they
stand; `schema` checks the shape; `model` gives the rules a typed, tolerant view; `rules` hold one check a module;
`validate` runs them; `report` renders what they found.

This package reads files and returns data. It must never print, never talk to a cluster or a host, never change a file
except in `fix`, and never raise for a mistake *in* a file: such a mistake is a `Problem`.
"""
