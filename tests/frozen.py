"""What natjam decides, before and after a change that must change no decision: ``make frozen``.

natjam is driven as a user drives it: by its command line, and only what it writes and prints is compared.  So the same
script measures any version, here or in another checkout (``--checkout DIR``):

* twenty experiments, three seeds each: the tables of the run, its summary, and what ``natjam explain`` says of it; two
  of the twenty are under faults, where there is only what ``natjam chaos`` prints: how often each fault happened, the
  time and work that single ones cost, and how the jobs ended;
* recorded sites: days of Kueue and Kubernetes and runs of Slurm, imported, played and run, with ``advise``, ``who``,
  ``compare`` and ``loops``;
* a scheduler in another process (``docs/examples/first_fit.py``);
* what ``natjam validate`` says about many broken files.

Everything is compared as tables, column by column, with ``tests/data/frozen.json``.  Columns may have come since then;
of a JSON document a path is a column.  What differs is told with its case, its table, its columns and the first row.
What depends on the machine (seconds that something took, paths, versions) is left out.

``make frozen-claims`` does the same for the claims and cells of quick reproductions of ``FIGURES``.  The others take
hours, or rest on what this machine takes (OS-assisted preemption), or measure real time (``flex/decision``).

A change that means to change a decision says so in the changelog and writes the file again (``--write``).
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as parquet

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # this is a program, not a test

from tests import recorded_sites as sites  # noqa: E402
from tests.damage import YAML_PIECES, damaged  # noqa: E402
from tests.experiment_texts import NO_EXPERIMENTS, REFUSED_CHANGES, TURNS, VALID  # noqa: E402

FROZEN = ROOT / "tests/data/frozen.json"
FROZEN_CLAIMS = ROOT / "tests/data/frozen-claims.json"
DATA = ROOT / "tests/data"
FIGURES = (
    *(f"natjam/{figure}" for figure in ("fig3", "fig4", "fig5", "fig6", "fig6-lrt", "fig10")),
    *(f"adaptive-checkpointing/{figure}" for figure in ("fig2", "fig2b", "table3", "fig4", "fig6", "sensitivity")),
    *(f"flex/{figure}" for figure in ("fig4", "fig5a", "base")),
    *(f"reverse-adaptive/{figure}" for figure in ("fig1", "fig3")),
    *(f"yarn/{figure}" for figure in ("mechanisms", "recorded")),
)

Columns = Mapping[str, Sequence[Any]]
"""A table: its columns by name.  Those of a JSON document may have different lengths."""
Named = tuple[str, Columns]
"""A table with its name."""
Take = Callable[["Natjam", Path], Iterable[Named]]
"""Makes the tables of a case, in an empty folder."""


# ---- natjam, as a user has it ----


class Ended(NamedTuple):
    """A command that has ended."""

    status: int
    out: str
    errors: str


class WrongEndError(Exception):
    """A command has ended as it must not, with what it has said."""


class Natjam:
    """The commands of a checkout."""

    def __init__(self, checkout: Path) -> None:
        self.checkout = checkout
        self._command = [sys.executable, "-c", "from emulator.cli.script import main; main()"]
        """As the script ``natjam`` does, but with the modules of that checkout, whatever is installed."""
        paths = os.pathsep.join(map(str, (checkout, checkout / "emulator/public")))
        self._environment = {**os.environ, "PYTHONPATH": paths, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}

    def __call__(self, folder: Path, *arguments: str, statuses: Sequence[int] = (0,)) -> Ended:
        """Run a command in a folder.  Raises WrongEndError if its exit status is none of these."""
        ended = subprocess.run(
            [*self._command, *arguments],
            cwd=folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if ended.returncode not in statuses:
            said = "\n".join(ended.stderr.splitlines()[-20:])
            raise WrongEndError(f"natjam {' '.join(arguments[:6])}: exit status {ended.returncode}: {said}")
        return Ended(ended.returncode, ended.stdout, ended.stderr)


# ---- what it leaves, as tables ----

MACHINE_KEYS = ("versions", "machines", "real_s", "lag", "files", "sha256", "events", "run")
"""Of a summary or an explanation: what depends on the machine, on where it is, or on how the journal is written."""


def run_tables(natjam: Natjam, folder: Path, experiment: str, *options: str) -> Iterator[Named]:
    """Run an experiment: how it ends, its tables, its summary, and why there were evictions."""
    ended = natjam(folder, "run", experiment, *options, "--out", "run", statuses=(0, 1))
    yield "end", {"status": [ended.status], "errors": ended.errors.splitlines()}
    for path in sorted((folder / "run").glob("*.parquet")):
        yield path.stem, parquet.read_table(path).to_pydict()
    summary = json.loads((folder / "run/summary.json").read_text())
    yield "summary", document_table(summary, (*MACHINE_KEYS, "jobs"))  # jobs is a table of its own
    explanation = json.loads(natjam(folder, "explain", "run", "--json").out)
    yield "explain", document_table(explanation, MACHINE_KEYS)


def document_table(document: Mapping[str, Any], left_out: Iterable[str] = ()) -> Columns:
    """Each path of a JSON document with all its values, in order.

    Numbers have nine digits: sums may be made in another order.
    """
    found: dict[str, list[Any]] = {}

    def walk(path: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                walk(f"{path}.{key}" if path else key, each)
        elif isinstance(value, list):
            for each in value:
                walk(path, each)
        else:
            found.setdefault(path, []).append(float(f"{value:.9g}") if isinstance(value, float) else value)

    walk("", {key: value for key, value in document.items() if key not in left_out})
    return found


def csv_table(path: Path) -> Columns:
    """A table that a command has written."""
    with path.open(newline="") as file:
        head, *rows = csv.reader(file)
    return {name: [row[at] for row in rows] for at, name in enumerate(head)}


def printed_tables(text: str) -> Columns:
    """The rows of the tables in an output; what stands between them has seconds that something took."""
    rows = [line.split("│")[1:-1] for line in text.splitlines() if line.startswith("│")]
    return {"cells": [[cell.strip() for cell in row] for row in rows]}


def printed_lines(text: str) -> Columns:
    """All lines of an output."""
    return {"line": [line.rstrip() for line in text.splitlines()]}


def settings(overrides: Iterable[str]) -> Iterator[str]:
    """As options of a command."""
    for override in overrides:
        yield from ("--set", override)


# ---- experiments ----


class Case(NamedTuple):
    """One experiment: a file of the catalogue, and what is set in it."""

    name: str
    source: str
    overrides: tuple[str, ...] = ()


def _fig4(name: str, *overrides: str) -> Case:
    return Case(name, "natjam-fig4", overrides)


SEEDS = (1, 2, 3)
CASES = (
    _fig4("checkpoint"),
    _fig4("kill", "scheduler.mechanism=kill", "scheduler.task_eviction=lrt"),
    _fig4("suspend", "scheduler.mechanism=suspend", "scheduler.job_eviction=lr", "scheduler.task_eviction=random"),
    _fig4(
        "hard-cap",
        "scheduler.allocation={name: hard-cap, queues: {production: {capacity: 0.25}, research: {capacity: 0.75}}}",
        "scheduler.mechanism=wait",
    ),
    _fig4("soft-cap", "scheduler.allocation.name=soft-cap", "scheduler.mechanism=wait"),
    _fig4("image", "scheduler.mechanism=image", "storage.tier=ssd", "overheads=yarn-3"),
    _fig4("taken-back", "cluster.availability={steps: [[0, 48], [60, 20], [150, 48]]}"),
    Case("three-jobs", "natjam-fig10"),
    Case("deadlines", "natjam-fig11"),
    Case("microbenchmark", "natjam-microbenchmark"),
    Case("facebook", "facebook-50", ("scheduler.job_eviction=pr", "protocol.speculation={after_s: 20}")),
    Case("flex", "flex-fig4"),
    Case("images", "ckpt-facebook", ("workload.only.jobs=[low-1, high-1, low-2, high-2]",)),
    Case("adaptive", "ckpt-kmeans"),
    Case("suspended-memory", "os-assisted-cluster"),
    Case("reverse-adaptive", "reverse-adaptive-tasks", ("overheads=hadoop-0.23",)),  # native: each machine has its own
    Case("yarn", "yarn-recorded"),
)
FAULTS = (("chaos", "natjam-fig4", 24), ("facebook-chaos", "facebook-50", 8))
"""Experiments under faults, and of how many seeds; the first is 1."""
FAULTS_ALONE = ("masters-death", "node-death", "partition")
"""Kinds that are drawn alone, too: only then the output says what each costs."""


def simulated(case: Case, seed: int, natjam: Natjam, folder: Path) -> Iterator[Named]:
    """One simulation."""
    options = ("--engine", "sim", "--seed", str(seed), "--repeats", "1", *settings(case.overrides))
    return run_tables(natjam, folder, f"catalog:{case.source}", *options)


def turns(seed: int, natjam: Natjam, folder: Path) -> Iterator[Named]:
    """Jobs that take turns without end: what was decided until the run is given up, and why it is."""
    (folder / "turns.yaml").write_text(TURNS)
    return run_tables(natjam, folder, "turns.yaml", "--seed", str(seed))


def under_faults(source: str, seeds: int, natjam: Natjam, folder: Path) -> Iterator[Named]:
    """All kinds of faults together, and some kinds alone."""
    for name, kinds in (("all", ()), *((kind, ("--faults", kind)) for kind in FAULTS_ALONE)):
        options = ("--seeds", str(seeds), "--from", "1", *kinds, "--out", f"violations-{name}")
        yield name, printed_tables(natjam(folder, "chaos", f"catalog:{source}", *options).out)


def experiment_cases() -> Iterator[tuple[str, Take]]:
    """All of them, by name."""
    for seed in SEEDS:
        for case in CASES:
            yield f"{case.name}/{seed}", partial(simulated, case, seed)
        yield f"turns/{seed}", partial(turns, seed)
    for name, source, seeds in FAULTS:
        yield name, partial(under_faults, source, seeds)


# ---- a scheduler in another process ----

EXTERNAL = """\
name: external
engine: sim
overheads: none
cluster: {nodes: 2, containers_per_node: 3}
scheduler:
  allocation: {name: external, command: ["{python}", first_fit.py], answer_within_s: 60}
  mechanism: kill
workload:
  jobs:
    - {name: low, queue: default, maps: 1, map_s: 2, reduces: 6, reduce_s: {uniform: [0.5, 1], longest: 30}}
    - {name: middle, queue: default, priority: 2, submit_s: 5, maps: 2, map_s: 1, reduces: 4, reduce_s: [6, 20]}
    - {name: high, queue: default, priority: 5, submit_s: 10, reduces: 2, reduce_s: {uniform: [0.5, 1], longest: 10}}
"""


def external(overrides: Sequence[str], natjam: Natjam, folder: Path) -> Iterator[Named]:
    """First fit by priority, decided by the process that the documentation shows."""
    (folder / "external.yaml").write_text(EXTERNAL)
    shutil.copy(ROOT / "docs/examples/first_fit.py", folder)
    return run_tables(natjam, folder, "external.yaml", *settings(overrides))


def external_cases() -> Iterator[tuple[str, Take]]:
    """By when the process learns of what has happened, and by what happens to what it takes back."""
    for news in ("at-once", "heartbeat"):
        yield f"external-{news}", partial(external, (f"protocol.news={news}",))
    yield "external-suspend", partial(external, ("scheduler.mechanism=suspend", "overheads=hadoop-0.23"))


# ---- recorded sites ----

PLAYED_WAYS = ("--mode", "batch=SUSPEND", "--mode", "batch=CANCEL")


def slurm_site(natjam: Natjam, folder: Path) -> Iterator[Named]:
    """The site of the documentation: played with three modes, run with two mechanisms, compared, advised."""
    for source, name in (("slurm-site.conf", "slurm.conf"), ("slurm-site-jobs.txt", "sacct.txt")):
        shutil.copy(ROOT / "docs" / source, folder / name)
    yield from slurm(natjam, folder, *PLAYED_WAYS)
    natjam(folder, "run", "site.yaml", "--set", "scheduler.mechanism=checkpoint", "--out", "saved")
    yield from compared(natjam, folder, "run", "saved")
    yield from advised(natjam, folder)


def slurm_run(run: sites.Record, natjam: Natjam, folder: Path) -> Iterator[Named]:
    """A run of a real Slurm."""
    sites.write_slurm_run(run, folder)
    return slurm(natjam, folder)


def slurm(natjam: Natjam, folder: Path, *ways: str) -> Iterator[Named]:
    """A site of these files: imported, played and run."""
    imported = natjam(folder, "import", "slurm", "--conf", "slurm.conf", "--sacct", "sacct.txt", "--out", "site.yaml")
    yield "import", printed_lines(imported.out + imported.errors)
    yield from played(natjam, folder, *ways)
    yield from run_tables(natjam, folder, "site.yaml")


def kubernetes_site(natjam: Natjam, folder: Path) -> Iterator[Named]:
    """A cluster as kubectl prints it: who would be evicted for a pod, and what another priority would change."""
    for each in (DATA / "kubernetes/objects").iterdir():
        shutil.copy(each, folder)
    yield "who", printed_lines(natjam(folder, "who", "cluster.json", "db/postgres-1").out)
    yield from kubernetes(natjam, folder, "cluster.json", "rest.yaml")
    revalued = ("--class", "batch=5000", "--out", "after.yaml")
    natjam(folder, "import", "kubernetes", "cluster.json", "rest.yaml", *revalued)
    yield from compared(natjam, folder, "site.yaml", "after.yaml")


def kubernetes_day(day: sites.Record, natjam: Natjam, folder: Path) -> Iterator[Named]:
    """A day of kube-scheduler."""
    sites.write_kubernetes_day(day, folder / "day.json")
    return kubernetes(natjam, folder, "day.json")


def kubernetes(natjam: Natjam, folder: Path, *files: str) -> Iterator[Named]:
    """A cluster of these files: imported, played and run."""
    imported = natjam(folder, "import", "kubernetes", *files, "--out", "site.yaml")
    yield "import", printed_lines(imported.out + imported.errors)
    yield from played(natjam, folder)
    yield from run_tables(natjam, folder, "site.yaml")


def kubernetes_case(case: sites.Record, natjam: Natjam, folder: Path) -> Iterator[Named]:
    """Whom kube-scheduler would evict for a pod, or for a gang."""
    pod = sites.write_kubernetes_case(case, folder / "case.json")
    yield "who", printed_lines(natjam(folder, "who", "case.json", pod).out)


def kueue_site(natjam: Natjam, folder: Path) -> Iterator[Named]:
    """Kueue's objects with two workloads: run and advised."""
    for each in (DATA / "kueue/objects").iterdir():
        shutil.copy(each, folder)
    yield from kueue(natjam, folder, "queues.yaml", "workloads.json")
    yield from advised(natjam, folder)


def kueue_day(day: sites.Record, natjam: Natjam, folder: Path) -> Iterator[Named]:
    """A day of Kueue, or a circle of evictions, under Kueue's rules in whole machines."""
    sites.write_kueue_day(day, folder)
    return kueue(natjam, folder, "queues.json", "--arrivals", "arrivals.csv", release_s=day["release"])


def kueue(natjam: Natjam, folder: Path, *files: str, release_s: int = 0) -> Iterator[Named]:
    """Queues and workloads of these files: imported and run."""
    imported = natjam(folder, "import", "kueue", *files, "--out", "site.yaml")
    yield "import", printed_lines(imported.out + imported.errors)
    yield from run_tables(natjam, folder, "site.yaml", *settings([f"scheduler.allocation.release_s={release_s}"]))


SEARCH_S = 4
"""Real seconds of a search for a loop, which is found in a small part of that."""
LOOP_ENDS = "changes of one field"
"""Begins what is told after the loop and the changes that end it by argument; the rest depends on the time."""


def kueue_loops(seed: int, natjam: Natjam, folder: Path) -> Iterator[Named]:
    """A loop in the queues of the documentation: its story, and what kubectl can apply."""
    shutil.copy(ROOT / "docs/kueue-queues.yaml", folder)
    options = ("--seconds", str(SEARCH_S), "--seed", str(seed), "--out", "loop")
    natjam(folder, "loops", "kueue-queues.yaml", *options, statuses=(1,))
    story, _, _ = (folder / "loop/loop.txt").read_text().partition(LOOP_ENDS)
    yield "loop", printed_lines(story)
    for path in sorted((folder / "loop").glob("[0-9]*.yaml")):
        yield path.stem, printed_lines(path.read_text())


def played(natjam: Natjam, folder: Path, *ways: str) -> Iterator[Named]:
    """By the scheduler's rules alone: the table that is printed, and all starts and ends."""
    yield "play", printed_tables(natjam(folder, "play", "site.yaml", *ways, "--out", "played.csv").out)
    yield "played", csv_table(folder / "played.csv")


def compared(natjam: Natjam, folder: Path, before: str, after: str) -> Iterator[Named]:
    """Two runs, or two sites that are run first."""
    printed = natjam(folder, "compare", before, after, "--out", "compared").out
    yield "compare", document_table(json.loads((folder / "compared/compare.json").read_text()))
    yield "compare, printed", printed_tables(printed)


def advised(natjam: Natjam, folder: Path) -> Iterator[Named]:
    """Which way to preempt suits the site."""
    yield "advise", document_table(json.loads(natjam(folder, "advise", "site.yaml", "--json", "--out", "advice").out))


def site_cases() -> Iterator[tuple[str, Take]]:
    """The sites of the documentation, the recorded days and runs, and a part of the recorded cases."""
    yield "slurm-site", slurm_site
    yield "kubernetes-site", kubernetes_site
    yield "kueue-site", kueue_site
    for seed in SEEDS:
        yield f"kueue-loops/{seed}", partial(kueue_loops, seed)
    for name in ("runs-1", "runs-2"):
        for run in json.loads((ROOT / f"analysis/claims/slurm/{name}.json").read_text()):
            yield f"slurm-{name}/{run['config']}", partial(slurm_run, run)
    for day in sites.records(DATA / "kubernetes/days.jsonl.gz"):
        yield f"kubernetes-days/{day['name']}", partial(kubernetes_day, day)
    for name, every in (("cases", 8), ("gangs", 4)):
        for case in sites.records(DATA / f"kubernetes/{name}.jsonl.gz")[::every]:
            yield f"kubernetes-{name}/{case['name']}", partial(kubernetes_case, case)
    for name in ("ten-days", "loops"):
        for day in sites.records(DATA / f"kueue/{name}.jsonl.gz"):
            yield f"kueue-{name}/{day['name']}", partial(kueue_day, day)


# ---- broken experiment files ----

DAMAGED_FILES = 1500
FILES_OF_A_PROCESS = 400


def broken_files(natjam: Natjam) -> Iterator[bytes]:
    """Those of the tests, and files of the catalogue with damages that are drawn."""
    yield from (VALID.replace(part, change, 1).encode() for _, part, change, *_ in REFUSED_CHANGES)
    yield from (content for content, _ in NO_EXPERIMENTS)
    wholes = [(natjam.checkout / f"workloads/catalog/{case.source}.yaml").read_bytes() for case in CASES]
    for seed in range(DAMAGED_FILES):
        draw = random.Random(seed)
        yield damaged(draw, draw.choice(wholes), YAML_PIECES)


def validated(contents: Sequence[bytes], natjam: Natjam, folder: Path) -> Iterator[Named]:
    """What is said of some of them, by one process."""
    names = [f"{number:03}.yaml" for number in range(len(contents))]
    for name, content in zip(names, contents, strict=True):
        (folder / name).write_bytes(content)
    ended = natjam(folder, "validate", *names, statuses=(2,))
    yield "valid", printed_lines(ended.out)
    yield "refused", printed_lines(ended.errors.replace(str(folder), "FOLDER"))


def broken_cases(natjam: Natjam) -> Iterator[tuple[str, Take]]:
    """All files, in as few processes as keep the cores busy."""
    contents = [*broken_files(natjam)]
    for first in range(0, len(contents), FILES_OF_A_PROCESS):
        yield f"validate/{first:04}", partial(validated, contents[first : first + FILES_OF_A_PROCESS])


# ---- what is kept of a table, and how one differs ----


class Print(NamedTuple):
    """What is kept of a table."""

    columns: dict[str, str]
    """A digest of each column."""
    rows: str
    """A byte for each row, as base64: enough to find the first that differs, but for one in 256."""


def print_of(table: Columns, names: Iterable[str] | None = None) -> Print:
    """Of these columns, as far as they are there; None: of all."""
    columns = {name: table[name] for name in (table if names is None else names) if name in table}
    digests = {name: hashlib.sha256(_text(values)).hexdigest()[:8] for name, values in columns.items()}
    rows = (hashlib.blake2b(_text(row), digest_size=1).digest() for row in zip_longest(*columns.values()))
    return Print(digests, b64encode(b"".join(rows)).decode())


def _text(values: Iterable[Any]) -> bytes:
    return json.dumps(list(values), default=str).encode()


def difference(before: Print, table: Columns) -> str | None:
    """How a table differs from what was kept of it, in words; None: it does not."""
    now = print_of(table, before.columns)
    names = [name for name, digest in before.columns.items() if now.columns.get(name) != digest]
    if not names:
        return None
    theirs, ours = b64decode(before.rows), b64decode(now.rows)
    first = next((at for at, pair in enumerate(zip(theirs, ours, strict=False)) if pair[0] != pair[1]), None)
    at = min(len(theirs), len(ours)) if first is None else first
    shown = [*(name for name in before.columns if name not in names)][:6] + names[:10]
    cells = [f"{name}={table[name][at]!r}" for name in shown if at < len(table.get(name, ()))]
    what = f"{', '.join(names[:10])}{', ...' if len(names) > 10 else ''}"
    counts = f"{len(ours)} rows" + ("" if len(theirs) == len(ours) else f", {len(theirs)} when it was frozen")
    return f"{counts}; differs in {what}; first in row {at}: {', '.join(cells) or 'there is no such row now'}"


# ---- all of it ----


def cases_of(natjam: Natjam) -> dict[str, Take]:
    """All cases, by name; those that take longest come first, so that no core waits at the end."""
    return dict([*broken_cases(natjam), *experiment_cases(), *site_cases(), *external_cases()])


Taken = dict[str, Columns] | WrongEndError
"""The tables of a case, by name, or why there are none."""


def taken(natjam: Natjam, take: Take) -> Taken:
    """What a case leaves."""
    with tempfile.TemporaryDirectory(prefix="natjam-frozen-") as folder:
        try:
            return dict(take(natjam, Path(folder)))
        except WrongEndError as error:
            return error


def all_taken(natjam: Natjam) -> Iterator[tuple[str, Taken]]:
    """What each case leaves, by its name."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = {name: pool.submit(taken, natjam, take) for name, take in cases_of(natjam).items()}
        for name in tuple(runs):
            yield name, runs.pop(name).result()


def compare(natjam: Natjam) -> bool:
    """Print how each case differs from what was frozen; whether none does."""
    frozen = json.loads(FROZEN.read_text())
    count, same = 0, 0
    for name, found in all_taken(natjam):
        lines = [*differences(frozen.pop(name, {}), found)]
        print("".join(f"{name} {line}\n" for line in lines), end="", flush=True)
        count, same = count + 1, same + (not lines)
    for name in frozen:
        print(f"{name} is frozen, and no case any more")
    print(f"{same} of {count} cases as frozen")
    return same == count and not frozen


def differences(frozen: Mapping[str, Any], found: Taken) -> Iterator[str]:
    """How a case differs from what was kept of its tables, in words; tables may have come since."""
    if isinstance(found, WrongEndError):
        yield f"has ended: {found}"
        return
    if not frozen:
        yield "is not frozen"
    for table, kept in frozen.items():
        differs = difference(Print(**kept), found[table]) if table in found else "is not there"
        if differs:
            yield f"{table}: {differs}"


def freeze(natjam: Natjam) -> None:
    """Write what is kept of each case.  Raises WrongEndError."""
    cases = []
    for name, found in all_taken(natjam):
        if isinstance(found, WrongEndError):
            raise found
        tables = [
            f"  {json.dumps(table)}: {json.dumps(print_of(columns)._asdict())}" for table, columns in found.items()
        ]
        cases.append(f" {json.dumps(name)}: {{\n" + ",\n".join(tables) + "\n }")
    FROZEN.write_text("{\n" + ",\n".join(cases) + "\n}\n")


def claims(natjam: Natjam) -> dict[str, Any]:
    """A digest of the claims and cells of each figure of a reproduction with five seeds, without its pictures."""
    with tempfile.TemporaryDirectory(prefix="natjam-frozen-") as folder:
        natjam(
            Path(folder), "reproduce", *FIGURES, "--seeds", "5", "--engine", "sim", "--out", "claims", statuses=(0, 1)
        )
        made = json.loads((Path(folder) / "claims/claims.json").read_text())["figures"]
    texts = {figure["id"]: json.dumps([figure["claims"], figure["cells"]], sort_keys=True) for figure in made}
    return {figure: hashlib.sha256(text.encode()).hexdigest()[:16] for figure, text in texts.items()}


def compare_claims(natjam: Natjam) -> bool:
    """Print which figures differ from what was frozen; whether none does."""
    before, now = json.loads(FROZEN_CLAIMS.read_text()), claims(natjam)
    differing = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    for name in differing:
        print(f"{name}: frozen {before.get(name)}, now {now.get(name)}")
    print(f"{len(now) - len(differing)} of {len(now)} as frozen")
    return not differing


def main() -> int:
    """Compare with what is frozen, or write it; 1: something differs."""
    parser = argparse.ArgumentParser(description="Compare what natjam decides with what was frozen.")
    parser.add_argument("--checkout", type=Path, default=ROOT, help="the natjam that is measured [default: this one]")
    parser.add_argument("--claims", action="store_true", help="the claims and cells of quick reproductions")
    parser.add_argument("--write", action="store_true", help="freeze what is found, in place of comparing")
    given = parser.parse_args()
    natjam = Natjam(given.checkout.resolve())
    if not given.write:
        return 0 if (compare_claims if given.claims else compare)(natjam) else 1
    if given.claims:
        FROZEN_CLAIMS.write_text(json.dumps(claims(natjam), indent=1) + "\n")
    else:
        freeze(natjam)
    return 0


if __name__ == "__main__":
    sys.exit(main())
