"""``natjam explain``: what it says of evictions is what the run's other tables say; what it cannot find is named."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copytree

import pytest
from msgspec.structs import replace

from analysis.evictions import Decision, decisions_of, evictions, find_evictions, why
from analysis.explain import Explanation, evictions_table
from analysis.load import load, rows_of
from tests.commands import run_natjam
from tests.simulated_runs import CATALOGUE, simulate


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fig. 4 under three mechanisms."""
    directory = tmp_path_factory.mktemp("runs")
    for mechanism in ("checkpoint", "suspend", "kill"):
        simulate(directory, mechanism, f"scheduler.mechanism={mechanism}")
    return directory


def tables_of(run: Path) -> tuple[list[dict], list[dict]]:
    return rows_of(run, "attempts"), rows_of(run, "operations")


def explain(*arguments: object) -> str:
    result = run_natjam("explain", *arguments)
    return result.output


def refused(*arguments: object) -> str:
    result = run_natjam("explain", *arguments, status=2)
    return result.output


@pytest.mark.parametrize("mechanism", ["checkpoint", "suspend", "kill"])
def test_every_eviction_has_its_cost_and_what_came_of_it(runs: Path, mechanism: str) -> None:
    results = load(runs / mechanism)
    found = evictions(runs / mechanism)
    (research,) = results.jobs.loc[results.jobs["queue"] == "research"].itertuples()
    assert len(found) == research.kills + research.suspensions > 4
    attempts = results.attempts.set_index("attempt")
    for eviction in found:
        assert eviction.requesters == ["production-S"]
        assert eviction.why_job.startswith("mr: ")
        assert eviction.freed_s is not None
        assert eviction.decision.t_s < eviction.freed_s <= eviction.decision.t_s + 12
        assert eviction.next_attempt is not None
        after = attempts.loc[eviction.next_attempt]
        assert (after["job"], after["task"]) == (eviction.chosen["job"], eviction.chosen["task"])
        assert eviction.next_s is not None
        assert eviction.next_s > eviction.freed_s
    assert "never" not in explain(runs / mechanism)
    costs = [eviction.cost_s for eviction in found]
    measured = results.operations.loc[results.operations["operation"].isin(["suspend", "kill"]), "total_s"]
    assert sorted(cost for cost in costs if cost is not None) == sorted(measured)
    assert sum(eviction.lost_s for eviction in found) == pytest.approx(research.lost_work_s)
    same = {"checkpoint": "checkpointed", "suspend": "suspended", "kill": "killed"}[mechanism]
    assert {eviction.outcome for eviction in found} == {same}
    if mechanism == "checkpoint":
        resumed_from = attempts["resumed_from"].to_dict()
        longer_ways = 0
        for eviction in found:
            before = [str(eviction.next_attempt)]
            while before[-1] != eviction.attempt:
                before.append(resumed_from[before[-1]])
            between = before[1:-1]  # had to give way before their first key
            assert attempts.loc[between, "first_key_s"].isna().all()
            longer_ways += bool(between)
        assert longer_ways == 3
    elif mechanism == "suspend":
        assert all(eviction.next_attempt == eviction.attempt for eviction in found)
        assert sorted(eviction.next_s or 0 for eviction in found) == sorted(results.suspensions["resumed_s"])


def test_who_wanted_containers_is_known_where_a_job_is_asked_and_chooses_at_one_instant(tmp_path: Path) -> None:
    found = evictions(simulate(tmp_path, "at-once", "protocol.news=at-once", "overheads=none"))
    assert [eviction.requesters for eviction in found] == [["production-S"]] * len(found) != []
    assert all(eviction.why_job.startswith("mr: ") for eviction in found)


def test_a_victim_that_is_chosen_again_before_it_is_dead_is_one_eviction(runs: Path) -> None:
    tables, decisions = tables_of(runs / "kill"), decisions_of(runs / "kill")
    chosen = next(decision for decision in decisions if decision.by == "releaser")
    again = replace(chosen, decision=1_000_001, t_s=chosen.t_s + 1)
    late = replace(chosen, decision=1_000_002, t_s=chosen.t_s + 12, by="resource-manager")
    found = find_evictions(*tables, [*decisions, again, late])
    assert len(found) == len(find_evictions(*tables, decisions))
    overdue = [eviction for eviction in found if eviction.overdue is late]
    assert [eviction.decision for eviction in overdue] == [chosen] * len(overdue) != []
    assert overdue[0].to_json()["overdue_in"] == 1_000_002
    table = evictions_table(Explanation("run", "kill", overdue, [chosen, late], None))
    assert f"not given back in time: killed at {late.t_s:.1f} s" in str(next(iter(table.columns[5].cells)))


def test_what_the_resource_manager_kills_is_explained(tmp_path: Path) -> None:
    late = ("scheduler.mechanism=suspend", "overheads=hadoop-0.23", "protocol.kill_timeout_s=1")
    found = evictions(simulate(tmp_path, "late", *late))
    by_it = [eviction for eviction in found if eviction.decision.by == "resource-manager"]
    assert {eviction.outcome for eviction in by_it} == {"killed"}
    assert "not given back in time" in why(by_it[0].decision, by_it[0].chosen)


def test_the_table_and_the_json_say_the_same(runs: Path) -> None:
    run = runs / "checkpoint"
    text = explain(run)
    told = json.loads(explain(run, "--json"))
    assert f"{len(told['evictions'])} evictions in" in text
    numbers = {decision["decision"]: decision for decision in told["decisions"]}
    for eviction in told["evictions"]:
        assert eviction["attempt"] in text
        mine = [row for row in numbers[eviction["decision"]]["candidates"] if row["attempt"] == eviction["attempt"]]
        assert [row["chosen"] for row in mine] == [1]
        assert eviction["why"] == f"srt: {mine[0]['remaining_s']:.1f} s left, no. {mine[0]['place']} of " + str(
            numbers[eviction["decision"]]["left_out"] + len(numbers[eviction["decision"]]["candidates"])
        )
        assert all(numbers[number]["by"] == "preemptor" for number in eviction["asked_in"])
    assert told["mechanism"] == "checkpoint"


def test_one_attempt_with_the_choices_it_was_in(runs: Path) -> None:
    run = runs / "checkpoint"
    told = json.loads(explain(run, "--json"))["evictions"]
    last = told[-1]["attempt"]
    text = explain(run, "--attempt", last)
    assert "one eviction in" in text
    assert "passed over at" in text, "it was a candidate before it was chosen"
    assert f"the releaser took {len([e for e in told if e['t_s'] == told[-1]['t_s']])} containers from these" in text
    spared = load(run).attempts.query("job == 'research-XL' and kind == 'reduce' and outcome == 'succeeded'")["attempt"]
    longest = next(name for name in spared if name.endswith(".0"))
    assert f"{longest} was never chosen (mechanism checkpoint)" in explain(run, "--attempt", longest)


def test_one_job(runs: Path) -> None:
    run = runs / "kill"
    assert explain(run, "--job", "research-XL") == explain(run)
    assert "no task of production-S was evicted (mechanism kill)" in explain(run, "--job", "production-S")


def test_what_is_not_there_is_named(runs: Path, tmp_path: Path) -> None:
    assert "has no job 'research'; it has research-XL" in refused(runs / "kill", "--job", "research")
    output = refused(runs / "kill", "--attempt", "research-XL/r11.0")
    assert "has no attempt 'research-XL/r11.0'; it has research-XL/r0" in output
    assert "there is no such directory" in refused(tmp_path / "gone")
    for number in (1, 2):
        copytree(runs / "kill", tmp_path / f"twice/repeat-{number}")
    output = refused(tmp_path / "twice").replace("\n", "")
    assert "has 2 runs; name one of them, such as" in output
    assert "repeat-1" in output
    (tmp_path / "twice/repeat-1/decisions.parquet").unlink()
    assert "decisions.parquet: is missing" in refused(tmp_path / "twice/repeat-1")


def test_a_score_whose_name_is_not_ours_is_shown_as_it_is() -> None:
    row = {"score_name": "heat", "score": 2.5, "place": 1}
    decision = Decision(1, 0.0, "application-master", "mine", None, 2, [row])
    assert why(decision, row) == "mine: heat 2.5, no. 1 of 3"


# ---- containers of several sizes ----


@pytest.fixture(scope="module")
def gangs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    changes = ("overheads=none", "calibration=null", "scheduler.mechanism=kill")
    return simulate(tmp_path_factory.mktemp("runs"), "gangs", *changes, file=CATALOGUE / "gangs.yaml")


def test_an_eviction_for_room_on_one_node_says_what_was_short_there(gangs: Path) -> None:
    found = [eviction for eviction in evictions(gangs) if eviction.chosen["job"] == "gpus"]
    assert len(found) == 2
    for eviction in found:
        assert "model lacks" in eviction.why_job
        assert "4 gpu" in eviction.why_job
        assert "on node-3" in eviction.why_job
    (reason,) = {row["why"] for row in found[0].asked[-1].candidates}
    assert reason == found[0].why_job.partition("; ")[2]


def test_what_a_job_waited_for_is_named_by_node(gangs: Path) -> None:
    (wait,) = json.loads(explain(gangs, "--job", "serving", "--json"))["waits"][-1:]
    results = load(gangs)
    row = results.attempts.set_index("attempt").loc[wait["attempt"]]
    assert (wait["until_s"], wait["node"]) == (row["ready_s"], row["node"])
    assert set(wait["short"]) == {"node-1", "node-2", "node-3"}
    assert "gpu" in wait["short"]["node-1"], "nodes 1 and 2 have none"
    assert f"until {wait['until_s']:.1f} s {wait['attempt']} ({wait['asked']}) found no room: " in explain(
        gangs, "--job", "serving"
    )
    assert json.loads(explain(gangs, "--job", "elastic", "--json"))["waits"] == []


def test_with_one_size_nothing_is_said_of_waits(runs: Path) -> None:
    assert json.loads(explain(runs / "kill", "--job", "production-S", "--json"))["waits"] == []


def test_a_program_saved_as_an_image_has_kept_all_its_work(tmp_path: Path) -> None:
    run_natjam("init", tmp_path / "mine", "--program")
    run = simulate(tmp_path, "run", "scheduler.mechanism=image", file=tmp_path / "mine" / "experiment.yaml")
    said = " ".join(explain(run).split())
    assert "saved as an image" in said
    assert "all its work kept" in said
    assert "0 keys kept" not in said


def test_what_a_trigger_has_stopped_is_named_although_no_policy_chose_it(tmp_path: Path) -> None:
    run = simulate(tmp_path, "run", "calibration=null", file=CATALOGUE / "os-assisted.yaml")
    (low,) = (job for job in rows_of(run, "jobs") if job["name"] == "low")
    assert low["suspensions"] == 1
    assert explain(run).strip() == "stopped by a trigger or by hand: low/r000.0"
    assert json.loads(explain(run, "--json"))["by_order"] == ["low/r000.0"]
    assert "never chosen" in explain(run, "--attempt", "high/r000.0")


def test_a_task_that_ended_first_is_not_counted_as_evicted(runs: Path) -> None:
    found = evictions(runs / "suspend")
    ended = [replace(found[0], outcome="ended"), *found[1:]]
    title = evictions_table(Explanation("run", "suspend", ended, [], None)).title
    assert str(title) == f"{len(found) - 1} evictions, and 1 task chosen that ended first, in run"
