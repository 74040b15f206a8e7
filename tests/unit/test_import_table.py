"""Tables with named columns, CSV and Parquet, as traces."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from emulator.errors import ConfigError
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.vocabulary import HOUR_NS
from tests.commands import run_natjam
from tests.experiment_files import VALID, write
from tests.traces import read
from workloads.errors import Problems, TraceError
from workloads.importers import guess_format, open_trace
from workloads.inspection import inspect_trace
from workloads.record import WorkloadTask

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs"))  # where the programs are that make its pages

from trace_tables import fields_table, native_table

SACCT = """\
JobID|Submit|Start|End|Elapsed|NCPUS|Partition|ReqMem
1|2026-03-01T10:00:00|2026-03-01T10:01:00|2026-03-01T11:01:00|01:00:00|8|gpu|4
2|2026-03-01T10:05:00|2026-03-01T10:06:00|2026-03-02T10:06:00|1-00:00:00|2|long|4
3|2026-03-01T10:07:00|||00:00:00|2|long|4
"""
COLUMNS = {"submit": "Submit", "length": "Elapsed", "tasks": "NCPUS", "queue": "Partition", "memory_gb": "ReqMem"}
SUBMIT_NS = int(datetime(2026, 3, 1, 10, tzinfo=UTC).timestamp()) * 10**9


def table(folder: Path, text: str) -> Path:
    path = folder / "jobs.csv"
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_slurms_sacct_prints(tmp_path: Path, separator: str, end: str) -> None:
    path = table(tmp_path, SACCT.replace("|", separator).replace("\n", end))
    found = read(path, "table", columns={**COLUMNS, "start": "Start", "finish": "End"})
    one, two = found.jobs
    assert (one.job, one.submit_ns, one.queue, one.memory_bytes) == ("row-1", SUBMIT_NS, "gpu", 4 * 2**30)
    assert (one.start_ns, one.finish_ns) == (SUBMIT_NS + 60 * 10**9, SUBMIT_NS + 60 * 10**9 + HOUR_NS)
    assert one.tasks == (WorkloadTask("reduce", HOUR_NS, start_ns=one.start_ns),) * 8
    assert two.lengths_ns("reduce") == (24 * HOUR_NS,) * 2
    assert found.facts == {"rows": 3, "jobs that never ran, left out": 1}


def test_columns_named_like_fields_need_no_naming_and_numbers_have_units(tmp_path: Path) -> None:
    text = '\ufeffjob,submit_ms,length,priority\n"a, b",1500,0.25,-3\nc,1e3,2,\n'
    first, second = read(table(tmp_path, text), "table").jobs
    assert (first.job, first.submit_ns, first.priority) == ("a, b", 1_500_000_000, -3)
    assert first.lengths_ns("reduce") == (250_000_000,)
    assert (second.submit_ns, second.priority) == (10**9, None)


def test_parquet_with_types_of_its_own_is_the_same(tmp_path: Path) -> None:
    zone = timezone(timedelta(hours=1))
    rows = [
        {"Submit": datetime(2026, 3, 1, 11, tzinfo=zone), "Elapsed": timedelta(hours=1), "n": 8, "q": "gpu"},
        {"Submit": datetime(2026, 3, 1, 12, tzinfo=zone), "Elapsed": None, "n": 8, "q": "gpu"},
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "jobs.parquet")
    assert guess_format(tmp_path / "jobs.parquet") == "table"
    given = {"submit": "Submit", "length": "Elapsed", "tasks": "n", "queue": "q"}
    (job,) = read(tmp_path / "jobs.parquet", "table", columns=given).jobs
    (first, *_) = read(table(tmp_path, SACCT), "table", columns=COLUMNS).jobs
    assert (job.submit_ns, job.queue, job.tasks) == (first.submit_ns, first.queue, first.tasks)
    with pytest.raises(TraceError, match="is Parquet, but no workload of natjam: give --format table"):
        read(tmp_path / "jobs.parquet", "natjam")


@pytest.mark.parametrize(
    ("columns", "change", "said"),
    [
        ({}, ("", ""), ":1: columns: none is known for submit (when it was submitted); --columns submit=COLUMN"),
        ({"submit": "Submit"}, ("", ""), "none is known for length (how long each of its tasks took; or give"),
        ({"submit": "Sbmit"}, ("", ""), ":1: columns: submit=Sbmit: there is no such column; did you mean 'Submit'?"),
        (COLUMNS, ("01:00:00", "1 h"), ":2: Elapsed: '1 h' is neither a number nor [DAYS-]HOURS:MINUTES:SECONDS"),
        (COLUMNS, ("2026-03-01T10:05:00", "first"), ":3: Submit: 'first' is neither a number nor a date as in"),
        (COLUMNS, ("|8|", "|8.5|"), ":2: NCPUS: '8.5' is not a whole number from 0 to 100000"),
        (COLUMNS, ("|2|long|4\n3", "|2|long\n3"), ":3: 7 fields, not 8 as in the first line"),
        ({**COLUMNS, "job": "Partition"}, ("|gpu", "|long"), ":3: Partition: 'long' is already the name of an earlier"),
        ({**COLUMNS, "start": "Start"}, ("T10:06", "T09:06"), ":3: Start: 2026-03-01T09:06:00 is before the job was"),
        (COLUMNS, ("JobID", "Submit"), ":1: two columns are called 'Submit'; rename one"),
        (
            {**COLUMNS, "job": "Partition"},
            (
                "|gpu|4\n2|2026-03-01T10:05:00|2026-03-01T10:06:00|2026-03-02T10:06:00|1-00:00:00|2|long|4",
                "|row-2|4\n2|2026-03-01T10:05:00|||01:00:00|2||4",
            ),
            ":3: Partition: 'row-2' is already the name of",
        ),
        (COLUMNS, ("JobID", '"JobID'), ":1: is not CSV: "),
        ({**COLUMNS, "submit_ms": "Start"}, ("", ""), "submit_ms=Start: submit is given twice; keep one"),
    ],
)
def test_what_is_wrong_is_said_with_line_and_column(
    tmp_path: Path, columns: dict[str, str], change: tuple[str, str], said: str
) -> None:
    path = table(tmp_path, SACCT.replace(*change, 1) if change[0] else SACCT)
    with pytest.raises(TraceError) as caught:
        read(path, "table", columns=columns)
    assert caught.value.message.startswith(f"{path}:")
    assert said in caught.value.message


def test_the_page_has_the_tables_that_the_code_makes(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "traces.md").read_text()
    for made in (fields_table(), native_table()):
        assert made in page, "python docs/trace_tables.py prints them"
    (own,) = re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "own.jsonl").write_text(own)
    assert [job.job for job in read(tmp_path / "own.jsonl", "natjam").jobs] == ["a"]


def test_an_experiment_names_the_columns(tmp_path: Path) -> None:
    table(tmp_path, SACCT)
    trace = "{format: table, path: jobs.csv, columns: {submit: Submit, length: Elapsed, tasks: NCPUS},"
    text = VALID.partition("workload:")[0] + f"workload: {{trace: {trace} production_fraction: 1}}}}\n"
    jobs = expand(load_experiment(write(tmp_path, text)), 1)
    assert [len(job.reduce_ns) for job in jobs] == [8, 2]
    for old, new, said in (
        ("submit: Submit", "sbmit: x", "'sbmit' is no field of a job; did you mean 'submit'?"),
        ("format: table", "format: swim", "columns are for format: table, not for swim"),
    ):
        with pytest.raises(ConfigError, match=re.escape(said)):
            load_experiment(write(tmp_path, text.replace(old, new)))


def test_the_command_line_names_the_columns(tmp_path: Path) -> None:
    path, out = table(tmp_path, SACCT), tmp_path / "out.parquet"
    named = [f"{field}={column}" for field, column in COLUMNS.items()]
    options = ["--columns", ",".join(named[:2]), "--columns", ",".join(named[2:])]
    run_natjam("workload", "convert", path, out, *options)
    assert guess_format(out) == "natjam"
    assert [job.queue for job in read(out, "natjam").jobs] == ["gpu", "long"]
    for option, said in (
        ("submt=Submit", "'submt' is no field of a job; did you mean 'submit'?"),
        ("submit", "write FIELD=COLUMN"),
        ("submit=a,submit=b", "submit is given twice"),
    ):
        refused = run_natjam("workload", "convert", path, out, "--columns", option, status=2)
        assert said in refused.stderr


def test_tasks_ask_for_what_the_table_says_in_a_cluster_of_several_sizes(tmp_path: Path) -> None:
    table(tmp_path, "job,submit,length,tasks,cpu,memory_gb,gpu\na,0,60,2,1.5,4,1\nb,5,60,1,,,\n")
    workload = "trace: {format: table, path: jobs.csv, production_fraction: 0.5}"
    text = SIZED_CLUSTER.replace("WORKLOAD", workload)
    jobs = expand(load_experiment(write(tmp_path, text)), 1)
    asked = {job.name: (job.facts.groups[-1].request, job.facts.memory_bytes) for job in jobs}
    assert asked == {"a": ((1500, 4000, 1000), 4 * 2**30), "b": ((1000, 1000, 0), 2**30)}


def test_requests_are_inspected_task_by_task(tmp_path: Path) -> None:
    path = table(tmp_path, "job,submit,length,tasks,cpu,memory_gb,gpu\na,0,60,2,1.5,4,1\nb,5,60,1,,,\n")
    found = inspect_trace(open_trace(path, "table", Problems())).distributions
    assert (found["processor request"].count, found["processor request"].most) == (2, 1.5)
    assert (found["memory request"].count, found["GPU request"].most) == (2, 1)


@pytest.mark.parametrize(
    ("cpu", "gpu", "message"),
    [
        ("9", "0", "job a: a task asks for 9 cpu, 4 memory_gb, and fits no empty node; add larger nodes"),
        ("0.0001", "0", "'0.0001' is not a number from 0 to 100000 with at most three decimals"),
        ("1", "3", "job a: a task asks for 1 cpu, 4 memory_gb, 3 gpu, and fits no empty node"),
    ],
)
def test_what_fits_no_node_is_refused(tmp_path: Path, cpu: str, gpu: str, message: str) -> None:
    table(tmp_path, f"job,submit,length,cpu,memory_gb,gpu\na,0,60,{cpu},4,{gpu}\n")
    workload = "trace: {format: table, path: jobs.csv, production_fraction: 0.5}"
    experiment = load_experiment(write(tmp_path, SIZED_CLUSTER.replace("WORKLOAD", workload)))
    with pytest.raises(TraceError, match=re.escape(message)):
        expand(experiment, 1)


SIZED_CLUSTER = """\
name: sized
engine: sim
overheads: hadoop-0.23
cluster:
  node_groups: [{count: 2, resources: {cpu: 8, memory_gb: 16, gpu: 2}}]
scheduler:
  allocation: {name: two-queue, queues: {production: {capacity: 0.25}, research: {capacity: 0.75}}}
  mechanism: checkpoint
workload:
  WORKLOAD
"""
