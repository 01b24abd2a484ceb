"""What a file said when it was read last, so that a short command need not parse all manifests.

Kept as JSON in the user's cache, one file for each that was read, with its size and when it was changed; whoever
deletes the cache loses nothing but time. A cache that cannot be read or written is no error.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paictl.errors import PaictlError
from paictl.files import write_together
from paictl.places import cache_folder


def remembered(path: Path, read: Callable[[Path], Any]) -> Any:
    """What `read` says of a file, or said of it when it was as it is; raises what `read` raises."""
    try:
        status = path.stat()
        state = [str(path), status.st_size, status.st_mtime_ns]
    except OSError:
        return read(path)
    # A checksum is enough, since an entry says of which file it is; hashlib would take as long to load as all of this.
    cache_file = cache_folder() / "manifests" / f"{path.parent.name}-{zlib.crc32(bytes(path)):08x}.json"
    try:
        entry = json.loads(cache_file.read_bytes())
        if entry["of"] == state:
            return entry["says"]
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not there, cut short, or of another version
    data = read(path)
    _keep(cache_file, {"of": state, "says": data})
    return data


def _keep(path: Path, entry: dict[str, Any]) -> None:
    """Write an entry in one step, if JSON can say all of it."""
    try:
        text = json.dumps(entry, ensure_ascii=False)
        if json.loads(text) != entry:
            return  # keys that are no strings
        write_together(path.parent, {path.name: text}, force=True, mode=0o600)
    except (PaictlError, OSError, TypeError, ValueError):
        return
