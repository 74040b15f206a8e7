"""A command of natjam in the background: ``python -m emulator.cli.background LOG COMMAND ...``.

``emulator.live.session.detached`` starts it and finds it again by these arguments.
"""

from __future__ import annotations

import sys

from emulator.cli.script import end_process, run
from emulator.live.session.detached import ENDED


def main() -> None:
    """Become the command; its exit status is the last line that is printed."""
    del sys.argv[1]
    status = run()
    print(f"{ENDED}{status}", flush=True)
    end_process(status)


if __name__ == "__main__":
    main()
