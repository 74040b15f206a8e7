"""Digests of what natjam decides, before and after a change that must change no decision: ``make frozen``.

Twenty experiments, three seeds each, are simulated.  Of each there is one digest of its tables and one of the sequence
of its decisions: who got what, who was asked, stopped, saved, resumed, killed, and when.  A third digest is of the
messages of ``natjam validate`` about many broken files.  They are compared with ``tests/data/frozen.json``; a table may
have more columns than when it was frozen.

``make frozen-claims`` does the same for the claims and cells of quick reproductions of ``FIGURES``.  The others take
hours, or rest on what this machine takes (OS-assisted preemption), or measure real time (``flex/decision``).

A change that means to change a decision says so in the changelog and writes the file anew (``--write``).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests/unit")]  # this is a program, not a test

from damage import YAML_PIECES, damaged  # noqa: E402
from experiment_files import TURNS, VALID, complaints  # noqa: E402

from emulator.chaos.faulty_cluster import FaultyCluster  # noqa: E402
from emulator.chaos.schedule import FaultKind, draw_faults  # noqa: E402
from emulator.core import effects as fx  # noqa: E402
from emulator.core.messages import ApplicationHeartbeatResponse  # noqa: E402
from emulator.errors import EndlessPreemptionError  # noqa: E402
from emulator.experiment.expand import expand  # noqa: E402
from emulator.experiment.load import load_experiment  # noqa: E402
from emulator.records.history import HistoryBuilder  # noqa: E402
from emulator.records.journal import Record  # noqa: E402
from emulator.records.parquet_tables import tables_of  # noqa: E402
from emulator.resolved import resolve  # noqa: E402
from emulator.run.run import without_collector  # noqa: E402
from emulator.sim.cluster import SimulatedCluster  # noqa: E402
from emulator.sim.session import MakeCluster, simulate  # noqa: E402

FROZEN = ROOT / "tests/data/frozen.json"
FROZEN_CLAIMS = ROOT / "tests/data/frozen-claims.json"
CATALOGUE = ROOT / "workloads/catalog"
SEEDS = (1, 2, 3)
FIGURES = (
    *(f"natjam/{figure}" for figure in ("fig3", "fig4", "fig5", "fig6", "fig6-lrt", "fig10")),
    *(f"adaptive-checkpointing/{figure}" for figure in ("fig2", "fig2b", "table3", "fig4", "fig6", "sensitivity")),
    *(f"flex/{figure}" for figure in ("fig4", "fig5a", "base")),
    *(f"reverse-adaptive/{figure}" for figure in ("fig1", "fig3")),
    *(f"yarn/{figure}" for figure in ("mechanisms", "recorded")),
)
DAMAGED_FILES = 1500


class Case(NamedTuple):
    """One experiment: a file of the catalogue (or the text of one), what is set in it, and whether faults are drawn."""

    name: str
    source: str
    overrides: tuple[str, ...] = ()
    chaos: bool = False


def _fig4(name: str, *overrides: str, chaos: bool = False) -> Case:
    return Case(name, "natjam-fig4", overrides, chaos)


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
    _fig4("chaos", chaos=True),
    Case("three-jobs", "natjam-fig10"),
    Case("deadlines", "natjam-fig11"),
    Case("microbenchmark", "natjam-microbenchmark"),
    Case("facebook", "facebook-50", ("scheduler.job_eviction=pr", "protocol.speculation={after_s: 20}")),
    Case("facebook-chaos", "facebook-50", chaos=True),
    Case("flex", "flex-fig4"),
    Case("images", "ckpt-facebook", ("workload.only.jobs=[low-1, high-1, low-2, high-2]",)),
    Case("adaptive", "ckpt-kmeans"),
    Case("suspended-memory", "os-assisted-cluster"),
    Case("reverse-adaptive", "reverse-adaptive-tasks"),
    Case("yarn", "yarn-recorded"),
    Case("turns", TURNS),
)


def decisions(records: Iterable[Record]) -> Iterator[tuple[Any, ...]]:
    """The decisions of a run as plain values, in order; an answer that is repeated counts once."""
    answered: dict[str, int] = {}
    for record in records:
        for effect in record.effects:
            at = (record.t_ns, record.actor)
            if isinstance(effect, fx.Send) and isinstance(effect.message, ApplicationHeartbeatResponse):
                answer = effect.message.answer
                if answer is not None and answer.id > answered.get(effect.to, -1):
                    answered[effect.to] = answer.id
                    for given in answer.allocated:
                        yield (*at, "gives", effect.to, given.container, given.group, given.node)
                    if answer.reclaim or answer.named or answer.withdrawn:
                        yield (*at, "asks back", effect.to, answer.reclaim, answer.named, answer.withdrawn)
            elif isinstance(effect, fx.ExplainJobEviction):
                yield (*at, "chooses jobs", effect.requester, effect.rule, effect.victims)
            elif isinstance(effect, fx.ExplainTaskEviction):
                chosen = tuple(task.container for task in effect.candidates[: effect.victims])
                yield (*at, "chooses tasks", effect.job, effect.rule, chosen)
            elif isinstance(effect, fx.Launch):
                yield (*at, "starts", effect.container, effect.attempt, effect.saved is not None)
            elif isinstance(effect, fx.Suspend | fx.Resume | fx.Checkpoint | fx.Dump | fx.Kill):
                yield (*at, type(effect).__name__.lower(), effect.container)


def simulated(case: Case, seed: int, columns: dict[str, list[str]] | None) -> dict[str, Any]:
    """Digests of one simulation; ``columns``: those of each table that count, all without it."""
    with tempfile.TemporaryDirectory() as folder:
        path = CATALOGUE / f"{case.source}.yaml"
        if "\n" in case.source:
            path = Path(folder) / "experiment.yaml"
            path.write_text(case.source)
        overrides = ["engine=sim", f"seed={seed}", "repeats=1", *case.overrides]
        experiment = load_experiment(path, overrides)
        if experiment.overheads == "native":  # each machine has its own
            experiment = load_experiment(path, [*overrides, "overheads=hadoop-0.23"])
        jobs = expand(experiment, seed)
    history, records = HistoryBuilder(jobs), list[Record]()

    def take(news: Iterable[Record]) -> None:
        for record in news:  # one by one: no more is taken once preemption has no end
            records.append(record)
            history.follow([record])

    with without_collector():
        make: MakeCluster = SimulatedCluster
        if case.chaos:
            span_ns = simulate(resolve(experiment, jobs), HistoryBuilder(jobs).follow).kernel.now_ns
            faults = draw_faults(seed, span_ns, tuple(FaultKind))
            make = partial(FaultyCluster, faults=faults, limit_ns=30 * span_ns)
        with contextlib.suppress(EndlessPreemptionError):  # what was decided until then is compared
            simulate(resolve(experiment, jobs), take, make_cluster=make)
    tables = tables_of(history.finish())
    digest = hashlib.sha256()
    for name, table in sorted(tables.items()):
        counted = columns[name] if columns else table.column_names
        digest.update(json.dumps([name, *(table[column].to_pylist() for column in counted)]).encode())
    sequence = hashlib.sha256(b"".join(json.dumps(decision).encode() for decision in decisions(records)))
    names = {name: table.column_names for name, table in tables.items()}
    return {"tables": digest.hexdigest()[:16], "decisions": sequence.hexdigest()[:16], "columns": names}


def refusals() -> dict[str, Any]:
    """A digest of what is said about broken experiment files; a file's name is left out of it."""
    import test_config  # type: ignore

    marks = test_config.test_refused_with_file_line_and_field.pytestmark  # type: ignore
    texts = [VALID.replace(one.values[0], one.values[1], 1).encode() for one in marks[0].args[1]]
    none_at_all = test_config.test_files_that_are_no_experiment.pytestmark  # type: ignore
    texts += [content for content, _ in none_at_all[0].args[1]]
    wholes = [(CATALOGUE / f"{case.source}.yaml").read_bytes() for case in CASES if "\n" not in case.source]
    for seed in range(DAMAGED_FILES):
        draw = random.Random(seed)
        texts.append(damaged(draw, draw.choice(wholes), YAML_PIECES))
    digest, refused = hashlib.sha256(), 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "experiment.yaml"
        for text in texts:
            path.write_bytes(text)
            lines = complaints(path)
            refused += bool(lines)
            digest.update(json.dumps(lines).replace(folder, "").replace(str(ROOT), "").encode())
    return {"messages": digest.hexdigest()[:16], "files": len(texts), "refused": refused}


def claims() -> dict[str, Any]:
    """A digest of the claims and cells of each figure of a quick reproduction, without its pictures."""
    with tempfile.TemporaryDirectory() as folder:
        natjam = [sys.executable, "-c", "from emulator.cli.script import main; main()"]
        command = [*natjam, "reproduce", *FIGURES, "--quick", "--engine", "sim", "--out", folder]
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        made = json.loads((Path(folder) / "claims.json").read_text())["figures"]
    texts = {figure["id"]: json.dumps([figure["claims"], figure["cells"]], sort_keys=True) for figure in made}
    return {figure: hashlib.sha256(text.encode()).hexdigest()[:16] for figure, text in texts.items()}


def experiments(columns: dict[str, list[str]] | None) -> dict[str, Any]:
    """All digests but those of the claims."""
    found: dict[str, Any] = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        messages = pool.submit(refusals)
        runs = {(case, seed): pool.submit(simulated, case, seed, columns) for case in CASES for seed in SEEDS}
        for (case, seed), run in runs.items():
            digests = run.result()
            found.setdefault("columns", columns or digests["columns"])
            found[f"{case.name}/{seed}"] = [digests["tables"], digests["decisions"]]
        found["validate"] = messages.result()
    return found


def main() -> int:
    """Compare with what is frozen, or write it; 1: something differs."""
    parser = argparse.ArgumentParser(description="Compare what natjam decides with what was frozen.")
    parser.add_argument("--claims", action="store_true", help="the claims and cells of quick reproductions")
    parser.add_argument("--write", action="store_true", help="freeze what is found, in place of comparing")
    given = parser.parse_args()
    path = FROZEN_CLAIMS if given.claims else FROZEN
    before = {} if given.write else json.loads(path.read_text())
    now = claims() if given.claims else experiments(before.get("columns"))
    if given.write:
        path.write_text(json.dumps(now, indent=1) + "\n")
    differing = [name for name in {**before, **now} if not given.write and before.get(name) != now.get(name)]
    for name in differing:
        print(f"{name}: frozen {before.get(name)}, now {now.get(name)}")
    print(f"{len(now) - len(differing)} of {len(now)} as frozen")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
