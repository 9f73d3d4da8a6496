"""Which test holds each field case, or which feature it waits for.

A case is a fault that users of other systems reported, as a scenario with the right outcome; O-001 to O-096.
The docstring of each test named here says the case's id. `tests/cases/test_table.py` compares all of this.
"""

from __future__ import annotations

CASES = tuple(f"O-{number:03d}" for number in range(1, 97))

_RUNTIME = "tests/unit/runtime"
_STORE = "tests/unit/store"
_COMMITS = "tests/unit/store/test_postgres_commits.py"
_TABLES = "tests/unit/store/test_postgres_tables.py"
_SERVERS = "tests/cases/test_postgres_cases.py"
_WORKERS = "tests/unit/store/test_sqlite_workers.py"
_STORES = "tests/bad_input/test_stores.py"
_CODEC = "tests/unit/codec/test_value.py"
_CONTRACT = "src/perdure/testing/contract"

HELD: dict[str, tuple[str, ...]] = {
    "O-001": (
        "tests/cases/test_lost_state.py::a_run_is_there_after_a_kill_and_a_restart",
        "tests/cases/test_lost_state.py::a_store_that_cannot_be_opened_is_named_and_nothing_else_is_used",
    ),
    "O-002": (
        "tests/cases/test_lost_state.py::only_the_store_is_carried_to_another_machine",
        f"{_RUNTIME}/test_approvals_drift.py::only_the_database_is_left",
    ),
    "O-003": ("tests/cases/test_stuck_orphaned.py::no_run_vanishes_with_the_worker_that_took_it",),
    "O-004": (
        "tests/cases/test_approvals.py::a_wait_in_a_loop_repeats_nothing_before_it",
        "tests/cases/test_approvals.py::permissions_in_a_loop_repeat_nothing_before_them",
        f"{_RUNTIME}/test_approval_cases.py::a_loop_of_appends_and_refusals_appends_each_line_once",
    ),
    "O-005": (
        "tests/crash/test_boundaries.py::nothing_is_lost_repeated_or_hidden",
        f"{_RUNTIME}/test_durability.py::nothing_leaves_before_it_is_durable",
    ),
    "O-006": (
        "tests/unit/worker/test_worker.py::while_it_beats_a_long_run_is_nobody_elses",
        f"{_RUNTIME}/test_kill.py::a_driver_that_stood_still_is_overtaken_and_its_late_result_is_kept",
        "tests/cases/test_lease_clock.py::a_call_that_outlasts_its_lease_is_made_once_while_it_beats",
        "tests/cases/test_lease_clock.py::a_call_whose_worker_stands_still_is_not_made_again",
    ),
    "O-007": (
        "tests/cases/test_duplicate_effects.py::what_a_body_may_not_ask_for_is_not_tried_again",
        f"{_RUNTIME}/test_approval_cases.py::asking_uses_up_no_retry",
        f"{_RUNTIME}/test_timeouts.py::no_retry_is_used_up_by_what_is_no_failure",
    ),
    "O-008": (f"{_RUNTIME}/test_calendars.py::a_run_that_is_due_later_is_not_handed_out_before",),
    "O-009": ("tests/cases/test_code_version.py::one_more_draw_does_not_shift_the_ids_after_it",),
    "O-010": ("tests/cases/test_code_version.py::two_steps_that_have_swapped_places_are_told_of",),
    "O-011": ("tests/cases/test_code_version.py::a_change_elsewhere_strands_nobody",),
    "O-012": (
        "tests/cases/test_schema_evolution.py::a_snapshot_older_than_a_field_is_migrated",
        "tests/unit/journal/test_past.py::a_damaged_snapshot_is_passed_over_with_a_warning",
    ),
    "O-013": ("tests/golden/test_deployed.py::every_store_carries_on_what_was_written_then",),
    "O-014": (
        "tests/cases/test_schema_evolution.py::a_part_that_was_not_there_gets_its_default",
        "tests/golden/test_stores.py::a_store_of_every_version_is_read_and_carried_on",
        "tests/unit/recovery/test_migrations.py::a_gap_is_found_where_it_is_declared_and_where_it_is_met",
    ),
    "O-015": ("tests/unit/journal/test_past.py::equal_large_values_are_kept_once",),
    "O-016": (
        "tests/unit/journal/test_past.py::snapshots_that_bound_the_time_of_a_load_keep_bytes_linear",
        "tests/laws/test_patch_laws.py::a_patch_grows_with_the_change_and_not_with_the_state",
        "tests/cases/test_growth_slow.py::what_is_stored_is_linear_in_what_is_new",
    ),
    "O-020": (f"{_CODEC}::plain_values_come_back_exactly",),
    "O-021": ("tests/unit/codec/test_model.py::a_declared_model_comes_back_equal",),
    "O-022": ("tests/unit/codec/test_shape.py::a_declared_type_brings_instances_back",),
    "O-023": (f"{_CODEC}::plain_values_come_back_exactly",),
    "O-024": ("tests/bad_input/test_values.py::odd_values_come_back_and_can_be_shown",),
    "O-025": (f"{_CODEC}::plain_values_come_back_exactly",),
    "O-026": (f"{_CODEC}::plain_values_come_back_exactly",),
    "O-027": ("tests/unit/codec/test_fault.py::an_exception_that_was_not_declared_is_told_by_a_stand_in",),
    "O-028": (f"{_CODEC}::plain_values_come_back_exactly",),
    "O-029": (f"{_CODEC}::numpy_is_exact_or_refused",),
    "O-030": ("tests/bad_input/test_values.py::odd_values_come_back_and_can_be_shown",),
    "O-031": (
        f"{_RUNTIME}/test_failures.py::a_result_that_cannot_be_stored_fails_at_its_call",
        f"{_RUNTIME}/test_failures.py::one_bad_run_harms_no_other",
    ),
    "O-032": (f"{_CONTRACT}/ends.py::two_who_write_from_the_same_version_get_one_winner",),
    "O-033": (
        "tests/cases/test_concurrent_writers.py::results_that_come_together_are_all_kept",
        f"{_SERVERS}::results_that_come_together_are_all_kept_on_postgres",
    ),
    "O-034": (
        f"{_RUNTIME}/test_tree.py::another_thread_appends_meanwhile",
        f"{_CODEC}::a_value_that_another_thread_changes_gives_one_well_formed_value",
    ),
    "O-035": (f"{_CONTRACT}/appends.py::time_never_decides_who_is_newer",),
    "O-036": (f"{_STORE}/test_sqlite_writers.py::eight_processes_of_four_threads_meet_no_lock_error",),
    "O-037": (f"{_STORE}/test_sqlite_writers.py::a_failed_statement_leaves_no_transaction_open",),
    "O-038": (f"{_STORE}/test_sqlite_writers.py::many_first_openings_at_once_all_succeed",),
    "O-039": (
        f"{_STORE}/test_sqlite_wal.py::a_long_reader_makes_no_writer_wait_and_the_log_shrinks_after_it",
    ),
    "O-040": (
        f"{_RUNTIME}/test_kill.py::a_driver_that_stood_still_is_overtaken_and_its_late_result_is_kept",
        f"{_STORE}/test_sqlite_workers.py::a_stalled_worker_finds_itself_fenced_off",
        f"{_STORE}/test_postgres_workers.py::a_stalled_worker_finds_itself_fenced_off",
        "tests/cases/test_lease_clock.py::a_call_whose_worker_stands_still_is_not_made_again",
    ),
    "O-041": (
        f"{_STORE}/test_sqlite_workers.py::one_machine_has_one_clock",
        f"{_STORE}/test_postgres_workers.py::many_machines_have_the_databases_clock",
        f"{_RUNTIME}/test_leases.py::a_lease_that_cannot_be_renewed_is_given_up_before_it_ends",
    ),
    "O-042": (f"{_CONTRACT}/appends.py::nothing_follows_the_end",),
    "O-043": ("tests/cases/test_async_cancel_block.py::an_interrupt_in_a_retry_wait_keeps_the_tries",),
    "O-044": (
        "tests/cases/test_async_cancel_block.py::a_client_that_stops_waiting_does_not_stop_the_run",
        f"{_RUNTIME}/test_cancel.py::wait_for_around_the_run_times_out_and_the_run_ends_later",
    ),
    "O-045": (
        "tests/cases/test_async_cancel_block.py::cancelled_twice_during_a_save_it_is_saved_or_not",
        f"{_RUNTIME}/test_cancel.py::cancelled_anywhere_the_run_is_whole",
    ),
    "O-046": (
        "tests/cases/test_async_cancel_block.py::a_step_that_blocks_its_loop_loses_no_slot",
        f"{_RUNTIME}/test_leases.py::a_loop_that_stands_still_is_told_with_its_stack",
        "tests/unit/worker/test_processes.py::code_that_blocks_the_loop_loses_no_lease",
    ),
    "O-047": (
        f"{_STORE}/test_sqlite_forks.py::four_children_and_their_parent_write_and_read_their_own",
        f"{_STORE}/test_postgres_workers.py::a_forked_child_has_connections_of_its_own",
    ),
    "O-048": (f"{_RUNTIME}/test_calendars.py::hours_are_hours_when_the_clocks_change",),
    "O-049": (f"{_RUNTIME}/test_calendars.py::a_dated_run_is_started_once_a_day",),
    "O-050": (
        "tests/cases/test_timers.py::a_worker_waits_for_a_far_moment_in_pieces",
        f"{_RUNTIME}/test_sleep.py::very_long_sleeps_are_kept",
        f"{_RUNTIME}/test_sleep.py::absurd_sleeps_are_refused_before_they_are_stored",
    ),
    "O-051": (f"{_RUNTIME}/test_calendars.py::a_start_that_is_cut_off_happens_once",),
    "O-052": (f"{_RUNTIME}/test_approval_cases.py::a_recorded_permission_is_found_whatever_the_run_carries",),
    "O-053": (
        f"{_RUNTIME}/test_approvals_drift.py::parallel_approvals_never_answer_each_other",
        "tests/unit/cli/test_permit.py::the_only_request_of_a_run_need_not_be_named",
    ),
    "O-054": (f"{_RUNTIME}/test_approval_cases.py::a_short_look_is_no_refusal",),
    "O-055": (
        f"{_RUNTIME}/test_approvals_drift.py::a_gated_call_whose_history_ends_undecided_is_not_made",
        f"{_RUNTIME}/test_approval_cases.py::a_decision_for_another_call_permits_nothing",
    ),
    "O-056": (f"{_RUNTIME}/test_approvals_drift.py::what_drifts_is_asked_for_again",),
    "O-057": (f"{_RUNTIME}/test_approvals.py::a_decision_in_time_counts_though_nobody_was_there",),
    "O-058": (
        "tests/cases/test_approvals.py::a_nested_question_that_is_answered_is_not_asked_again",
        "tests/cases/test_approvals.py::a_nested_permission_that_is_given_is_not_asked_for_again",
    ),
    "O-059": (
        "tests/unit/worker/test_worker.py::a_store_that_fails_is_asked_again",
        f"{_SERVERS}::a_server_that_restarts_amid_recovery_loses_no_run",
    ),
    "O-060": (
        f"{_WORKERS}::without_its_sign_of_life_a_dead_worker_loses_its_runs_with_the_lease",
        f"{_STORE}/test_sqlite_workers.py::the_same_name_started_again_is_another_worker",
        f"{_STORE}/test_postgres_workers.py::the_same_name_started_again_is_another_worker",
    ),
    "O-061": (
        "tests/cases/test_stuck_orphaned.py::a_killed_workers_place_is_free_again",
        f"{_CONTRACT}/turns.py::a_place_of_a_key_is_free_when_its_lease_has_ended",
    ),
    "O-062": (
        "tests/cases/test_stuck_orphaned.py::a_worker_that_is_told_to_end_cancels_nothing",
        "tests/unit/worker/test_processes.py::a_worker_that_is_told_to_end_begins_no_call_and_lets_one_end",
    ),
    "O-063": (f"{_RUNTIME}/test_budgets.py::five_calls_and_four_crashes_cost_five_calls",),
    "O-064": (
        "tests/cases/test_retry_budget.py::a_step_that_kills_its_worker_is_given_up",
        "tests/cases/test_retry_budget.py::wherever_a_run_kills_its_worker_it_is_given_up",
    ),
    "O-065": (
        f"{_RUNTIME}/test_budgets.py::steps_are_limited_in_total_over_resumes",
        "tests/unit/cli/test_budget.py::it_shows_each_limit_and_where_it_comes_from",
    ),
    "O-066": ("tests/cases/test_parallel_partial.py::a_join_waits_for_both_whatever_was_kept_of_one",),
    "O-067": (
        "tests/cases/test_parallel_partial.py::a_model_is_asked_again_when_all_results_are_there",
        "tests/cases/test_parallel_partial.py::a_step_goes_on_when_all_that_it_waits_for_is_there",
        f"{_RUNTIME}/test_children.py::one_child_fails_and_its_siblings_go_on",
    ),
    "O-068": (f"{_RUNTIME}/test_signals.py::early_signals_are_kept_in_their_order",),
    "O-069": (f"{_RUNTIME}/test_calendars.py::a_signal_whose_notice_is_lost_is_found",),
    "O-070": (
        f"{_RUNTIME}/test_children.py::a_cancel_while_a_child_is_launched",
        f"{_RUNTIME}/test_children.py::a_step_that_gives_up_a_spawn_does_not_lose_it",
    ),
    "O-071": (
        "tests/cases/test_child_runs.py::a_child_goes_on_after_a_kill_and_then_its_parent",
        "tests/cases/test_child_runs.py::workers_that_are_killed_in_turn_lose_no_child",
        f"{_RUNTIME}/test_children.py::one_worker_with_one_place_carries_a_family",
        f"{_RUNTIME}/test_children.py::a_child_of_a_dead_process_goes_on_where_its_agent_is_served",
    ),
    "O-072": (
        f"{_RUNTIME}/test_chunks.py::who_comes_back_hears_the_rest_once",
        f"{_RUNTIME}/test_chunks.py::a_thousand_chunks_of_one_moment_are_told_apart",
    ),
    "O-073": (
        f"{_RUNTIME}/test_chunks.py::each_try_says_which_it_is",
        f"{_RUNTIME}/test_chunks.py::a_body_that_begins_anew_takes_back_what_it_said",
    ),
    "O-074": (
        f"{_RUNTIME}/test_failures.py::large_values_are_kept_out_of_line",
        f"{_SERVERS}::large_results_are_kept_out_of_line_on_postgres",
        f"{_RUNTIME}/test_failures.py::a_value_above_the_stores_limit_is_refused_once",
    ),
    "O-075": (
        f"{_COMMITS}::a_lost_answer_is_looked_up_and_half_of_them_were_committed",
        f"{_COMMITS}::every_verb_survives_a_lost_answer",
    ),
    "O-076": (f"{_COMMITS}::a_release_that_another_worker_answered_at_once_is_no_lost_lease",),
    "O-077": (f"{_COMMITS}::links_that_were_idle_and_ended_are_replaced",),
    "O-078": (f"{_SERVERS}::a_worker_whose_listener_was_ended_still_gets_work",),
    "O-094": (f"{_SERVERS}::a_loop_that_watches_no_sockets_is_enough",),
    "O-079": (
        "tests/bad_input/test_disk.py::a_disk_that_fills_up_in_an_act_loses_nothing",
        f"{_STORE}/test_sqlite_full.py::a_run_goes_on_where_it_was_once_there_is_room",
    ),
    "O-080": (f"{_STORES}::without_the_right_to_write_looking_works_and_a_run_stops_before_any_step",),
    "O-081": (f"{_TABLES}::a_role_without_a_right_is_told_which",),
    "O-082": (f"{_TABLES}::tables_of_a_schema_of_ones_own",),
    "O-083": (
        f"{_STORE}/test_sqlite_writers.py::many_first_openings_at_once_all_succeed",
        f"{_TABLES}::of_many_starters_one_makes_the_tables",
    ),
    "O-084": (
        f"{_STORES}::a_newer_store_is_refused_whole",
        f"{_TABLES}::a_newer_store_is_refused_untouched_by_who_opens_it_and_by_who_has_it_open",
        "tests/golden/test_stores.py::who_has_an_older_store_open_writes_nothing_to_a_newer_one",
    ),
    "O-017": ("tests/cases/test_pruning.py::what_an_open_run_still_needs_is_never_pruned",),
    "O-018": ("tests/cases/test_pruning.py::an_id_has_one_life_and_a_killed_collector_is_carried_on",),
    "O-019": (
        "tests/cases/test_pruning.py::a_step_that_ends_after_its_run_was_removed_leaves_no_row",
        f"{_RUNTIME}/test_late.py::a_late_result_of_a_pruned_run_is_its_tombstone",
    ),
    "O-090": ("tests/cases/test_pruning.py::each_of_many_runs_that_are_to_go_has_a_result_of_its_own",),
    "O-085": ("tests/cases/test_time_travel.py::a_fork_from_before_an_approval_asks_again",),
    "O-086": (
        "tests/cases/test_time_travel.py::a_fork_of_a_nested_run_does_only_what_comes_after_the_point",
    ),
    "O-087": ("tests/cases/test_time_travel.py::each_branch_has_a_head_of_its_own_that_moves",),
    "O-088": ("tests/unit/cli/test_read.py::runs_tells_each_way_to_stand_by_its_own_word",),
    "O-089": (
        "tests/unit/cli/test_read.py::every_id_that_runs_prints_can_be_opened",
        "tests/bad_input/test_cli.py::an_ambiguous_beginning_lists_what_it_fits",
    ),
    "O-091": (
        "tests/cases/test_secrets_redaction.py::a_key_is_nowhere_but_in_the_environment",
        "tests/unit/observe/test_no_secrets.py::the_value_of_a_secret_is_in_no_span_and_no_record",
    ),
    "O-092": ("tests/cases/test_secrets_redaction.py::what_was_erased_is_in_no_file",),
    "O-093": ("tests/cases/test_memory_leak.py::a_run_of_large_steps_on_a_slow_store_keeps_little",),
    "O-095": (
        "tests/cases/test_timers.py::no_thread_waits_longer_than_a_platform_can",
        "tests/cases/test_timers.py::a_worker_waits_for_a_far_moment_in_pieces",
    ),
    "O-096": (
        "tests/bad_input/test_values.py::what_stored_bytes_name_is_never_imported_or_called",
        "tests/unit/codec/test_fault.py::no_stored_name_is_ever_imported",
    ),
}
"""By case: the tests that hold it, as file::name without the `test_` in front."""

WAITS: dict[str, str] = {}
"""By case: what it waits for. A case that is in both tables is held in part."""
