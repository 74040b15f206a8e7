"""A run over two Ray nodes that have certificates: Ray, links and shuffle by TLS."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

from emulator.live.encryption import AUTHORITY, CERTIFICATE, KEY
from tests.certificates import certificates_in
from tests.live_runs import SMALL, NatjamRun, listening, ray_nodes


def test_all_that_the_hosts_of_a_run_listen_at_is_tls(tmp_path: Path) -> None:
    variables = certificates_in(tmp_path / "home", "127.0.0.2")
    client = ssl.create_default_context(cafile=variables[AUTHORITY])
    client.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
    client.load_cert_chain(variables[CERTIFICATE], variables[KEY])
    with (
        ray_nodes(2, variables) as cluster,
        NatjamRun(tmp_path, experiment=SMALL, cluster=cluster, variables=variables) as run,
    ):
        run.walking("research")
        asked = [
            run.host("rm"),
            *(pid for n in ("nodes-1", "nodes-2") for pid in (run.host(n), run.shuffle_service(n))),
        ]
        ports = {(address, port) for address, port in listening(*asked) if address != "::"}  # Ray's own, of its workers
        assert {address for address, _ in ports} == {"127.0.0.1", "127.0.0.2"}
        assert len(ports) >= len(asked)
        for address, port in ports:
            with socket.create_connection((address, port), 10) as connection:
                assert client.wrap_socket(connection, server_hostname=address).version() == "TLSv1.3"
        summary = run.check_verified()
    assert summary["shuffle_http_bytes"] > 0
