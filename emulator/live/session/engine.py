"""The live engine for ``natjam run``: a session and its records."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from emulator.engine import EngineResult, OnStatus, OpenRecords
from emulator.errors import ConfigError
from emulator.live.session.session import LiveSession
from emulator.own_packages import of_the_same_name
from emulator.records.run_directory import RunDirectory
from emulator.resolved import Resolved
from emulator.storage.places import output_at, place_at


def run_live(
    run: Resolved,
    directory: RunDirectory,
    on_status: OnStatus,
    open_records: OpenRecords,
) -> EngineResult:
    """Do ``run`` on real processes; see ``emulator.engine.Engine``."""
    if why := of_the_same_name([str(Path.cwd())], plain_folders=False):
        raise ConfigError(why)  # Ray's processes look in the working directory first
    started_real_s = time.monotonic()
    output = output_at(run.storage_url, directory.output_path)
    place = place_at(output)
    place.make()
    session = LiveSession(run, directory.path, output, on_status, started_real_s)
    with contextlib.ExitStack() as ending:
        ending.enter_context(session)
        with open_records() as records:
            live = session.run(records)
        place.tidy()
        return EngineResult(
            machines=live.machines,
            real_s=time.monotonic() - started_real_s,
            lag=live.lag,
            gaps=live.gaps,
            output=output,
            facts={
                "shuffle_http_bytes": live.shuffle_bytes,
                "startup_real_s": live.startup_real_s,
                **({"web": live.web} if live.web else {}),
            },
            end=ending.pop_all().close,
        )
