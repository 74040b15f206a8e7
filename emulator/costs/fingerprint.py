"""What identifies the machine that a calibration was measured on."""

from __future__ import annotations

import hashlib
import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import Field

from emulator import __version__
from emulator.files.strict import Strict

Text = Annotated[str, Field(min_length=1, max_length=300)]
_LOOK_REAL_S = 0.5
BUSY_SHARE = 0.25
"""If other programs use a larger share of the cores than this, measurements are too slow."""


class Fingerprint(Strict):
    """One machine and the software on it; the same after a reboot."""

    machine_id: Text
    """Hash of the operating system's id of this installation; the id itself must not be published."""
    cpu_model: Text
    cores: Annotated[int, Field(ge=1, le=10**6)]
    memory_bytes: Annotated[int, Field(ge=1, le=10**18)]
    kernel: Text
    python: Text
    natjam: Text

    def differences(self, here: Fingerprint) -> list[str]:
        """How this machine (of a file) differs from ``here``, in words; memory sizes within 2% are equal."""
        found = []
        for name in Fingerprint.model_fields:
            there, mine = getattr(self, name), getattr(here, name)
            if name == "memory_bytes":
                if abs(there - mine) > mine // 50:
                    found.append(f"memory {there >> 20} MiB there, {mine >> 20} MiB here")
            elif there != mine:
                found.append(f"{name.replace('_', ' ')} {there} there, {mine} here")
        return found


def this_machine() -> Fingerprint:
    """The machine this runs on."""
    return Fingerprint(
        machine_id=_machine_id(),
        cpu_model=_cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        kernel=platform.release(),
        python=platform.python_version(),
        natjam=__version__,
    )


def _machine_id() -> str:
    identity = platform.node()
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with suppress(OSError):
            identity = Path(path).read_text().strip() or identity
            break
    return hashlib.sha256(f"natjam:{identity}".encode()).hexdigest()[:16]


def _cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Processor", "cpu model") and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "unknown"


def busy_warning() -> str | None:
    """A warning if the machine is busy now; it watches other programs for half a second."""
    import psutil  # here, because every command reads this file, and few ask this

    share = psutil.cpu_percent(_LOOK_REAL_S) / 100
    if share <= BUSY_SHARE:
        return None
    return (
        f"other programs use {share:.0%} of this machine's cores: measurements are now too slow, and simulations that "
        "use them too; stop the other programs and measure again"
    )
