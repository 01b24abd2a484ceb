"""A comment holds a setting that is read by text search.

Why: OpenPAI's scripts look for docker_image_tag and branch_name with grep and take every line that matches, comments
too: they get two versions in one word, and check out neither.

Passes::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1

Fails with::

    # config.yaml
     docker_image_tag: v1.8.1
    +# docker_image_tag: v1.7.0
"""

from __future__ import annotations

import re

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, Span, rule

_SEARCHED = re.compile(r"#.*?\b(docker_image_tag|branch_name)\b.*")


@rule("CFG318", "setting-in-comment", WARNING)
def check(document: Document) -> Findings:
    """Each comment with one of the two names in it."""
    source = document.source
    for match in _SEARCHED.finditer(source.text):
        if not _in_quotes(document, match.start()):
            at = Span(source, match.start(1), match.end(1))
            message = f"{match.group(1)} in a comment is read too, by a script that searches the file as text"
            yield Finding(at, message, "remove the comment, or write the name otherwise")


def _in_quotes(document: Document, offset: int) -> bool:
    """Whether a `#` is part of a value."""
    values = (entry.value for entry in document.top)
    return any(value.start <= offset < value.end for value in values)
