"""Runs that go on, here or on a cluster: their start in the background; attach, status, stop; orders for tasks.

What is started may also be a campaign or a measurement.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from emulator.display.console import printable_lines, say
from emulator.vocabulary import Order

Run = Annotated[Path, typer.Argument(metavar="RUN", help="The run's directory.", show_default=False)]
OnCluster = Annotated[
    Path | None,
    typer.Option("--cluster", metavar="FILE", help="The run is on the cluster of `ray up FILE`."),
]
RunOnCluster = Annotated[
    Path | None, typer.Option("--cluster", metavar="FILE", help="Run it on the cluster that `ray up FILE` has made.")
]
Detach = Annotated[bool, typer.Option("--detach", help="Run in the background; see natjam attach, status and stop.")]


def attach(run: Run, cluster: OnCluster = None) -> None:
    """Show what a detached run prints, until it ends.

    Ctrl-C does not stop the run. Results of a run on a cluster are fetched. Exit status: 1 if the run has failed.

    \b
    Examples:
      natjam attach runs/fig4
      natjam attach runs/fig4 --cluster cluster.yaml
    """
    from emulator.live.session import detached

    if cluster is not None:
        _follow_on_cluster(cluster, run)
        return
    _show(detached.printed(run))
    detached.verdict(run)


def status(run: Run, cluster: OnCluster = None) -> None:
    """Say whether a run is running, finished, or failed, and why.

    \b
    Examples:
      natjam status runs/fig4
      natjam status runs/fig4 --cluster cluster.yaml
    """
    from emulator.live.session import detached
    from emulator.live.session.remote import RemoteCluster

    typer.echo(
        printable_lines(detached.verdict(run) if cluster is None else RemoteCluster(cluster).natjam("status", run.name))
    )


def stop(run: Run, cluster: OnCluster = None) -> None:
    """End a detached run, as Ctrl-C would; no process of it is left.

    \b
    Examples:
      natjam stop runs/fig4
      natjam stop runs/fig4 --cluster cluster.yaml
    """
    from emulator.live.session import detached
    from emulator.live.session.remote import RemoteCluster

    if cluster is None:
        detached.stop(run)
    else:
        RemoteCluster(cluster).natjam("stop", run.name)


def start(
    command: str, file: Path | None, out_dir: Path, options: Sequence[str], cluster: Path | None, detach: bool
) -> None:
    """Start a command of natjam in the background, for its ``--detach`` and ``--cluster``.

    ``file`` is the experiment or campaign; on a cluster, its directory is copied there.  Without ``detach``, a run on a
    cluster is followed to its end and its results are fetched.  Raises ConfigError, RunError.
    """
    from emulator.experiment.catalog import PREFIX
    from emulator.live.session import detached
    from emulator.live.session.remote import RemoteCluster

    files = [] if file is None else [str(file)]
    if cluster is None:
        detached.start(out_dir, [command, *files, *options])
    else:
        remote, sent = RemoteCluster(cluster), False
        if file is not None and not str(file).startswith(PREFIX):  # the cluster has the catalogue
            remote.send(file.parent, out_dir.name)
            files, sent = [file.name], True
        remote.start(out_dir.name, [command, *files, *options], sent)
    try:
        if cluster is not None and not detach:
            _follow_on_cluster(cluster, out_dir)
            return
    except KeyboardInterrupt:
        _say_how_to_go_on(out_dir, cluster)
        raise
    _say_how_to_go_on(out_dir, cluster)


def _follow_on_cluster(cluster: Path, out_dir: Path) -> None:
    from emulator.live.session.remote import RemoteCluster

    remote = RemoteCluster(cluster)
    _show(remote.printed(out_dir.name))
    try:
        remote.natjam("status", out_dir.name)
    finally:
        remote.fetch(out_dir.name, out_dir)
        say(f"fetched to {out_dir}")


def _show(pieces: Iterable[bytes]) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
    for piece in pieces:
        typer.echo(printable_lines(decoder.decode(piece)), nl=False)


def _say_how_to_go_on(out_dir: Path, cluster: Path | None = None) -> None:
    at = f"{out_dir}{'' if cluster is None else f' --cluster {cluster}'}"
    say(f"the run continues in the background: natjam attach {at}, natjam status {at}, natjam stop {at}")


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
        typer.echo(printable_lines(RemoteCluster(cluster).natjam(order.value, run.name, task)))
