"""Ray nodes on this machine at the addresses that are its arguments, until standard input ends: for the live tests.

It is a separate program because a process reads Ray's token only once.  It prints one JSON line when the cluster is
ready.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import tempfile

from emulator.live.session.ray_runtime import lean

MEGABYTE = 1024 * 1024


def main() -> None:
    """Serve until standard input ends."""
    # Not in pytest's directory: the paths of Ray's sockets must be short.
    directory = tempfile.mkdtemp(prefix="nj-", dir="/tmp")
    token = secrets.token_hex(32)
    os.environ.update(
        RAY_AUTH_MODE="token",
        RAY_AUTH_TOKEN=token,
        RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",  # otherwise it replaces 127.0.0.1 by the outside address
        RAY_TMPDIR=directory,
        RAY_USAGE_STATS_ENABLED="0",
        RAY_enable_worker_prestart="0",  # as a run's own Ray
        RAY_memory_monitor_refresh_ms="0",
        RAY_prestart_worker_first_driver="0",
        RAY_worker_niceness="0",
        TMPDIR=directory,  # node hosts keep their work directories there
    )
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        with lean(ray):
            for address in sys.argv[1:]:
                cluster.add_node(
                    node_ip_address=address, num_cpus=2, object_store_memory=100 * MEGABYTE, include_dashboard=False
                )
        print(json.dumps({"address": cluster.address, "token": token, "directory": directory}), flush=True)
        sys.stdin.read()
    finally:
        cluster.shutdown()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
