"""A hook of MkDocs: the Chinese word splitter of the search says nothing about loading its dictionary."""

import logging
from typing import Any


def on_startup(**_: Any) -> None:
    """Called before anything is built, when jieba has been loaded and has chosen a level of its own."""
    logging.getLogger("jieba").setLevel(logging.WARNING)
