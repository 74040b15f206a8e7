"""TLS between the machines of a cluster: where Ray's own traffic has it, natjam's has it too, by the same files.

Ray's variables say so (``RAY_USE_TLS`` and three files; ``cluster.yaml`` sets them on every machine): the machine's
certificate and its key, and the certificate of the cluster's authority.  Both ends of a connection show a certificate
of that authority; an end without one is disconnected before any message is sent.  A machine's certificate names its
addresses.
"""

from __future__ import annotations

import os
import socket
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a supervisor without encryption, and so each of its tasks, does without it
    from ssl import SSLContext

SWITCH = "RAY_USE_TLS"
CERTIFICATE, KEY, AUTHORITY = "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT"


def is_on() -> bool:
    """Whether the machines of this process' cluster encrypt what they say to each other."""
    return os.environ.get(SWITCH, "").lower() in ("1", "true")


@cache
def context(*, listens: bool) -> SSLContext | None:
    """For the connections that a process accepts, or for those that it opens; None: in clear text.

    Raises OSError if the files are not there or not what they should be.
    """
    if not is_on():
        return None
    import ssl

    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if listens else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_verify_locations(os.environ[AUTHORITY])
    made.load_cert_chain(os.environ[CERTIFICATE], os.environ[KEY])
    if listens:
        made.num_tickets = 0  # no connection resumes the TLS session of an earlier one
    return made


def scheme() -> str:
    """The scheme of the URLs of HTTP services between machines."""
    return "https" if is_on() else "http"


def connected(address: tuple[str, int], timeout_real_s: float) -> socket.socket:
    """A connection to another machine.  Raises OSError."""
    encrypted = context(listens=False)
    connection = socket.create_connection(address, timeout_real_s)
    return connection if encrypted is None else encrypted.wrap_socket(connection, server_hostname=address[0])
