"""A day's jobs over four hosts that share no disk: their output goes to a store, a link is cut, a host dies."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.hdfs_server import with_hdfs
from tests.hosts.conftest import HEAD, WORKERS, Cluster, ray_on
from tests.hosts.host_init import HOME
from tests.hosts.test_hosts_lost import CUT_S
from tests.live_runs import helper
from tests.run_results import RunResults

_AWS = """\
[default]
endpoint_url = {AWS_ENDPOINT_URL}
aws_access_key_id = {AWS_ACCESS_KEY_ID}
aws_secret_access_key = {AWS_SECRET_ACCESS_KEY}
region = {AWS_DEFAULT_REGION}
"""
DAY = "natjam/workloads/catalog/facebook-50.yaml"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["s3", pytest.param("hdfs", marks=with_hdfs)])
def test_facebooks_jobs_with_their_output_in_a_store(kind: str) -> None:
    with ray_on(1 + len(WORKERS), captured=False) as cluster, _store(cluster, kind) as url:
        options = f"--set storage.url={url}/runs --set cluster.nodes=4 --set protocol.kill_timeout_s=300"
        command = f"RAY_ADDRESS=auto natjam run {DAY} {options} --out /srv/day"
        head = cluster.network.hosts[HEAD]
        running = head.command("bash", "-i", "-c", command)
        with subprocess.Popen(running, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = iter(process.stdout)
            assert any(_ended(line) >= 10 for line in lines)
            cluster.network.cut(WORKERS[1])
            time.sleep(CUT_S)
            cluster.network.mend(WORKERS[1])
            assert any(_ended(line) >= 20 for line in lines)
            cluster.network.hosts[WORKERS[-1]].end()
            for line in lines:
                print(line, end="")
        run = RunResults(cluster.network.shared / "day")
        assert process.returncode == 0
        assert run.summary["output"]["verified"] is True
        assert "lost" in {row["outcome"] for row in run.table("attempts")}
        assert not (run.out / "output").exists()


def _ended(line: str) -> int:
    """How many jobs have ended, by a line that the run prints."""
    print(line, end="")
    found = re.search(r"(\d+) of 50 jobs ended", line)
    return int(found[1]) if found else 0


@contextmanager
def _store(cluster: Cluster, kind: str) -> Iterator[str]:
    """A store at the laptop's address, which all hosts can reach; its URL."""
    laptop = cluster.laptop
    inside = ["nsenter", "--target", str(laptop.pid), "--net", sys.executable]
    with helper([*inside, "-m", "tests.store_server", kind, laptop.address]) as (url, variables):
        for host in cluster.network.hosts.values():
            host.run("mkdir", f"{HOME}/.aws")
            host.write(f"{HOME}/.aws/config", _AWS.format(**variables) if kind == "s3" else "")
        yield url
