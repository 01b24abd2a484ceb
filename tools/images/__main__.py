"""``python -m tools.images``: build what is not in the cache yet; name, digest and path of each archive on stdout."""

import sys

from tools.images.build import build
from tools.images.debian import FetchError

try:
    for one in build(lambda text: print(f"images: {text}", file=sys.stderr)):
        print(one.name, one.digest, one.path, sep="\t")
except FetchError as error:
    sys.exit(f"images: {error}")
