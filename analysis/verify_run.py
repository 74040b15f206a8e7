"""The checks of ``natjam verify``: the files of a run must agree with each other, and its output with the seed.

The journal is checked against its end mark and replayed by fresh machines.  The tables are computed again from it, and
the summary from them.  The committed output is computed again.  The files of tables and pictures have the digests that
the summary gives, and the summary has its own, for what only the run itself could measure.  A campaign has the runs of
its plan, and its table is the one that it wrote.  Each difference is one finding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pyarrow

from analysis.load import read_configuration, read_table
from analysis.run_paths import find_runs, read_repeats, read_summary
from analysis.verify import verify_output
from emulator.campaign.directory import DIGESTS_NAME, PLAN_NAME, RUNS_NAME, TABLE_NAME, CampaignDirectory
from emulator.campaign.worker import FAILURE_NAME
from emulator.errors import ConfigError, NatjamError, RunError, printable
from emulator.experiment.load import load_experiment
from emulator.records.history import History, HistoryBuilder
from emulator.records.parquet_tables import ROW_TYPES, tables_of
from emulator.records.replay import replay_journal, whole_records
from emulator.records.run_directory import (
    EXPERIMENT_NAME,
    JOURNAL_NAME,
    SUMMARY_DIGEST,
    SUMMARY_NAME,
    RunDirectory,
    has_sha256,
    summary_digest,
)
from emulator.records.summary import (
    FAILED,
    FINISHED,
    build_summary,
    summarise_repeats,
    what_was_checked,
    what_was_not_checked,
)
from emulator.resolved import Resolved, resolve
from emulator.storage.places import output_at, place_at
from emulator.vocabulary import counted

_MEASURED = ("lag", "machines", "real_s", "versions")
"""Values of a summary that only the run itself could measure."""
_LEFT_BY_EVERY_RUN = {EXPERIMENT_NAME, JOURNAL_NAME, *(f"{name}.parquet" for name in ROW_TYPES)}


@dataclass(slots=True)
class Checked:
    """One run, and its findings."""

    path: Path
    findings: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """What is correct, in words."""


def verify_runs(path: Path) -> Iterator[Checked]:
    """Check every run at ``path``, one after the other, and the summaries of repeats.

    Raises:
        ConfigError: there is no finished run.
    """
    campaigns: dict[Path, CampaignDirectory] = {}
    for run in find_runs([path]):
        checked = Checked(run.path)
        _check(checked)
        if (place := _campaign_of(run.path)) is not None:
            campaign = campaigns.setdefault(place, CampaignDirectory(place))
            if (replaced := campaign.kept.replaced(_name_in(place, run.path), run.path)) is not None:
                checked.findings.append(f"{run.path}: {replaced} since the campaign has made it")
        yield checked
    for place, campaign in campaigns.items():
        if campaign.is_one and place.is_relative_to(path.absolute()):
            checked = Checked(path if place == path.absolute() else place)
            _check_campaign(checked, campaign)
            yield checked
    if (together := read_repeats(path)) is not None:
        checked = Checked(path)
        _check_repeats(checked, together)
        yield checked


def _campaign_of(run: Path) -> Path | None:
    """The directory of the campaign that has made a run, or of another command that keeps digests; None: of none."""
    above = run.absolute().parents
    return next((place for place in above if any((place / name).is_file() for name in (DIGESTS_NAME, PLAN_NAME))), None)


def _name_in(campaign: Path, run: Path) -> str:
    campaign, run = campaign.absolute(), run.absolute()
    below = campaign / RUNS_NAME
    return run.relative_to(below if run.is_relative_to(below) else campaign).as_posix()


def _check_campaign(checked: Checked, campaign: CampaignDirectory) -> None:
    """Compare plan, runs and table: what the plan has is there, and nothing else is."""
    path = checked.path
    try:
        planned = campaign.planned()
    except ConfigError as error:
        checked.findings.append(error.message)
        return
    made = {_name_in(path, run.path): run.path for run in find_runs([path])}
    gone = [name for name in planned if name not in made and not (path / RUNS_NAME / name / FAILURE_NAME).exists()]
    lost = [name for name in gone if campaign.kept.of(name) is not None]
    checked.findings += [f"{path / RUNS_NAME / name}: has no {SUMMARY_NAME}, but was made" for name in lost]
    if not_made := len(gone) - len(lost):
        checked.said.append(f"NOT checked: {counted(not_made, 'run')} of the plan, not made")
    for name, run in made.items():
        if name not in planned:
            checked.findings.append(f"{run}: the campaign has not planned it")
        elif campaign.kept.of(name) is None:
            checked.findings.append(f"{run}: {DIGESTS_NAME} has no digest of it")
    table, digest = path / TABLE_NAME, campaign.kept.of(TABLE_NAME)
    if digest is None and table.exists():
        checked.said.append(f"NOT checked: {TABLE_NAME}: no digest of it in {DIGESTS_NAME}")
    elif digest is not None and not has_sha256(table, digest):
        how = "is not the table that the campaign wrote" if table.exists() else "is missing"
        checked.findings.append(f"{table}: {how}")
    elif digest is not None:
        checked.said.insert(0, "the table of all runs has its digest")
    checked.said.insert(0, f"{counted(len(made), 'run')}, all planned")


def _check(checked: Checked) -> None:
    """Check one run.  If a step cannot be done, the steps that need its result are left out."""
    try:
        summary = read_summary(checked.path)
    except ConfigError as error:
        checked.findings.append(error.message)
        return
    _check_by_journal(checked, summary)
    _check_digest_of(checked, summary)


def _check_by_journal(checked: Checked, summary: Mapping[str, Any]) -> None:
    path = checked.path
    try:
        read_configuration(path)
        run = resolve(load_experiment(path / EXPERIMENT_NAME))
        journal = RunDirectory(path).found_journal()
        if run.experiment.journal == "off" and journal is None:
            checked.said.append(
                "NOT checked: whether tables and summary are right: there is no journal (sim.journal: off)"
            )
            _check_files(checked, summary)
            return
        journal = journal or RunDirectory(path).journal_path
        if run.experiment.engine == "fluid":
            checked.said.append("NOT replayed, nor the summary made again: a fluid run has no machines")
            _check_tables(checked, _folded(journal, run).finish())
            _check_files(checked, summary)
            return
        replayed = replay_journal(journal)
    except NatjamError as error:
        checked.findings += error.message.splitlines()
        return
    if replayed.difference is not None:
        checked.findings += [f"{replayed.journal}: {line.strip()}" for line in str(replayed.difference).splitlines()]
        return
    checked.said.append(f"{counted(replayed.records, 'record')} replayed")
    builder = _folded(journal, run)
    digests, cancelled = builder.program_digests, builder.cancelled
    history = builder.finish()
    _check_tables(checked, history)
    output = _check_output(checked, run, summary, digests, cancelled)
    again = _built_again(history, run, summary, output)
    del again["lag"]  # it is in no other file
    _check_summary(checked, again, summary)
    others = {*_MEASURED, *summary.keys() - again.keys()} - {"files", SUMMARY_DIGEST}
    checked.said.append(f"NOT made again, as it is in no other file: {', '.join(sorted(others))}")
    _check_files(checked, summary)


def _folded(journal: Path, run: Resolved) -> HistoryBuilder:
    history = HistoryBuilder(run.jobs, run.own_evictions)
    for record in whole_records(journal, run):
        history.add(record)
    return history


def _check_tables(checked: Checked, history: History) -> None:
    right = 0
    for name, expected in tables_of(history).items():
        file = checked.path / f"{name}.parquet"
        try:
            found = read_table(checked.path, name)
        except ConfigError as error:
            checked.findings.append(error.message)
            continue
        if found.equals(expected):
            right += 1
        else:
            checked.findings.append(f"{file}: {_difference(expected, found)}")
    checked.said.append(f"{right} tables agree with the journal")


def _check_files(checked: Checked, summary: Mapping[str, Any]) -> None:
    """Compare tables and pictures with their digests; a table whose rows differ has its finding already."""
    digests: Mapping[str, str] | None = summary.get("files")
    if digests is None:
        checked.said.append("NOT checked: pictures, and what tables hold beside their rows: no digests in the summary")
        return
    right, found = 0, "\n".join(checked.findings)
    without = sorted(RunDirectory(checked.path).summed() - digests.keys())
    checked.findings += [
        f"{checked.path / SUMMARY_NAME}: has no digest of {name}" for name in without if name in _LEFT_BY_EVERY_RUN
    ]
    if others := [name for name in without if name not in _LEFT_BY_EVERY_RUN]:
        checked.said.append(f"NOT checked: {', '.join(map(printable, others))}: no digest in the summary")
    for name, digest in digests.items():
        file = checked.path / name
        if f"{file}:" in found:
            continue
        if not file.is_file():
            checked.findings.append(f"{file}: is missing")
            continue
        is_right = has_sha256(file, digest)
        right += is_right
        if not is_right:
            checked.findings.append(f"{file}: is not the file that the run wrote: its SHA-256 in the summary differs")
    checked.said.append(f"{right} files have their digests")


def _difference(expected: pyarrow.Table, found: pyarrow.Table) -> str:
    if len(expected) != len(found):
        return f"has {counted(len(found), 'row')}, but the journal gives {len(expected)}"
    if more := [name for name in found.column_names if name not in expected.column_names]:
        return f"has a column '{more[0]}' that no run writes"
    for name in expected.column_names:
        pairs = zip(expected.column(name).to_pylist(), found.column(name).to_pylist(), strict=True)
        for row, (one, other) in enumerate(pairs, start=1):
            if one != other:
                return f"row {row}: {name} is {other!r:.80}, but the journal gives {one!r:.80}"
    return "has its columns in another order"


def _check_output(
    checked: Checked,
    run: Resolved,
    summary: Mapping[str, Any],
    digests: Mapping[tuple[str, int], str],
    cancelled: Collection[str],
) -> dict[str, Any] | None:
    if summary["output"] is None:
        is_live = run.experiment.engine == "live"
        checked.said.append("NOT checked: the output, as the run did not end" if is_live else "no output: simulated")
        return None
    root = output_at(run.experiment.storage.url, RunDirectory(checked.path).output_path)
    try:
        with place_at(root).files() as files:
            output = verify_output(run.jobs, run.experiment.seed, files, digests, cancelled=cancelled).to_summary()
    except RunError as error:
        checked.findings.append(error.message)
        return summary["output"]
    for kind, said in (
        ("differing", "differs from what the seed gives"),
        ("missing", "is missing"),
        ("extra", "is unexpected"),
    ):
        checked.findings += [f"{root}/{name}: {said}" for name in output[kind]]
        if output[f"files_{kind}"] > len(output[kind]):
            more = output[f"files_{kind}"] - len(output[kind])
            checked.findings.append(f"{root}: each of {more} further files {said}")
    if output["verified"]:
        checked.said += [said] if (said := what_was_checked(output)) else []
        checked.said += [f"NOT checked: {unchecked}"] if (unchecked := what_was_not_checked(output)) else []
    return output


def _built_again(
    history: History, run: Resolved, summary: Mapping[str, Any], output: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The summary from journal, experiment and output; values that only the run itself could measure are copied."""
    return build_summary(
        history,
        run,
        state=FAILED if "reason" in summary else FINISHED,
        versions=summary["versions"],
        machines=summary["machines"],
        real_s=summary["real_s"],
        lag=summary["lag"] or {},
        output=output,
    )


def _check_summary(checked: Checked, expected: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    file = checked.path / SUMMARY_NAME
    before = len(checked.findings)
    _compare(checked, file, "", msgspec.json.decode(msgspec.json.encode(expected)), found)
    if len(checked.findings) == before:
        checked.said.append("the summary agrees")


def _check_digest_of(checked: Checked, summary: Mapping[str, Any]) -> None:
    """Compare a summary with its own digest; one with other findings needs none more."""
    file = checked.path / SUMMARY_NAME
    if any(finding.startswith(f"{file}: ") for finding in checked.findings):
        return
    own = summary.get(SUMMARY_DIGEST)
    if own is None:
        checked.findings.append(f"{file}: has no digest of itself ('{SUMMARY_DIGEST}'), as every run writes it")
    elif own != summary_digest(summary):
        checked.findings.append(f"{file}: is not as the run wrote it: its own digest ('{SUMMARY_DIGEST}') differs")
    else:
        checked.said.append("the summary has its digest")


def _compare(checked: Checked, file: Path, where: str, expected: Any, found: Any) -> None:
    """One finding for each value that differs, or that no run writes; what else a summary has at its top is left."""
    if isinstance(expected, dict) and isinstance(found, dict):
        if where and (more := sorted(found.keys() - expected.keys())):
            checked.findings.append(f"{file}: {where} has a '{printable(more[0])}' that no run writes")
        for key, value in expected.items():
            _compare(checked, file, f"{where}.{key}" if where else key, value, found.get(key))
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for place, (one, other) in enumerate(zip(expected, found, strict=True)):
            _compare(checked, file, f"{where}.{place}", one, other)
    elif expected != found:
        checked.findings.append(f"{file}: {where} is {found!r:.80}, but the tables give {expected!r:.80}")


def _check_repeats(checked: Checked, found: Mapping[str, Any]) -> None:
    paths = sorted(checked.path.glob("repeat-*"), key=lambda path: int(path.name.partition("-")[2]))
    try:
        expected = summarise_repeats([read_summary(path) for path in paths])
    except NatjamError as error:
        checked.findings += error.message.splitlines()
        return
    _check_summary(checked, expected, found)
    _check_digest_of(checked, found)
