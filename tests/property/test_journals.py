"""Journals of random runs: replay gives equal effects, corruption is found, and empty heartbeats leave no trace."""

from __future__ import annotations

from functools import partial

from cluster_cases import BAD_NETWORK, CALM, Case, cases, races, run
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from emulator.core.effects import Effect, Kill, Launch, Send, SetTimer
from emulator.records.journal import Record, decode_record, encode_record, merge
from emulator.records.replay import Divergence, replay
from emulator.resolved import make_machine
from tests.examples import fixed


def replayed(case: Case, records: list[Record]) -> Divergence | None:
    jobs = {job.name: job for job in case.jobs}
    return replay(records, lambda address: make_machine(address, case.settings, jobs))


def written_and_read(records: list[Record]) -> list[Record]:
    return [decode_record(encode_record(record)) for record in records]


@given(cases(CALM | BAD_NETWORK, faults=True) | races())
@fixed
def test_a_journal_replays_the_same_from_what_was_written(case: Case) -> None:
    records = run(case).records
    read = written_and_read(merge(records))
    assert read == merge(records)
    assert replayed(case, read) is None


@given(cases(CALM), st.data())
@fixed
def test_a_corrupted_effect_is_found_where_it_is(case: Case, data: st.DataObject) -> None:
    records = run(case).records
    places = [number for number, record in enumerate(records) if record.effects]
    place = data.draw(st.sampled_from(places))
    record = records[place]
    which = data.draw(st.integers(0, len(record.effects) - 1))
    corrupt = data.draw(st.sampled_from((partial(_without, which), partial(_changed, which), partial(_doubled, which))))
    records[place] = replace(record, effects=corrupt(record.effects))
    found = replayed(case, written_and_read(records))
    assert found is not None
    assert (found.number, found.record, found.got) == (place + 1, written_and_read(records)[place], record.effects)


def _without(which: int, effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
    return (*effects[:which], *effects[which + 1 :])


def _doubled(which: int, effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
    return (*effects[: which + 1], *effects[which:])


def _changed(which: int, effects: tuple[Effect, ...]) -> tuple[Effect, ...]:
    effect = effects[which]
    other: Effect = Kill("container-999999")
    if isinstance(effect, Send):
        other = replace(effect, to=f"{effect.to}0")
    elif isinstance(effect, SetTimer):
        other = replace(effect, at_ns=effect.at_ns + 1)
    elif isinstance(effect, Launch):
        other = replace(effect, first_key_at_ns=effect.first_key_at_ns + 1)
    return (*effects[:which], other, *effects[which + 1 :])


@given(cases(CALM | BAD_NETWORK, faults=True), st.data())
@fixed
def test_a_missing_record_is_found(case: Case, data: st.DataObject) -> None:
    records = run(case).records
    seqs = {record.actor: record.seq for record in records}
    places = [number for number, record in enumerate(records) if record.seq < seqs[record.actor]]
    place = data.draw(st.sampled_from(places))
    found = replayed(case, records[:place] + records[place + 1 :])
    assert found is not None
    assert found.record.actor == records[place].actor
    assert "missing" in found.problem


# ---- heartbeats that carry nothing ----


@given(cases(CALM | BAD_NETWORK, faults=True) | races())
@fixed
def test_a_machine_whose_revision_stays_has_not_changed(case: Case) -> None:
    run(case, watch_revisions=True)


@given(cases(CALM))
@fixed
def test_more_empty_heartbeats_make_an_equal_journal(case: Case) -> None:
    plain, repeated = run(case), run(case, repeat_empty_heartbeats=True)
    assert repeated.records == plain.records
