"""Commands about single tasks of a live run: suspend, resume, kill."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emulator.cli.detached import OnCluster, Run
from emulator.display.console import say
from emulator.vocabulary import Order

_HELP = "JOB/m0 is a job's first map, JOB/r0 its first reduce, or the first of its programs."
_Task = Annotated[str, typer.Argument(metavar="TASK", help=_HELP, show_default=False)]


def suspend(run: Run, task: _Task, cluster: OnCluster = None) -> None:
    """Stop a task of a live run (SIGTSTP) until you resume it.

    Its process keeps its memory, and another task may have its container. If its node has no room for a stopped
    process, the command says so and does nothing.

    \b
    Examples:
      natjam suspend runs/fig4 research-XL/r3
      natjam suspend runs/fig4 research-XL/r3 --cluster cluster.yaml
    """
    _give(Order.SUSPEND, run, task, cluster)


def resume(run: Run, task: _Task, cluster: OnCluster = None) -> None:
    """Let a suspended task of a live run go on (SIGCONT), as soon as its node has a container free.

    \b
    Example:
      natjam resume runs/fig4 research-XL/r3
    """
    _give(Order.RESUME, run, task, cluster)


def kill(run: Run, task: _Task, cluster: OnCluster = None) -> None:
    """Kill a task of a live run: it begins anew as soon as it is given a container.

    \b
    Example:
      natjam kill runs/fig4 research-XL/r3
    """
    _give(Order.KILL, run, task, cluster)


def _give(order: Order, run: Path, task: str, cluster: Path | None) -> None:
    from emulator.live.session import orders
    from emulator.live.session.remote import RemoteCluster

    if cluster is None:
        say(orders.give(run, task, order))
    else:
        say(RemoteCluster(cluster).natjam(order.value, run.name, task))
