"""The verifier, and the map's generator, held against each other; damage of every kind is found and counted."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.verify import verify_output
from emulator.core.job import JobSpec, ProgramSpec
from emulator.live.tasks import mapper, partial_output, records
from emulator.live.tasks.mapper import JobData
from emulator.live.tasks.progress_page import SLOT_BYTES, SlotWriter
from emulator.live.tasks.task import TaskProcess
from emulator.records.summary import what_was_checked, what_was_not_checked
from emulator.storage.tree_digest import tree_digest
from emulator.vocabulary import JobFacts, map_reduce
from tests.examples import drawn
from tests.map_outputs import read_partition

SEED = 11


def task_of(params: dict[str, Any], descriptor: int) -> TaskProcess:
    """A task whose clock began with the machine: instants near 0 have passed."""
    slot = SlotWriter(memoryview(bytearray(SLOT_BYTES)).cast("Q"), 0)
    return TaskProcess({"origin_real_ns": 0, "scale": 1, **params}, slot, descriptor)


def job_spec(
    name: str, maps: int, reduce_keys: tuple[int, ...], shuffle_bytes: int | None, output_bytes: int | None
) -> JobSpec:
    return JobSpec(
        JobFacts(name, "research", map_reduce(maps, len(reduce_keys)), memory_bytes=1 << 30),
        submit_ns=0,
        map_ns=(1,) * maps,
        reduce_ns=tuple(10**9 * keys for keys in reduce_keys),
        reduce_keys=reduce_keys,
        shuffle_bytes=shuffle_bytes,
        output_bytes=output_bytes,
    )


def map_params(job: JobSpec, work: Path, output: Path, m: int) -> dict[str, Any]:
    return {
        "container_id": f"map_{m}",
        "task": m,
        "seed": SEED,
        "job": job.name,
        "maps": len(job.map_ns),
        "reduce_keys": list(job.reduce_keys),
        "shuffle_bytes": job.shuffle_bytes,
        "output_bytes": job.output_bytes,
        "map_only": not job.reduce_keys,
        "work_dir": str(work),
        "output_dir": str(output),
        "duration_ns": 0,
        "first_key_at_ns": 0,
    }


def run_maps(job: JobSpec, work: Path, output: Path) -> None:
    """All maps of a job, or of a job without any what stands in for them."""
    variants = [map_params(job, work, output, m) for m in range(len(job.map_ns))]
    if not job.map_ns:
        reduces = range(len(job.reduce_keys))
        variants = [{**map_params(job, work, output, 0), "only_partition": r} for r in reduces]
    with open(os.devnull, "wb") as reports:
        for params in variants:
            mapper.run_map(params, task_of(params, reports.fileno()))


def run_reduce(job: JobSpec, r: int, work: Path, output: Path, cut: int) -> None:
    """One reduce, checkpointed after ``cut`` keys."""
    path = records.input_path(str(work), job.name, r)
    if job.map_ns:
        directories = [records.map_directory(str(work), job.name, m) for m in range(len(job.map_ns))]
        assert records.merge([read_partition(d, r) for d in directories], path) == job.reduce_keys[r]
    for container, begin, end in (("a", 0, cut), ("b", cut, job.reduce_keys[r])):
        part = partial_output.PartialOutput(
            str(output), job.name, r, container, job.reduce_keys, job.output_bytes, begin
        )
        reader = records.KeyReader(path, begin)
        for _ in range(begin, end):
            part.append(*next(reader))
        reader.close()
        part.close()
    partial_output.commit(str(output), job.name, r, ["a", "b"], job.reduce_keys[r])


def run_job(job: JobSpec, directory: Path, cut: int = 0) -> Path:
    work, output = directory / "work", directory / "output"
    output.mkdir(parents=True, exist_ok=True)
    run_maps(job, work, output)
    for r, keys in enumerate(job.reduce_keys):
        run_reduce(job, r, work, output, min(cut, keys))
    return output


jobs = st.builds(
    job_spec,
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
    | st.sampled_from([".", "..", "_partial"]),
    st.integers(0, 5),
    st.lists(st.integers(1, 300), max_size=3).map(tuple),
    st.none() | st.integers(0, 300_000),
    st.none() | st.integers(0, 300_000),
)


@given(job=jobs, cut=st.integers(0, 300))
@drawn
def test_what_the_tasks_write_is_what_the_verifier_expects(
    job: JobSpec, cut: int, tmp_path_factory: pytest.TempPathFactory
):
    output = run_job(job, tmp_path_factory.mktemp("run"), cut)
    result = verify_output([job], SEED, output)
    assert result.verified, result
    assert result.files_expected == (len(job.reduce_keys) or len(job.map_ns))
    assert result.keys_expected == result.keys_written == sum(job.reduce_keys)
    assert result.keys_lost == result.keys_duplicated == 0


@given(job=jobs.filter(lambda job: len(job.reduce_keys) > 0))
@drawn
def test_maps_give_every_reduce_its_keys_and_the_job_its_bytes(job: JobSpec):
    maps = max(1, len(job.map_ns))
    data = JobData(SEED, job.name, maps, job.reduce_keys, job.shuffle_bytes)
    size = 0
    for r, keys in enumerate(job.reduce_keys):
        found: Counter[bytes] = Counter()
        for m in range(maps):
            partition = list(data.partition(m, r))
            assert [key for key, _ in partition] == sorted(key for key, _ in partition)
            found.update(key for key, _ in partition)
            size += sum(len(value) for _, value in partition)
        assert len(found) == keys
    if job.shuffle_bytes is not None:
        assert size == job.shuffle_bytes


def test_data_differs_by_seed_job_map_and_reduce():
    def values(seed: int, job: str, m: int, r: int) -> set[bytes]:
        return {value for _, value in JobData(seed, job, 2, (200, 200), None).partition(m, r)}

    variants = [
        values(1, "a", 0, 0),
        values(2, "a", 0, 0),
        values(1, "b", 0, 0),
        values(1, "a", 1, 0),
        values(1, "a", 0, 1),
    ]
    assert len(set.union(*variants)) == sum(map(len, variants))


@pytest.fixture
def finished(tmp_path: Path) -> tuple[list[JobSpec], Path]:
    """A job with reduces and a map-only job, run; (jobs, output directory)."""
    jobs = [job_spec("sort", 2, (5, 700), None, 100_000), job_spec("copy/1", 3, (), None, 200_000)]
    output = tmp_path / "output"
    for job in jobs:
        assert run_job(job, tmp_path, 3) == output
    assert verify_output(jobs, SEED, output).verified
    return jobs, output


def counts(jobs: list[JobSpec], output: Path) -> tuple[int, int, int]:
    result = verify_output(jobs, SEED, output)
    assert not result.verified
    assert result.keys_expected == 705
    return result.keys_written, result.keys_lost, result.keys_duplicated


def test_every_flipped_byte_is_caught(finished: tuple[list[JobSpec], Path]):
    jobs, output = finished
    small = [job_spec("sort", 2, (5,), None, None)]
    path = run_job(small[0], output.parent / "small") / "sort" / "part-r-00000"
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        assert verify_output(small, SEED, path.parent.parent).files_differing == ["sort/part-r-00000"]
    for name in ("sort/part-r-00001", "copy%2F1/part-m-00002"):
        path = output / name
        whole = path.read_bytes()
        path.write_bytes(whole[:-2] + b"?" + whole[-1:])
        assert verify_output(jobs, SEED, output).files_differing == [name]
        path.write_bytes(whole)


def test_lost_and_duplicated_keys_are_counted(finished: tuple[list[JobSpec], Path]):
    jobs, output = finished
    path = output / "sort" / "part-r-00001"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:300] + lines[301:]))
    assert counts(jobs, output) == (704, 1, 0)
    path.write_bytes(b"".join(lines[:300] + lines[299:]))
    assert counts(jobs, output) == (706, 0, 1)
    path.write_bytes(b"".join(lines[:300] + lines[299:300] + lines[301:]))
    assert counts(jobs, output) == (705, 1, 1)
    path.write_bytes(b"".join(lines[::-1]))
    assert counts(jobs, output) == (705, 0, 0)
    path.write_bytes(b"".join(lines)[:-1])
    assert counts(jobs, output) == (705, 0, 0)
    path.write_bytes(b"")
    assert counts(jobs, output) == (5, 700, 0)


def test_missing_and_extra_files_are_named(finished: tuple[list[JobSpec], Path]):
    jobs, output = finished
    (output / "sort" / "part-r-00000").unlink()
    (output / "sort" / "part-r-00002").write_bytes(b"")
    (output / "_partial" / "sort").mkdir(parents=True, exist_ok=True)
    (output / "_partial" / "sort" / "part-r-00001.c9").write_bytes(b"")
    os.symlink("/etc", output / "link")
    result = verify_output(jobs, SEED, output)
    assert not result.verified
    assert result.files_missing == ["sort/part-r-00000"]
    assert result.files_extra == ["_partial/sort/part-r-00001.c9", "link", "sort/part-r-00002"]
    assert (result.keys_lost, result.keys_written) == (5, 700)
    summary = result.to_summary()
    assert summary["verified"] is False
    assert (summary["files_missing"], summary["files_extra"], summary["files_differing"]) == (1, 3, 0)


def test_of_a_cancelled_job_only_what_it_has_committed_is_compared(finished: tuple[list[JobSpec], Path]):
    jobs, output = finished
    (output / "sort" / "part-r-00000").unlink()
    (output / "_partial" / "sort").mkdir(parents=True, exist_ok=True)
    (output / "_partial" / "sort" / "part-r-00000.c9").write_bytes(b"begun")
    result = verify_output(jobs, SEED, output, cancelled={"sort"})
    assert (result.verified, result.files_cancelled, result.keys_lost) == (True, 1, 0)
    assert what_was_not_checked(result.to_summary()) == "1 file that cancelled jobs had not committed"
    assert not verify_output(jobs, SEED, output).verified
    (output / "sort" / "part-r-00001").write_bytes(b"wrong")
    assert verify_output(jobs, SEED, output, cancelled={"sort"}).files_differing == ["sort/part-r-00001"]


def test_processes_find_the_same(finished: tuple[list[JobSpec], Path]):
    jobs, output = finished
    (output / "sort" / "part-r-00000").unlink()
    assert verify_output(jobs, SEED, output, processes=2) == verify_output(jobs, SEED, output)


def test_no_output_directory_at_all(tmp_path: Path):
    result = verify_output([job_spec("sort", 1, (4,), None, None)], SEED, tmp_path / "none")
    assert (result.verified, result.keys_lost, result.files_missing) == (False, 4, ["sort/part-r-00000"])


@pytest.mark.parametrize("reduce_keys", [(), (4,)], ids=["map-only", "reduces"])
def test_a_map_publishes_when_its_duration_is_over(tmp_path: Path, reduce_keys: tuple[int, ...]):
    """The duration counts from the later of launch and first_key_at_ns, and the first key is reported."""
    job = job_spec("sort", 1, reduce_keys, None, None)
    begin_real_ns = time.monotonic_ns()
    params = {
        **map_params(job, tmp_path / "work", tmp_path / "output", 0),
        "origin_real_ns": begin_real_ns,
        "scale": 100,
        "first_key_at_ns": 3 * 10**9,
        "duration_ns": 5 * 10**9,
    }
    reports_in, reports_out = os.pipe()
    mapper.run_map(params, task_of(params, reports_out))
    assert time.monotonic_ns() - begin_real_ns >= 80_000_000
    os.close(reports_out)
    with open(reports_in, "rb") as reports:
        (_, event, _), (_, last_event, fields) = msgpack.Unpacker(reports)
    assert event == "settled"
    assert (last_event, fields["real_ns"]) == ("first_key", begin_real_ns + 30_000_000)
    assert any(path.is_file() for path in tmp_path.rglob("part-m-00000" if not reduce_keys else "file.out.index"))


def test_a_rerun_map_writes_the_same_bytes(tmp_path: Path):
    job = job_spec("sort", 2, (40, 50), 200_000, None)
    for again in ("one", "two"):
        run_maps(job, tmp_path / again, tmp_path / "output")
    for m in range(2):
        name = Path("map", "sort", str(m), records.DATA_NAME)
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


class TestWhatIsNoOutputFile:
    """Something else stands where a committed file should be: a finding, neither a traceback nor a wait."""

    @pytest.mark.parametrize("kind", ["symlink", "dangling", "directory", "fifo", "linked-job"])
    def test_in_place_of_a_file(self, finished: tuple[list[JobSpec], Path], kind: str):
        jobs, output = finished
        path = output / "sort" / "part-r-00001"
        elsewhere = output.parent / "same-bytes"
        path.rename(elsewhere)
        if kind == "symlink":
            path.symlink_to(elsewhere)
        elif kind == "dangling":
            path.symlink_to(output.parent / "none")
        elif kind == "directory":
            path.mkdir()
        elif kind == "fifo":
            os.mkfifo(path)
        else:
            path.write_bytes(b"")
            path.unlink()
            path.parent.rename(output / "kept")
            path.parent.symlink_to(output / "kept")
            elsewhere.rename(output / "kept" / path.name)
        result = verify_output(jobs, SEED, output)
        assert not result.verified
        if kind == "linked-job":
            assert result.files_extra == ["kept/", "sort"]
        else:
            assert [name.partition(":")[0] for name in result.files_differing] == ["sort/part-r-00001"]
            assert (result.keys_lost, result.keys_written) == (700, 5)

    def test_directories_nobody_should_have_made(self, finished: tuple[list[JobSpec], Path]):
        jobs, output = finished
        for name in ("more/below", "sort/inside", "_partial/sort", "_partial2"):
            (output / name).mkdir(parents=True, exist_ok=True)
        (output / "more" / "below" / "file").write_bytes(b"")
        assert verify_output(jobs, SEED, output).files_extra == ["_partial2/", "more/", "sort/inside/"]

    def test_names_that_no_terminal_can_show(self, finished: tuple[list[JobSpec], Path]):
        jobs, output = finished
        (output / "sort" / os.fsdecode(b"\xff\n")).write_bytes(b"")
        assert verify_output(jobs, SEED, output).files_extra == ["sort/\\xff\\n"]


def test_what_programs_leave_is_held_against_what_is_known_of_it(tmp_path: Path) -> None:
    sha256 = hashlib.sha256(b"right").hexdigest()
    facts = JobFacts("j", "research", map_reduce(0, 2), memory_bytes=1 << 30)
    job = JobSpec(facts, 0, (), (1, 1), (1, 1), program=ProgramSpec(("true",), (("answer", sha256),)))
    for task in range(2):
        (tmp_path / "j" / f"part-c-{task:05d}" / "more").mkdir(parents=True)
        (tmp_path / "j" / f"part-c-{task:05d}" / "answer").write_bytes(b"right")
    assert verify_output([job], SEED, tmp_path).verified
    (tmp_path / "j" / "part-c-00001" / "answer").write_bytes(b"wrong")
    assert verify_output([job], SEED, tmp_path).files_differing == ["j/part-c-00001/answer"]
    shutil.rmtree(tmp_path / "j" / "part-c-00001")
    assert verify_output([job], SEED, tmp_path).files_missing == ["j/part-c-00001"]
    (tmp_path / "j" / "part-c-00002").mkdir()
    assert verify_output([job], SEED, tmp_path).files_extra == ["j/part-c-00002/"]


def program_job(**sha256: str) -> JobSpec:
    facts = JobFacts("j", "research", map_reduce(0, 1), memory_bytes=1 << 30)
    return JobSpec(facts, 0, (), (1,), (1,), program=ProgramSpec(("true",), tuple(sha256.items())))


def test_what_a_program_wrote_is_compared_with_its_digest_of_the_commit(tmp_path: Path) -> None:
    left = tmp_path / "j" / "part-c-00000"
    left.mkdir(parents=True)
    (left / "stdout").write_bytes(b"hello\n")
    digests = {("j", 0): tree_digest(left).sha256}
    found = verify_output([program_job()], SEED, tmp_path, digests)
    assert (found.verified, found.programs_compared, found.bytes_compared) == (True, 1, 6)
    for alter in (
        lambda: (left / "stdout").write_bytes(b"hallo\n"),
        lambda: (left / "stdout").unlink(),
        lambda: (left / "stdout").symlink_to("/etc/hostname"),
    ):
        alter()
        found = verify_output([program_job()], SEED, tmp_path, digests)
        assert found.files_differing == ["j/part-c-00000: is not as it was when it was committed"]


def test_a_huge_sparse_file_is_neither_digested_nor_read_into_memory(tmp_path: Path) -> None:
    left = tmp_path / "j" / "part-c-00000"
    left.mkdir(parents=True)
    (left / "holes").touch()
    os.truncate(left / "holes", 1 << 40)
    with pytest.raises(OSError, match="has more than 16 GiB"):
        tree_digest(left)
    os.truncate(left / "holes", 600 << 20)
    expected = hashlib.file_digest((left / "holes").open("rb"), "sha256").hexdigest()
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert verify_output([program_job(holes=expected)], SEED, tmp_path).verified
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 100 << 10


def test_it_is_said_what_was_checked_and_what_was_not(tmp_path: Path) -> None:
    left = tmp_path / "j" / "part-c-00000"
    left.mkdir(parents=True)
    (left / "stdout").write_bytes(b"hello\n")
    unknown = verify_output([program_job()], SEED, tmp_path).to_summary()
    assert (what_was_checked(unknown), unknown["bytes_compared"]) == ("", 0)
    assert what_was_not_checked(unknown) == "what 1 program wrote: there is no digest of it"
    digests = {("j", 0): tree_digest(left).sha256}
    kept = verify_output([program_job()], SEED, tmp_path, digests).to_summary()
    assert what_was_checked(kept) == "what 1 program wrote, unchanged since the commit"
    assert what_was_not_checked(kept) == "whether the programs' files are right: no sha256 is given for them"
    job = program_job(stdout=hashlib.sha256(b"hello\n").hexdigest())
    given = verify_output([job], SEED, tmp_path, digests).to_summary()
    assert what_was_checked(given).endswith("; 1 file of programs, as the experiment says")
    assert "other files are right" in what_was_not_checked(given)


names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=4)
trees = st.dictionaries(names.filter(lambda name: name not in (".", "..")), st.binary(max_size=20), max_size=4)


@given(one=trees, other=trees)
@drawn
def test_two_directories_have_one_digest_if_they_hold_the_same(
    one: dict[str, bytes], other: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    digests = []
    for tree in (one, other):
        directory = tmp_path_factory.mktemp("tree")
        for name, content in tree.items():
            (directory / name).write_bytes(content)
        digests.append(tree_digest(directory))
    assert (digests[0] == digests[1]) == (one == other)
    assert digests[0].size_bytes == sum(map(len, one.values()))


def test_pipes_and_links_in_a_directory_are_not_followed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "link").symlink_to("/dev/zero")
    before = tree_digest(tmp_path)
    (tmp_path / "more" / "link").unlink()
    (tmp_path / "more" / "link").symlink_to("/dev/null")
    assert tree_digest(tmp_path).sha256 != before.sha256
    assert before.size_bytes == 0
