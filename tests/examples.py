"""How many examples, damaged inputs and seeds the tests try: here and nowhere else, so that none is lowered unseen.

``drawn`` and ``fixed`` above a test make its examples as many as stand here: other ones at each call, or always the
same.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings

EXAMPLES = {
    "test_application_master_alone": {"ApplicationMasterAlone": 60},
    "test_clusters": {
        "test_every_job_succeeds_and_reduces_suspended_again_and_again_are_done_once": 220,
        "test_every_job_ends_whatever_crashes_and_whatever_is_lost": 220,
        "test_no_node_is_above_its_resources_whatever_is_lost_and_late": 40,
        "test_room_on_one_node_is_taken_from_less_urgent_jobs_whatever_is_lost_and_late": 30,
        "test_a_user_suspends_resumes_and_kills_single_tasks": 60,
        "test_of_two_attempts_at_a_reduce_one_wins": 80,
        "test_the_same_at_length": 4000,
    },
    "test_conservation": {
        "test_equal_containers": 90,
        "test_containers_of_several_sizes": 50,
        "test_gangs": 60,
        "test_the_same_at_length": 3000,
    },
    "test_config_fuzz": {"test_a_dumped_experiment_loads_back_equal": 40},
    "test_flex": {
        "test_the_optimum_is_that_of_all_orders": 60,
        "test_no_packing_ends_before_the_bound_of_the_search": 100,
        "test_the_generic_scheme_is_optimal_for_fixed_shares": 60,
    },
    "test_flex_lemma_1": {
        "test_weighted_sums_of_ends": 40,
        "test_any_metric_while_no_maximum_binds": 40,
        "test_no_order_is_better_than_the_optimum": 40,
    },
    "test_gangs": {
        "test_gangs_of_several_sizes_start_whole_and_none_starves_another": 40,
        "test_every_gang_succeeds": 90,
        "test_every_gang_ends_whatever_crashes_and_whatever_is_lost": 90,
        "test_the_same_at_length": 3000,
    },
    "test_groups": {"test_groups_start_when_they_may_and_are_spared_when_they_must": 40},
    "test_heartbeats": {
        "test_leaving_out_empty_heartbeats_makes_an_equal_journal_whatever_goes_wrong": 100,
        "test_the_same_at_length": 1000,
        "test_the_same_with_containers_of_several_sizes": 15,
    },
    "test_image_chains": {"test_the_two_newest_images_of_any_history_restore_what_was_saved": 40},
    "test_journal": {
        "test_a_record_reads_back_equal_and_of_the_same_types": 300,
        "test_any_other_value_in_any_place_is_a_journal_error_or_a_record": 300,
    },
    "test_kueue_victims": {"test_victims_make_room_and_none_of_them_goes_in_vain": 300},
    "test_journals": {
        "test_a_journal_replays_the_same_from_what_was_written": 45,
        "test_a_corrupted_effect_is_found_where_it_is": 45,
        "test_a_missing_record_is_found": 20,
        "test_a_machine_whose_revision_stays_has_not_changed": 20,
        "test_more_empty_heartbeats_make_an_equal_journal": 30,
    },
    "test_node_contracts": {
        "test_a_job_gives_the_first_tasks_in_its_order_that_are_enough_and_none_in_vain": 200,
        "test_jobs_are_asked_for_what_is_missing_and_give_no_more_than_they_must": 60,
    },
    "test_node_manager_alone": {"NodeManagerAlone": 300},
    "test_outside": {"test_any_line_is_understood_or_refused": 300},
    "test_partial_output": {"test_any_cut_gives_the_same_bytes": 40},
    "test_records_of_simulations": {
        "test_the_tables_agree_with_each_other": 30,
        "test_useful_work_is_the_length_of_every_task": 30,
    },
    "test_reverse_adaptive": {"test_what_can_meet_its_deadlines_does_under_reverse_adaptive": 300},
    "test_room_on_node": {
        "test_enough_is_taken_and_none_of_it_in_vain": 200,
        "test_the_node_is_the_best_of_those_where_room_can_be_made": 200,
    },
    "test_shares_in_clusters": {
        "test_every_job_ends_whatever_goes_wrong": 60,
        "test_leaving_out_empty_heartbeats_makes_an_equal_journal": 40,
    },
    "test_shuffle": {"test_any_request": 60, "test_any_answer_is_a_failed_fetch": 12},
    "test_supervisor_random": {"test_every_command_has_exactly_one_completion": 25},
    "test_slurm_machines": {"test_drawn_sites_do_too": 30},
    "test_terms": {"test_terms_hold_whatever_gets_lost": 12},
    "test_theorem_2_1": {"test_srt_is_as_good_as_the_best_of_all_victim_sets": 1000},
    "test_verify": {
        "test_what_the_tasks_write_is_what_the_verifier_expects": 40,
        "test_maps_give_every_reduce_its_keys_and_the_job_its_bytes": 25,
        "test_two_directories_have_one_digest_if_they_hold_the_same": 50,
    },
    "test_withheld_containers": {"test_containers_in_use_never_exceed_what_there_is_after_the_grace": 60},
    "test_yarn_clusters": {
        "test_every_job_succeeds": 50,
        "test_every_job_ends_whatever_goes_wrong": 70,
        "test_heartbeats_left_out_make_no_difference": 15,
        "test_a_machine_whose_revision_stays_has_not_changed": 12,
        "test_a_round_takes_no_container_in_vain": 200,
        "test_the_same_at_length": 5000,
    },
}
"""By module and test; where none stands here it is hypothesis' own hundred."""

DAMAGED = {
    "experiments": 150,
    "profiles": 300,
    "calibrations": 40,
    "campaigns": 40,
    "plans of campaigns": 100,
    "files of jobs": 100,
    "availability": 200,
    "faults": 40,
    "journals": 60,
    "run directories": 120,
    "traces": 200,
    "files of YARN": 200,
    "sites": 60,
    "objects of kueue": 40,
    "objects of kubernetes": 25,
    "tables of pods": 100,
}
"""Damaged inputs of each kind; ``make fuzz`` tries more."""

CHAOS_SEEDS, CHAOS_SEEDS_OF_FIG_4 = 10, 5
"""Fixed seeds of each variant of a small cluster, and of Fig. 4; ``make chaos`` draws more."""


def drawn(test: Any) -> Any:
    """Examples drawn anew at each call."""
    return settings(max_examples=examples_of(test))(test)


def fixed(test: Any) -> Any:
    """The same examples at each call."""
    return settings(max_examples=examples_of(test), derandomize=True)(test)


def examples_of(test: Any) -> int:
    """How many, of a test or a state machine."""
    return EXAMPLES[test.__module__.rpartition(".")[2]][test.__name__]
