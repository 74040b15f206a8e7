"""Commands about machines: doctor and probe about the one at hand, hosts about those that are to form a cluster."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from emulator.cli.options import AsJson, Out, claimed
from emulator.display.console import results_console
from emulator.display.tables import names, new_table, numbers, words
from emulator.errors import ConfigError, RunError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType
    from rich.table import Table

    from emulator.costs.probe_result import ImageCost, Probed
    from emulator.live.session.doctor import Finding


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Say what this machine lacks, and what does not work without it.

    \b
    Examples:
      natjam doctor
      natjam doctor --json
    """
    from emulator.live.session.doctor import examine

    findings = examine()
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings], indent=1))
        return
    results_console().print(_findings_table(findings))


def _findings_table(findings: Sequence[Finding]) -> Table:
    table = new_table(None, [*names("what", ""), *words("found", "without it")])
    for finding in findings:
        mark = Text("yes", "green") if finding.works else Text("no", "yellow")
        table.add_row(finding.name, mark, finding.found, finding.without)
    return table


def probe(
    context: typer.Context,
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="The program and its arguments.", show_default=False)
    ],
    store: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=DIR", help="Where to save images; may be repeated [default: the working directory]"),
    ] = None,
    after: Annotated[float, typer.Option(help="Let the program run for this many seconds first.")] = 1.0,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Measure what preempting a program costs here.

    It starts the program, stops it, lets it go on, saves an image of it on each store, restores it, and ends it.

    The table says from which progress on an image is cheaper than killing. probe.json has all figures. Experiments use
    probe.yaml as 'overheads' and 'storage.tier'.

    \b
    Examples:
      natjam probe -- sleep 30
      natjam probe --after 5 -- python workloads/programs/kmeans.py --memory-mb 200 --iterations 1000
      natjam probe --store ssd=/mnt/ssd --store share=/mnt/nfs --json -- ./simulate --input day.bin
    """
    from emulator.display.work_display import WorkDisplay, WorkStatus
    from emulator.files.whole_files import write_json, written_whole
    from emulator.live.probe import probe as measure

    stores = _stores(store)
    if not 0 < after <= 3600:
        raise ConfigError(f"--after {after:g}: must be above 0 and at most 3600 seconds")
    console = results_console()
    directory = claimed(context, "probe", out)
    with WorkDisplay(results_console(stderr=as_json)) as display:
        probed = measure(command, stores, after, lambda part, done: display.update(WorkStatus(part, done, None)))
    write_json(directory / "probe.json", probed.to_json())
    with written_whole(directory / "probe.yaml") as unfinished:
        unfinished.write_text(probed.profile())
    if as_json:
        typer.echo(json.dumps(probed.to_json(), indent=1))
        return
    for part in probe_tables(probed):
        console.print(part, soft_wrap=True, highlight=False)
    console.print(f"results in {directory}", soft_wrap=True, highlight=False, markup=False)


def _stores(given: list[str] | None) -> dict[str, Path]:
    stores = {}
    for text in given or ["here=."]:
        name, equals, directory = text.partition("=")
        if not (name and equals and directory):
            raise ConfigError(f"--store {text}: write it as NAME=DIR, for example ssd=/mnt/ssd")
        if name in stores:
            raise ConfigError(f"--store {text}: two stores have the name '{name}'")
        stores[name] = Path(directory)
    return stores


def hosts(
    machines: Annotated[
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
    from emulator.files.whole_files import written_whole
    from emulator.live.machines import CLOUDS, for_cloud

    if write.exists():
        raise ConfigError(f"--write {write}: exists already; name another file")
    if cloud is None and not machines:
        raise ConfigError("name the machines, as in 'natjam hosts --write cluster.yaml a b c', or --cloud aws or azure")
    if cloud is not None and (machines or cloud not in CLOUDS):
        raise ConfigError(f"--cloud {cloud}: must be {' or '.join(CLOUDS)}, without names of machines")
    if cloud is None:
        text, up, before = _of_machines(machines or [], user, key), "RAY_UP_enable_autoscaler_v2=0 ray up", ()
    else:
        text, up, before = for_cloud(cloud), "ray up", CLOUDS[cloud].to_set
    with written_whole(write) as unfinished:
        unfinished.write_text(text)
    for line in (f"set in {write}: {before[0]}", *before[1:]) if before else ():
        typer.echo(line)
    at = shlex.quote(str(write))
    typer.echo(f"{write}: written. Next, with a directory that all machines share in place of /mnt/shared:")
    typer.echo(f"  {up} -y {at}")
    typer.echo(f"  natjam run catalog:natjam-fig4 --cluster {at} --time-scale 20 --set storage.url=/mnt/shared")


def _of_machines(names: list[str], user: str | None, key: str | None) -> str:
    from emulator.live.machines import Answer, ask, for_hosts, known_host, make_secrets

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


def probe_tables(probed: Probed) -> Iterator[RenderableType]:
    """The tables of a probe, and notes on them."""
    memory = probed.memory
    yield Text(
        f"{' '.join(probed.command)}: {memory.processes} process{'es' if memory.processes > 1 else ''},"
        f" {memory.resident_bytes / 1e6:.1f} MB resident, {memory.own_bytes / 1e6:.1f} MB private"
        f", {memory.swapped_bytes / 1e6:.1f} MB swapped"
    )
    yield Text(f"stop (SIGTSTP) {_milliseconds(probed.stop_s)}, continue (SIGCONT) {_milliseconds(probed.go_on_s)}")
    if probed.stores:
        yield _images_table(probed)
        yield Text(
            "break-even: if the program has done less than this since it was last saved, kill it; if more, save it.\n"
            f"Incremental: only the pages changed in one second, found by {probed.changed_pages_by}."
        )
    for note in probed.notes:
        yield Text(note)


def _images_table(probed: Probed) -> Table:
    columns = [*words("store"), *names("image"), *numbers("written MB", "dump s", "restore s")]
    columns += numbers("break-even s", importance=3)
    table = new_table(f"images, by {probed.dumper}", columns, also_in="probe.json")
    for store in probed.stores:
        speeds = f"{store.write_mb_s:.0f}, {store.read_mb_s:.0f} MB/s"
        how = "measured" if store.measured else "estimated"
        table.add_row(Text(f"{store.name} ({how})"), "full", *_cells(store.full))
        table.add_row(Text(speeds), "incremental", *_cells(store.incremental), end_section=True)
    return table


def _cells(cost: ImageCost) -> list[str]:
    return [f"{cost.written_bytes / 1e6:.2f}", *(f"{s:.3f}" for s in (cost.dump_s, cost.restore_s, cost.break_even_s))]


def _milliseconds(seconds: float | None) -> str:
    return "could not be measured" if seconds is None else f"{seconds * 1e3:.3f} ms"
