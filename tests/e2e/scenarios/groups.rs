//! The scenarios of each group.

use super::*;

/// The older API, with three nodes per scenario.
pub const OLD: Group = &[
    ("rollout", healthy::rollout),
    ("rollout_with_a_budget", healthy::rollout_with_a_budget),
    ("upgrade", healthy::upgrade),
    ("edit_effects", edit_effects::of_all_kinds),
    ("edit_effects_of_policies_and_pauses", edit_effects::of_policies_and_pauses),
    ("config_change", healthy::config_change),
    ("uninstall_and_reinstall", healthy::uninstall_and_reinstall),
    ("reboot", healthy::reboot),
    ("pause_and_resume", healthy::pause_and_resume),
    ("disable_and_enable", healthy::disable_and_enable),
    ("deletion", healthy::deletion),
    ("drain", healthy::drain),
    ("joining_nodes", healthy::joining_nodes),
    ("two_custom_resources_by_priority", healthy::two_custom_resources_by_priority),
    ("rollout_by_policy", healthy::rollout_by_policy),
    ("operator_restarts", healthy::operator_restarts),
    ("deletion_waits_for_erroring_install", deletion::deletion_waits_for_erroring_install),
    ("deletion_freed_by_repair", deletion::deletion_freed_by_repair),
    ("deletion_freed_by_reset", deletion::deletion_freed_by_reset),
    ("uninstall_stuck_without_its_interrupt", stuck_states::uninstall_stuck_without_its_interrupt),
    ("uninstall_requested_but_never_installed", stuck_states::uninstall_requested_but_never_installed),
    ("two_operators_running", stuck_states::two_operators_running),
    ("version_changed_while_uninstalling", stuck_states::version_changed_while_uninstalling),
    ("version_changed_while_the_operator_runs", stuck_states::version_changed_while_the_operator_runs),
    ("cancelled_uninstall_still_running", stuck_states::cancelled_uninstall_still_running),
    ("name_equals_taint_key", deletion::name_equals_taint_key),
    ("orphaned_uninstall_complete", deletion::orphaned_uninstall_complete),
    ("deletion_blocked_by_malformed_state", deletion::deletion_blocked_by_malformed_state),
    ("deletion_blocked_while_paused", deletion::deletion_blocked_while_paused),
    ("deletion_blocked_while_disabled", deletion::deletion_blocked_while_disabled),
    ("dependency_uninstalled", stuck_states::dependency_uninstalled),
    ("uninstall_failing", stuck_states::uninstall_failing),
    ("package_out_of_memory", stuck_states::package_out_of_memory),
    ("image_pull_failing", stuck_states::image_pull_failing),
    ("pod_never_started", stuck_states::pod_never_started),
    ("mutated_pods_are_replaced_endlessly", stuck_states::mutated_pods_are_replaced_endlessly),
    ("drain_blocked_by_a_budget", stuck_states::drain_blocked_by_a_budget),
];

/// Temporary failures that recover without help.
pub const HEALING: Group = &[
    ("first_attempt_fails", self_healing::first_attempt_fails),
    ("image_pull_succeeds_later", self_healing::image_pull_succeeds_later),
    ("api_server_restarts", self_healing::api_server_restarts),
    ("nodes_reboot", self_healing::nodes_reboot),
    ("operator_restarts", self_healing::operator_restarts),
];

/// Temporary failures of Jobs, simulated by `model`.
pub const HEALING_JOBS: Group = &[("job_attempt_fails", self_healing::job_attempt_fails)];

/// Rollouts blocked by something outside the package.
pub const HELD_UP: Group = &[
    ("waits_for_an_earlier_custom_resource", blocked_rollouts::waits_for_an_earlier_custom_resource),
    ("policy_missing", blocked_rollouts::policy_missing),
    ("node_ignored", blocked_rollouts::node_ignored),
    ("batch_held_by_a_node", blocked_rollouts::batch_held_by_a_node),
    ("stale_erroring_after_reboot", blocked_rollouts::stale_erroring_after_reboot),
    ("no_node_selected", blocked_rollouts::no_node_selected),
    ("cordon_without_owner", blocked_rollouts::cordon_without_owner),
    ("untolerated_taint", blocked_rollouts::untolerated_taint),
    ("interrupt_waits_for_workload", blocked_rollouts::interrupt_waits_for_workload),
    ("runtime_required_deadlock", blocked_rollouts::runtime_required_deadlock),
    ("name_too_long", blocked_rollouts::name_too_long),
    ("pod_missing_package_annotation", blocked_rollouts::pod_missing_package_annotation),
    ("operator_not_running", blocked_rollouts::operator_not_running),
    ("malformed_state", blocked_rollouts::malformed_state),
    ("operator_makes_no_progress", blocked_rollouts::operator_makes_no_progress),
];

/// Behavior derived from the operator's source.
pub const FACTS: Group = &[
    ("deletion_leaves_conditions", operator_behavior::deletion_leaves_conditions),
    ("deletion_leaves_no_state_of_uninstalled", operator_behavior::deletion_leaves_no_state_of_uninstalled),
    ("batch_stop_returns_after_a_reset", operator_behavior::batch_stop_returns_after_a_reset),
    ("lost_post_interrupt_restarts_at_apply", operator_behavior::lost_post_interrupt_restarts_at_apply),
    ("rejected_pod_is_not_replaced", operator_behavior::rejected_pod_is_not_replaced),
    (
        "package_added_to_a_finished_chain_never_starts",
        operator_behavior::package_added_to_a_finished_chain_never_starts,
    ),
    ("dependency_cycle", operator_behavior::dependency_cycle),
    ("skipped_interrupt_is_run", operator_behavior::skipped_interrupt_is_run),
    ("violent_reboot_recovers", operator_behavior::violent_reboot_recovers),
    (
        "disabled_complete_resource_stays_complete",
        operator_behavior::disabled_complete_resource_stays_complete,
    ),
    (
        "runtime_required_taint_stays_until_complete",
        operator_behavior::runtime_required_taint_stays_until_complete,
    ),
    ("old_entry_is_removed_by_an_upgrade", operator_behavior::old_entry_is_removed_by_an_upgrade),
    ("serial_makes_no_progress", operator_behavior::serial_makes_no_progress),
    ("upgrade_ignores_the_budget", operator_behavior::upgrade_ignores_the_budget),
    ("config_change_waits_for_every_node", operator_behavior::config_change_waits_for_every_node),
    ("foreign_cordon_is_released", operator_behavior::foreign_cordon_is_released),
    ("recreated_resource_runs_nothing", operator_behavior::recreated_resource_runs_nothing),
    ("refused_drain_stops_one_custom_resource", operator_behavior::refused_drain_stops_one_custom_resource),
];

/// Our commands that write, and the operator's reaction.
pub const WRITES: Group = &[
    ("reset", writes::reset),
    ("package_rerun", writes::package_rerun),
    ("rerun_that_would_strand_is_refused", writes::rerun_that_would_strand_is_refused),
    ("pause_and_resume", writes::pause_and_resume),
    ("disable_and_enable", writes::disable_and_enable),
    ("node_ignore_and_undo", writes::node_ignore_and_undo),
    ("uninstall_and_cancel", writes::uninstall_and_cancel),
    ("deletion_freed_by_reset", remedies::deletion_freed_by_reset),
    ("deletion_freed_by_package_retry", remedies::deletion_freed_by_package_retry),
    ("deletion_freed_by_resume", remedies::deletion_freed_by_resume),
    ("deletion_freed_by_enable", remedies::deletion_freed_by_enable),
    ("deletion_freed_by_clearing_malformed_state", remedies::deletion_freed_by_clearing_malformed_state),
    ("deletion_freed_by_node_repair", remedies::deletion_freed_by_node_repair),
    ("malformed_state_is_reset", remedies::malformed_state_is_reset),
    ("malformed_state_is_repaired", remedies::malformed_state_is_repaired),
    ("paused_package_is_rerun_after_resume", remedies::paused_package_is_rerun_after_resume),
    (
        "uninstall_of_a_never_installed_package_is_cancelled",
        remedies::uninstall_of_a_never_installed_package_is_cancelled,
    ),
    (
        "uninstall_with_a_changed_version_is_cancelled",
        remedies::uninstall_with_a_changed_version_is_cancelled,
    ),
    ("uninstall_of_a_dependency_is_cancelled", remedies::uninstall_of_a_dependency_is_cancelled),
    ("orphaned_entry_is_removed", remedies::orphaned_entry_is_removed),
    ("orphaned_pod_is_deleted", remedies::orphaned_pod_is_deleted),
    ("stopped_rollout_continues", remedies::stopped_rollout_continues),
    ("resets_race_the_operator", races::resets_race_the_operator),
    ("pause_during_a_reset_is_kept", races::pause_during_a_reset_is_kept),
    ("race_of_two_resets", races::race_of_two_resets),
    ("race_of_pause_and_reset", races::race_of_pause_and_reset),
    ("race_of_undo_and_reset", races::race_of_undo_and_reset),
    ("race_of_strip_and_operator", races::race_of_strip_and_operator),
    (
        "saved_cleanups_of_a_recreated_resource_are_refused",
        preconditions::saved_cleanups_of_a_recreated_resource_are_refused,
    ),
    ("an_ended_pause_stops_a_reset", preconditions::an_ended_pause_stops_a_reset),
];

/// `undo`, and plans that are stopped or refused.
pub const UNDO: Group = &[
    ("restores_previous_values", undo::restores_previous_values),
    ("keeps_later_operator_writes", undo::keeps_later_operator_writes),
    ("reverts_pause_resume_disable_and_enable", undo::reverts_pause_resume_disable_and_enable),
    ("reverts_uninstall_and_cancel", undo::reverts_uninstall_and_cancel),
    ("reverts_a_policy_reset", undo::reverts_a_policy_reset),
    ("reverts_a_released_cordon", undo::reverts_a_released_cordon),
    ("canary_stops_on_failure", undo::canary_stops_on_failure),
    ("outdated_plan_is_refused", undo::outdated_plan_is_refused),
];

/// Commands with faults in their requests.
pub const FAULTS: Group =
    &[("with_the_operator", faults::with_the_operator), ("api_server_restart", faults::api_server_restart)];

/// Commands that wait for a long time.
pub const SOAK: Group = &[("soak", soak::soak)];

/// States without events or errors, which the first remedy that writes fixes.
pub const FIRST_CHANGE: Group = &[
    ("stage_never_ends", first_remedy::stage_never_ends),
    ("operator_scaled_to_zero", first_remedy::operator_scaled_to_zero),
    ("package_removed_from_the_spec", first_remedy::package_removed_from_the_spec),
    ("finished_uninstall_still_requested", first_remedy::finished_uninstall_still_requested),
    (
        "dependency_of_a_complete_package_uninstalled",
        first_remedy::dependency_of_a_complete_package_uninstalled,
    ),
    ("runtime_required_taint_deadlock", first_remedy::runtime_required_taint_deadlock),
    ("spec_rejected_by_the_operator", first_remedy::spec_rejected_by_the_operator),
    ("stale_pause", first_remedy::stale_pause),
    ("reboots_not_counted_together", first_remedy::reboots_not_counted_together),
    ("batch_slots_held", first_remedy::batch_slots_held),
    ("batch_counters_frozen", first_remedy::batch_counters_frozen),
    ("drain_evicts_package_pods", first_remedy::drain_evicts_package_pods),
    ("uninstall_unknown_to_operator", first_remedy::uninstall_unknown_to_operator),
];

/// The rights that commands need.
pub const RIGHTS: Group = &[
    ("read_commands", permissions::read_commands),
    ("write_commands", permissions::write_commands),
    ("cleanup_commands", permissions::cleanup_commands),
    ("role_manifests", permissions::role_manifests),
];

/// Everything is deleted, and each deadlock is fixed by its printed remedy.
pub const TEARDOWN: Group = &[
    ("waves_in_order", teardown::waves_in_order),
    ("two_teardowns_at_once", teardown::two_teardowns_at_once),
    ("ten_deadlocks", teardown::ten_deadlocks),
    (
        "stranded_uninstall_gets_its_interrupt_back",
        deletion_remedies::stranded_uninstall_gets_its_interrupt_back,
    ),
    ("stranded_entry_is_removed", deletion_remedies::stranded_entry_is_removed),
    ("failing_entry_is_removed", deletion_remedies::failing_entry_is_removed),
    ("entry_of_an_unreachable_node_is_removed", deletion_remedies::entry_of_an_unreachable_node_is_removed),
    ("ignored_node_is_unignored", deletion_remedies::ignored_node_is_unignored),
    ("paused_deletion_passes_over_a_node", deletion_remedies::paused_deletion_passes_over_a_node),
    (
        "node_is_reset_while_another_package_is_uninstalled",
        deletion_remedies::node_is_reset_while_another_package_is_uninstalled,
    ),
    ("taint_is_tolerated", deletion_remedies::taint_is_tolerated),
    ("missing_policy_is_restored", deletion_remedies::missing_policy_is_restored),
    ("drain_blocked_by_a_budget_is_freed", deletion_remedies::drain_blocked_by_a_budget_is_freed),
    ("missing_operator_requires_strip", deletion_remedies::missing_operator_requires_strip),
    ("earlier_custom_resource_is_disabled", deletion_remedies::earlier_custom_resource_is_disabled),
    ("stopped_rollout_is_reset", deletion_remedies::stopped_rollout_is_reset),
];

/// `uninstall` and its wait.
pub const UNINSTALL: Group = &[
    ("wait_for_completion", uninstall::wait_for_completion),
    ("wait_through_reboots", uninstall::wait_through_reboots),
    ("failing_script_ends_the_wait", uninstall::failing_script_ends_the_wait),
    ("failing_install_ends_the_wait", uninstall::failing_install_ends_the_wait),
    ("cancelled_in_progress", uninstall::cancelled_in_progress),
    ("cancelled_during_the_interrupt", uninstall::cancelled_during_the_interrupt),
    ("removed_and_undone", uninstall::removed_and_undone),
    ("all_packages", uninstall::all_packages),
    ("api_server_restarts", uninstall::api_server_restarts),
    ("timeout", uninstall::timeout),
    ("refusals", uninstall::refusals),
];

/// Deletions that are forced or undone, and what they leave behind.
pub const STRIP: Group = &[
    ("cleans_like_the_operator_when_complete", strip::cleans_like_the_operator_when_complete),
    ("cleans_like_the_operator_during_an_interrupt", strip::cleans_like_the_operator_during_an_interrupt),
    ("cleans_like_the_operator_with_purge_state", strip::cleans_like_the_operator_with_purge_state),
    (
        "cleans_like_the_operator_beside_another_resource",
        strip::cleans_like_the_operator_beside_another_resource,
    ),
    ("unneeded_runtime_required_taint_is_removed", strip::unneeded_runtime_required_taint_is_removed),
    ("foreign_finalizer_is_kept", undelete::foreign_finalizer_is_kept),
    ("undelete_after_a_strip", undelete::undelete_after_a_strip),
    ("undelete_while_terminating", undelete::undelete_while_terminating),
    ("undelete_restores_config_updates", undelete::undelete_restores_config_updates),
    ("undelete_during_an_uninstall", undelete::undelete_during_an_uninstall),
    ("undelete_keeps_the_budget", undelete::undelete_keeps_the_budget),
    ("leftovers_of_an_orphan", undelete::leftovers_of_an_orphan),
];

/// The older API with its webhooks. These scenarios run one after another, because the webhook port is fixed.
pub const WEBHOOKS: Group = &[
    ("create_validation", webhooks::create_validation),
    ("uninstall_validation", webhooks::uninstall_validation),
    ("accepted_but_harmful", webhooks::accepted_but_harmful),
    ("expired_certificate", webhooks::expired_certificate),
    ("server_dry_run", uninstall::server_dry_run),
    ("operator_gone", strip::webhooks_without_an_operator),
    ("teardown_refused", teardown::refused_by_a_webhook),
    ("lint_agrees", lint::webhook_agrees),
    ("lint_asks_the_server", lint::asks_the_server),
    ("lint_schemas", lint::schemas_are_current),
];

/// The newer API, simulated by `model`.
pub const NEW: Group = &[
    ("rollout", nodewright::rollout),
    ("attempt_and_job_failed", nodewright::attempt_and_job_failed),
    ("image_pull_failing", nodewright::image_pull_failing),
    ("uninstall", nodewright::uninstall),
    ("uninstall_complete", nodewright::uninstall_complete),
    ("uninstall_wait_reads_jobs", uninstall::wait_reads_jobs),
    ("paused_with_suspended_jobs", nodewright::paused_with_suspended_jobs),
    ("cordon_kept_after_taint_removal", nodewright::cordon_kept_after_taint_removal),
    ("drain_blocked_by_a_budget", nodewright::drain_blocked_by_a_budget),
    ("job_failed", failed_jobs::job_failed),
    ("stage_timed_out", failed_jobs::stage_timed_out),
    ("stale_job_terminating", job_timeouts::stale_job_terminating),
    ("drain_timed_out", job_timeouts::drain_timed_out),
    ("drain_blocked_by_an_unmanaged_pod", job_timeouts::drain_blocked_by_an_unmanaged_pod),
    ("failure_not_recorded", failed_jobs::failure_not_recorded),
    ("batch_held_by_a_failed_node", failed_jobs::batch_held_by_a_failed_node),
    ("job_without_pod", failed_jobs::job_without_pod),
    ("interrupt_over_its_restart_limit", failed_jobs::interrupt_over_its_restart_limit),
];

/// Nodes that are tainted, cordoned, ignored or not ready.
pub const KEPT_OUT: Group = &[
    ("auto_taint_not_set", excluded_nodes::auto_taint_not_set),
    ("taint_never_removed", excluded_nodes::taint_never_removed),
    ("taint_is_lifted_while_paused", excluded_nodes::taint_is_lifted_while_paused),
    ("manual_cordon", excluded_nodes::manual_cordon),
    ("node_not_ready_during_work", excluded_nodes::node_not_ready_during_work),
    ("batch_of_ignored_nodes", excluded_nodes::batch_of_ignored_nodes),
];

/// Specs that keep packages from starting.
pub const NOT_BEGUN: Group = &[
    ("container_not_created", blocked_by_spec::container_not_created),
    ("image_reference_truncated", blocked_by_spec::image_reference_truncated),
    ("package_label_invalid", blocked_by_spec::package_label_invalid),
    ("auto_taint_key_invalid", blocked_by_spec::auto_taint_key_invalid),
];

/// Specs that the operator accepts but cannot apply.
pub const SPECS: Group = &[
    ("variable_defaulted_by_the_server", unworkable_specs::variable_defaulted_by_the_server),
    ("resource_added_by_a_limit_range", unworkable_specs::resource_added_by_a_limit_range),
    ("config_change_not_applied", unworkable_specs::config_change_not_applied),
    ("config_map_name_taken", unworkable_specs::config_map_name_taken),
];

/// States that are detected by their age.
pub const LATER: Group = &[
    ("pod_stuck_terminating", overdue_states::pod_stuck_terminating),
    ("deletion_not_progressing", overdue_states::deletion_not_progressing),
    ("operator_makes_no_progress", overdue_states::operator_makes_no_progress),
    ("not_migrated_yet", overdue_states::not_migrated_yet),
];

/// Requests of the operator that the API server refuses.
pub const REFUSED: Group = &[
    ("pod_security_forbids_package_pods", refused_requests::pod_security_forbids_package_pods),
    ("webhook_for_pods_has_no_service", refused_requests::webhook_for_pods_has_no_service),
    ("operator_may_not_create_pods", refused_requests::operator_may_not_create_pods),
    ("limit_range_forbids_the_package", refused_requests::limit_range_forbids_the_package),
];

/// Objects and clusters that are too large.
pub const TOO_LARGE: Group = &[
    ("status_too_large", size_limits::status_too_large),
    ("cluster_too_large_for_the_operator", size_limits::cluster_too_large_for_the_operator),
];

/// CRDs of earlier operators.
pub const OLDER_DEFINITIONS: Group = &[("uninstall_is_pruned", older_definitions::uninstall_is_pruned)];

/// The choice of the active API, and reports without some of the rights.
pub const GENERATIONS: &[(&str, Start, Scenario)] = &[
    ("no_api_served", Cluster::bare, flavors::no_api_served),
    ("only_skyhook_served", Cluster::old, flavors::only_skyhook_served),
    ("only_nodewright_served", Cluster::new, flavors::only_nodewright_served),
    ("both_served_and_nodewright_active", Cluster::old, flavors::both_served_and_nodewright_active),
    ("operator_rolled_back", Cluster::old, flavors::operator_rolled_back),
    ("without_rights", Cluster::old, flavors::without_rights),
    ("with_one_right_missing", Cluster::old, flavors::with_one_right_missing),
    ("commands_right_after_creation", Cluster::old, flavors::commands_right_after_creation),
];

/// Migration from the real older operator to the simulated newer one.
pub const MIGRATION: Group = &[
    ("migration_hold", nodewright::migration_hold),
    ("pods_of_the_older_operator", migration::pods_of_the_older_operator),
    ("two_owning_resources", migration::two_owning_resources),
    ("legacy_keys_left", migration::legacy_keys_left),
    ("mirrored_and_complete", nodewright::mirrored_and_complete),
];

/// Encodings of the API server; no operator is installed.
pub const ENCODINGS: Group = &[
    ("every_field_in_json_and_protobuf", encodings::every_field_in_json_and_protobuf),
    ("refusal_in_protobuf", encodings::refusal_in_protobuf),
];

/// User input that kubectl or the API server reads, too; no operator is installed.
pub const AS_KUBECTL: Group = &[
    ("label_selectors_match_the_api_server", kubectl_parity::label_selectors_match_the_api_server),
    ("merged_kubeconfigs_match_kubectl", kubectl_parity::merged_kubeconfigs_match_kubectl),
];

/// Tasks of the README and `docs/tasks.md`.
pub const README: Group = &[
    ("find_and_fix_a_stuck_deletion", readme::find_and_fix_a_stuck_deletion),
    ("reset_one_node", readme::reset_one_node),
    ("uninstall_a_package", readme::uninstall_a_package),
    ("force_a_deletion", readme::force_a_deletion),
];
