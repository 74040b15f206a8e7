"""The console script ``natjam``.  Ctrl-C works from its start on, also while the commands are imported.

``python -m emulator.cli.script LOG COMMAND ...`` is a command in the background: ``emulator.live.session.detached``
starts it and finds it again by these arguments.
"""

from __future__ import annotations

import atexit
import gc
import locale
import os
import sys
import threading
import traceback
from typing import NoReturn

from emulator.interruption import EXIT_CODE, interruptible
from emulator.own_code import part_before_own_code, say_done
from emulator.own_packages import of_the_same_name
from emulator.standard_streams import open_standard_streams


def main() -> None:
    """Run the command line; ends the process."""
    _use_utf8()
    open_standard_streams()
    part_before_own_code()
    end_process(run())


def in_background() -> NoReturn:
    """Become the command that ``detached`` has started; its exit status is the last line that is printed."""
    from emulator.live.session.detached import ENDED

    del sys.argv[1]
    status = run()
    print(f"{ENDED}{status}", flush=True)
    end_process(status)


def _use_utf8() -> None:
    """All files are UTF-8; in another locale (not C, which Python takes for UTF-8) Python writes its own encoding."""
    variable = "PYTHONUTF8"
    if locale.getencoding().lower() not in ("utf-8", "utf8") and os.environ.get(variable) != "1":
        os.environ[variable] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def run() -> int:
    """Run the command line; returns the exit status."""
    if why := of_the_same_name():
        print(f"natjam: {why}", file=sys.stderr)
        return 2
    gc.set_threshold(300_000)  # most of what a command makes, first its imports, lives until it ends
    try:
        with interruptible(finally_ignored=True):
            from emulator.cli.main import app_for

            app_for(sys.argv[1:])(prog_name="natjam")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        status = EXIT_CODE
    except BaseException:
        traceback.print_exc()
        return 1
    else:
        return 0
    if status == EXIT_CODE:  # Typer makes an exit of an interrupt
        print("natjam: interrupted", file=sys.stderr)
    return status


def end_process(status: int) -> NoReturn:
    """End this process, even if a user's policy has started threads or processes that do not end."""
    if status == 0:
        say_done()
    gc.freeze()  # a last search for cycles, in all it has, would take a tenth of a second
    processes = sys.modules.get("multiprocessing")  # without it there is none
    for child in processes.active_children() if processes is not None else ():
        child.kill()
    has_threads = any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread())
    if not has_threads and "ray" not in sys.modules:
        sys.exit(status)
    if not has_threads:
        atexit._run_exitfuncs()
    # Ray's library has crashed as the interpreter took itself down, after its servers had been stopped.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    in_background()
