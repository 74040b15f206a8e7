"""The command ``natjam hosts``: a cluster file for machines that one has, or for a cloud."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from emulator.errors import ConfigError, RunError


def hosts(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Machines by their SSH names; the first is the head."),
    ] = None,
    write: Annotated[Path, typer.Option(help="The file to write; an existing one is kept.")] = Path("cluster.yaml"),
    cloud: Annotated[str | None, typer.Option(help="aws or azure, instead of machines of your own.")] = None,
    user: Annotated[str | None, typer.Option(help="Who logs in [default: as SSH's configuration says]")] = None,
    key: Annotated[str | None, typer.Option(help="Private SSH key [default: as SSH's configuration says]")] = None,
) -> None:
    """Write a cluster file for machines that you have, after checking that they can form a cluster.

    Each machine is asked, over SSH, for Python with its venv module, openssl, rsync and a way to the head. Nothing is
    installed and nothing changed there. Token and certificates for the cluster are made in ~/.ray if they are missing.
    The two commands that come next are printed. For Google's cloud, natjam's cluster.yaml is ready.

    \b
    Examples:
      natjam hosts --write cluster.yaml a b c
      natjam hosts --write cluster.yaml --user me --key ~/.ssh/lab 10.0.0.1 10.0.0.2
      natjam hosts --write aws.yaml --cloud aws
    """
    from emulator.live.machines.cluster_file import CLOUDS

    if write.exists():
        raise ConfigError(f"--write {write}: exists already; name another file")
    if cloud is None and not names:
        raise ConfigError("name the machines, as in 'natjam hosts --write cluster.yaml a b c', or --cloud aws or azure")
    if cloud is not None and (names or cloud not in CLOUDS):
        raise ConfigError(f"--cloud {cloud}: must be {' or '.join(CLOUDS)}, without names of machines")
    if cloud is None:
        text, up, before = _of_machines(names or [], user, key), "RAY_UP_enable_autoscaler_v2=0 ray up", ()
    else:
        from emulator.live.machines.cluster_file import for_cloud

        text, up, before = for_cloud(cloud), "ray up", CLOUDS[cloud].to_set
    _write(write, text)
    for line in (f"set in {write}: {before[0]}", *before[1:]) if before else ():
        typer.echo(line)
    at = shlex.quote(str(write))
    typer.echo(f"{write}: written. Next, with a directory that all machines share in place of /mnt/shared:")
    typer.echo(f"  {up} -y {at}")
    typer.echo(f"  natjam run catalog:natjam-fig4 --cluster {at} --time-scale 20 --set storage.url=/mnt/shared")


def _of_machines(names: list[str], user: str | None, key: str | None) -> str:
    from emulator.live.machines.cluster_file import for_hosts
    from emulator.live.machines.ssh_hosts import Answer, ask, known_host, make_secrets

    found = [known_host(name, user, key) for name in dict.fromkeys(names)]
    if len({(host.user, host.key) for host in found}) > 1:
        raise ConfigError("SSH uses several users or keys for these machines, and Ray only one: give --user and --key")
    if twice := [
        host.name for place, host in enumerate(found) if host.address in [one.address for one in found[:place]]
    ]:
        raise ConfigError(f"{twice[0]}: has the address of another machine; name each once")

    def said(answer: Answer) -> None:
        typer.echo(f"{answer.host.name}: " + ("; ".join(answer.problems) or f"ready, Python {answer.python}"))

    answers = ask(found, said)
    if unready := [answer.host.name for answer in answers if answer.problems]:
        raise RunError(f"not ready: {', '.join(unready)}; nothing was written")
    if len({answer.python for answer in answers}) > 1:
        raise RunError(
            "the machines have different versions of Python, and Ray needs the same on all; nothing was written"
        )
    make_secrets()
    head, *workers = (host.address for host in found)
    return for_hosts(head, workers, found[0].user, found[0].key)


def _write(path: Path, text: str) -> None:
    from emulator.files.whole_files import written_whole

    with written_whole(path, keep=False) as unfinished:
        unfinished.write_text(text)
