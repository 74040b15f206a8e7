"""Detached runs, campaigns and measurements, here or on a cluster: start them; the commands attach, status and stop."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from emulator.display.console import printable_lines, say

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

    say(detached.verdict(run) if cluster is None else RemoteCluster(cluster).natjam("status", run.name))


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
