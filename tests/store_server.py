"""``python -m tests.store_server s3|hdfs ADDRESS``: a store as a process, until its standard input ends.

Its first line says in JSON where objects can be, and the environment of its clients.
"""

from __future__ import annotations

import json
import sys

from tests.hdfs_server import HdfsServer
from tests.object_server import ObjectServer


def main() -> None:
    """Serve until standard input ends."""
    kind = {"s3": ObjectServer, "hdfs": HdfsServer}[sys.argv[1]]
    with kind(sys.argv[2]) as server:
        print(json.dumps([server.url, server.variables]), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
