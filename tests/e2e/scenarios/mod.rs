//! All scenarios. Each has a cluster of its own, so that what one does to the operator is not another's weather.

mod as_kubectl;
mod cures;
mod deletion;
mod deletion_cured;
mod encodings;
mod facts;
mod faults;
mod first_change;
mod flavors;
mod healing;
mod healthy;
mod held_up;
mod kept_out;
mod later;
mod migrated;
mod modelled;
mod not_begun;
mod overdue;
mod parked;
mod races;
mod readme;
mod rights;
mod setting;
mod soak;
mod specs;
mod strip;
mod stuck;
mod teardown;
mod too_large;
mod undelete;
mod undo;
mod uninstall;
mod webhooks;
mod writes;

use std::sync::Mutex;

use anyhow::Result;
use libtest_mimic::Trial;

use crate::{cluster::Cluster, tools::Tools};

type Scenario = fn(&Cluster);
type Group = &'static [(&'static str, Scenario)];

/// The old generation, each with three nodes.
const OLD: Group = &[
    ("rollout", healthy::rollout),
    ("rollout_with_a_budget", healthy::rollout_with_a_budget),
    ("upgrade", healthy::upgrade),
    ("config_change", healthy::config_change),
    ("uninstall_and_reinstall", healthy::uninstall_and_reinstall),
    ("reboot", healthy::reboot),
    ("pause_and_resume", healthy::pause_and_resume),
    ("disable_and_enable", healthy::disable_and_enable),
    ("deletion", healthy::deletion),
    ("drain", healthy::drain),
    ("joining_nodes", healthy::joining_nodes),
    ("one_after_the_other", healthy::one_after_the_other),
    ("by_policy", healthy::by_policy),
    ("operator_restarts", healthy::operator_restarts),
    (
        "deletion_waits_for_erroring_install",
        deletion::deletion_waits_for_erroring_install,
    ),
    (
        "deletion_freed_by_repair",
        deletion::deletion_freed_by_repair,
    ),
    ("deletion_freed_by_reset", deletion::deletion_freed_by_reset),
    (
        "uninstall_interrupt_without_interrupt",
        stuck::uninstall_interrupt_without_interrupt,
    ),
    (
        "uninstall_requested_but_never_installed",
        stuck::uninstall_requested_but_never_installed,
    ),
    ("two_operators_running", stuck::two_operators_running),
    (
        "version_changed_while_uninstalling",
        stuck::version_changed_while_uninstalling,
    ),
    (
        "version_changed_under_the_operators_eyes",
        stuck::version_changed_under_the_operators_eyes,
    ),
    (
        "cancelled_uninstall_still_running",
        stuck::cancelled_uninstall_still_running,
    ),
    ("name_equals_taint_key", deletion::name_equals_taint_key),
    (
        "orphaned_uninstall_complete",
        deletion::orphaned_uninstall_complete,
    ),
    (
        "deletion_blocked_by_malformed_state",
        deletion::deletion_blocked_by_malformed_state,
    ),
    (
        "deletion_blocked_while_paused",
        deletion::deletion_blocked_while_paused,
    ),
    (
        "deletion_blocked_while_disabled",
        deletion::deletion_blocked_while_disabled,
    ),
    ("dependency_uninstalled", stuck::dependency_uninstalled),
    ("uninstall_failing", stuck::uninstall_failing),
    ("package_out_of_memory", stuck::package_out_of_memory),
    ("image_pull_failing", stuck::image_pull_failing),
    ("pod_never_acknowledged", stuck::pod_never_acknowledged),
    (
        "changed_pods_are_replaced_for_ever",
        stuck::changed_pods_are_replaced_for_ever,
    ),
    (
        "drain_blocked_by_a_budget",
        stuck::drain_blocked_by_a_budget,
    ),
];

/// What goes wrong once and heals by itself.
const HEALING: Group = &[
    ("first_attempt_fails", healing::first_attempt_fails),
    ("image_comes_late", healing::image_comes_late),
    ("api_server_restarts", healing::api_server_restarts),
    ("nodes_reboot", healing::nodes_reboot),
    ("operator_comes_back", healing::operator_comes_back),
];

/// The same with Jobs, played by `model`.
const HEALING_JOBS: Group = &[("attempt_of_a_job_fails", healing::attempt_of_a_job_fails)];

/// Held up by something outside the package.
const HELD_UP: Group = &[
    ("waits_for_earlier", held_up::waits_for_earlier),
    ("policy_missing", held_up::policy_missing),
    ("node_ignored", held_up::node_ignored),
    ("batch_held_by_a_node", held_up::batch_held_by_a_node),
    (
        "stale_erroring_after_reboot",
        held_up::stale_erroring_after_reboot,
    ),
    ("no_node_selected", held_up::no_node_selected),
    ("cordon_without_owner", held_up::cordon_without_owner),
    ("untolerated_taint", held_up::untolerated_taint),
    (
        "interrupt_waits_for_workload",
        held_up::interrupt_waits_for_workload,
    ),
    (
        "runtime_required_deadlock",
        held_up::runtime_required_deadlock,
    ),
    ("name_too_long", held_up::name_too_long),
    (
        "pod_missing_package_annotation",
        held_up::pod_missing_package_annotation,
    ),
    ("operator_not_running", held_up::operator_not_running),
    ("malformed_state", held_up::malformed_state),
    ("nothing_at_work", held_up::nothing_at_work),
];

/// What was derived from reading the operator.
const FACTS: Group = &[
    (
        "deletion_leaves_conditions",
        facts::deletion_leaves_conditions,
    ),
    (
        "deletion_leaves_no_state_of_uninstalled",
        facts::deletion_leaves_no_state_of_uninstalled,
    ),
    (
        "batch_stop_returns_after_a_reset",
        facts::batch_stop_returns_after_a_reset,
    ),
    (
        "lost_post_interrupt_restarts_at_apply",
        facts::lost_post_interrupt_restarts_at_apply,
    ),
    (
        "rejected_pod_is_not_replaced",
        facts::rejected_pod_is_not_replaced,
    ),
    (
        "package_added_to_a_finished_chain",
        facts::package_added_to_a_finished_chain,
    ),
    ("dependency_cycle", facts::dependency_cycle),
    (
        "skipped_interrupt_is_taken_up",
        facts::skipped_interrupt_is_taken_up,
    ),
    (
        "rough_reboot_heals_itself",
        facts::rough_reboot_heals_itself,
    ),
    (
        "disabling_what_is_complete",
        facts::disabling_what_is_complete,
    ),
    ("runtime_required_taint", facts::runtime_required_taint),
    (
        "old_entry_is_upgraded_away",
        facts::old_entry_is_upgraded_away,
    ),
    (
        "serial_never_gets_anywhere",
        facts::serial_never_gets_anywhere,
    ),
    (
        "upgrade_ignores_the_budget",
        facts::upgrade_ignores_the_budget,
    ),
    (
        "config_change_waits_for_every_node",
        facts::config_change_waits_for_every_node,
    ),
    (
        "foreign_cordon_is_released",
        facts::foreign_cordon_is_released,
    ),
    ("recreated_runs_nothing", facts::recreated_runs_nothing),
];

/// What our own commands write, and what becomes of it.
const WRITES: Group = &[
    ("reset", writes::reset),
    ("package_rerun", writes::package_rerun),
    ("stranding_is_refused", writes::stranding_is_refused),
    ("pause_and_resume", writes::pause_and_resume),
    ("disable_and_enable", writes::disable_and_enable),
    ("ignore_and_undo", writes::ignore_and_undo),
    ("uninstall_and_cancel", writes::uninstall_and_cancel),
    ("deletion_freed_by_reset", cures::deletion_freed_by_reset),
    (
        "deletion_freed_by_taking_up",
        cures::deletion_freed_by_taking_up,
    ),
    ("deletion_resumed", cures::deletion_resumed),
    ("deletion_enabled", cures::deletion_enabled),
    (
        "deletion_freed_of_malformed_state",
        cures::deletion_freed_of_malformed_state,
    ),
    (
        "deletion_goes_on_with_its_state_restored",
        cures::deletion_goes_on_with_its_state_restored,
    ),
    ("malformed_state", cures::malformed_state),
    ("malformed_state_restored", cures::malformed_state_restored),
    ("rerun_while_paused", cures::rerun_while_paused),
    ("never_installed", cures::never_installed),
    ("version_changed", cures::version_changed),
    ("dependency_back", cures::dependency_back),
    ("orphan_forgotten", cures::orphan_forgotten),
    ("orphaned_pod_deleted", cures::orphaned_pod_deleted),
    ("rollout_goes_on", cures::rollout_goes_on),
    ("resets_race_the_operator", races::resets_race_the_operator),
    (
        "a_pause_during_a_reset_stays",
        races::a_pause_during_a_reset_stays,
    ),
    ("resets_beside_each_other", races::resets_beside_each_other),
    ("a_pause_beside_a_reset", races::a_pause_beside_a_reset),
    ("an_undo_beside_a_reset", races::an_undo_beside_a_reset),
    (
        "a_strip_beside_the_operator",
        races::a_strip_beside_the_operator,
    ),
];

/// What our own commands write, taken back; and plans that stop by themselves.
const UNDO: Group = &[
    ("gives_back_what_was_there", undo::gives_back_what_was_there),
    (
        "leaves_what_the_operator_did",
        undo::leaves_what_the_operator_did,
    ),
    ("of_stopping_and_going_on", undo::of_stopping_and_going_on),
    ("of_an_uninstall", undo::of_an_uninstall),
    ("of_a_policy_reset", undo::of_a_policy_reset),
    ("of_a_cordon_release", undo::of_a_cordon_release),
    ("canary_stops_by_itself", undo::canary_stops_by_itself),
    ("plan_that_came_too_late", undo::plan_that_came_too_late),
];

/// What becomes of a command when a request is spoiled.
const FAULTS: Group = &[
    ("under_the_operator", faults::under_the_operator),
    (
        "while_the_api_server_restarts",
        faults::while_the_api_server_restarts,
    ),
];

/// What waits for long.
const SOAK: Group = &[("soak", soak::soak)];

/// What nothing announces, cured by the first change that is printed.
const FIRST_CHANGE: Group = &[
    ("stage_that_never_ends", first_change::stage_that_never_ends),
    (
        "operator_scaled_to_zero",
        first_change::operator_scaled_to_zero,
    ),
    ("package_left_the_spec", first_change::package_left_the_spec),
    ("uninstall_finished", first_change::uninstall_finished),
    (
        "dependency_uninstalled_under_a_complete_one",
        first_change::dependency_uninstalled_under_a_complete_one,
    ),
    (
        "deadlock_over_the_taint",
        first_change::deadlock_over_the_taint,
    ),
    (
        "spec_that_the_operator_rejects",
        first_change::spec_that_the_operator_rejects,
    ),
    ("pause_left_behind", first_change::pause_left_behind),
    (
        "reboots_not_counted_together",
        first_change::reboots_not_counted_together,
    ),
    ("batch_slots_held", first_change::batch_slots_held),
    ("batch_counters_frozen", first_change::batch_counters_frozen),
    (
        "drain_evicts_package_pods",
        first_change::drain_evicts_package_pods,
    ),
    (
        "uninstall_unknown_to_operator",
        first_change::uninstall_unknown_to_operator,
    ),
];

/// What one has to be allowed.
const RIGHTS: Group = &[
    ("to_look", rights::to_look),
    ("to_change", rights::to_change),
    ("to_clean_up", rights::to_clean_up),
    ("as_manifests", rights::as_manifests),
];

/// Everything goes, and each deadlock of deletions is cured as printed.
const TEARDOWN: Group = &[
    ("in_order", teardown::in_order),
    ("beside_each_other", teardown::beside_each_other),
    ("ten_deadlocks", teardown::ten_deadlocks),
    (
        "stranded_gets_its_interrupt_back",
        deletion_cured::stranded_gets_its_interrupt_back,
    ),
    (
        "stranded_is_forgotten",
        deletion_cured::stranded_is_forgotten,
    ),
    (
        "failing_uninstall_is_forgotten",
        deletion_cured::failing_uninstall_is_forgotten,
    ),
    (
        "silent_node_is_forgotten",
        deletion_cured::silent_node_is_forgotten,
    ),
    (
        "ignored_node_is_taken_up",
        deletion_cured::ignored_node_is_taken_up,
    ),
    (
        "tainted_node_is_tolerated",
        deletion_cured::tainted_node_is_tolerated,
    ),
    (
        "policy_that_is_missing",
        deletion_cured::policy_that_is_missing,
    ),
    (
        "drain_of_an_uninstall",
        deletion_cured::drain_of_an_uninstall,
    ),
    ("operator_is_gone", deletion_cured::operator_is_gone),
    (
        "earlier_one_is_disabled",
        deletion_cured::earlier_one_is_disabled,
    ),
    ("stopped_rollout", deletion_cured::stopped_rollout),
];

/// `uninstall`, and what it waits for.
const UNINSTALL: Group = &[
    ("waited_for", uninstall::waited_for),
    ("with_an_interrupt", uninstall::with_an_interrupt),
    ("failing_and_repaired", uninstall::failing_and_repaired),
    (
        "not_begun_while_erroring",
        uninstall::not_begun_while_erroring,
    ),
    ("cancelled_in_progress", uninstall::cancelled_in_progress),
    (
        "cancelled_at_the_interrupt",
        uninstall::cancelled_at_the_interrupt,
    ),
    ("removed_and_undone", uninstall::removed_and_undone),
    ("all_packages", uninstall::all_packages),
    ("api_server_restarts", uninstall::api_server_restarts),
    ("timed_out", uninstall::timed_out),
    ("refusals", uninstall::refusals),
];

/// Deletions that are ended by force or taken back, and what they leave.
const STRIP: Group = &[
    ("as_clean_when_complete", strip::as_clean_when_complete),
    ("as_clean_in_an_interrupt", strip::as_clean_in_an_interrupt),
    (
        "as_clean_of_what_was_uninstalled",
        strip::as_clean_of_what_was_uninstalled,
    ),
    ("as_clean_beside_another", strip::as_clean_beside_another),
    (
        "the_taint_goes_where_nothing_needs_it",
        strip::the_taint_goes_where_nothing_needs_it,
    ),
    (
        "a_foreign_finalizer_survives",
        undelete::a_foreign_finalizer_survives,
    ),
    ("undelete_after_a_strip", undelete::undelete_after_a_strip),
    (
        "undelete_while_terminating",
        undelete::undelete_while_terminating,
    ),
    (
        "undelete_of_what_was_configured_anew",
        undelete::undelete_of_what_was_configured_anew,
    ),
    ("undelete_under_way", undelete::undelete_under_way),
    ("leftovers_of_an_orphan", undelete::leftovers_of_an_orphan),
];

/// The old generation with its webhooks, one at a time: they share a port.
const WEBHOOKS: Group = &[
    ("creating", webhooks::creating),
    ("uninstalling", webhooks::uninstalling),
    ("let_in", webhooks::let_in),
    ("expired_certificate", webhooks::expired_certificate),
    ("rehearsed", uninstall::rehearsed),
    (
        "operator_gone",
        strip::with_the_operator_gone_and_its_webhooks_left,
    ),
    ("teardown_refused", teardown::refused_by_a_webhook),
];

/// The new generation, played by `model`.
const NEW: Group = &[
    ("rollout", modelled::rollout),
    (
        "attempt_failed_and_job_given_up",
        modelled::attempt_failed_and_job_given_up,
    ),
    ("image_pull_failing", modelled::image_pull_failing),
    ("uninstall", modelled::uninstall),
    ("uninstall_complete", modelled::uninstall_complete),
    ("uninstall_waited_for", uninstall::read_from_jobs),
    (
        "paused_with_suspended_jobs",
        modelled::paused_with_suspended_jobs,
    ),
    ("cordon_left_to_others", modelled::cordon_left_to_others),
    (
        "drain_blocked_by_a_budget",
        modelled::drain_blocked_by_a_budget,
    ),
    ("job_given_up", parked::job_given_up),
    ("stage_timed_out", parked::stage_timed_out),
    ("stale_job_terminating", overdue::stale_job_terminating),
    ("drain_timed_out", overdue::drain_timed_out),
    (
        "drain_blocked_by_an_unmanaged_pod",
        overdue::drain_blocked_by_an_unmanaged_pod,
    ),
    ("failure_not_recorded", parked::failure_not_recorded),
    (
        "batch_held_by_parked_node",
        parked::batch_held_by_parked_node,
    ),
    ("job_without_pod", parked::job_without_pod),
    (
        "interrupt_over_its_restart_limit",
        parked::interrupt_over_its_restart_limit,
    ),
];

/// Nodes that somebody or something is kept off.
const KEPT_OUT: Group = &[
    ("taint_that_was_not_set", kept_out::taint_that_was_not_set),
    (
        "taint_that_nothing_lifts",
        kept_out::taint_that_nothing_lifts,
    ),
    ("cordon_by_hand", kept_out::cordon_by_hand),
    ("node_that_went_away", kept_out::node_that_went_away),
    ("batch_of_ignored_nodes", kept_out::batch_of_ignored_nodes),
];

/// What a spec says that nothing can be begun with.
const NOT_BEGUN: Group = &[
    ("container_not_created", not_begun::container_not_created),
    (
        "image_reference_truncated",
        not_begun::image_reference_truncated,
    ),
    ("package_label_invalid", not_begun::package_label_invalid),
    ("auto_taint_key_invalid", not_begun::auto_taint_key_invalid),
];

/// Specs that the operator accepts and cannot carry out.
const SPECS: Group = &[
    (
        "variable_that_the_server_completes",
        specs::variable_that_the_server_completes,
    ),
    (
        "resource_that_a_limit_range_adds",
        specs::resource_that_a_limit_range_adds,
    ),
    (
        "config_change_that_does_not_arrive",
        specs::config_change_that_does_not_arrive,
    ),
    ("config_map_name_taken", specs::config_map_name_taken),
];

/// What only time tells.
const LATER: Group = &[
    ("pod_stuck_terminating", later::pod_stuck_terminating),
    ("deletion_not_progressing", later::deletion_not_progressing),
    ("nothing_at_work", later::nothing_at_work),
    ("not_migrated_yet", later::not_migrated_yet),
];

/// What no longer fits, with nobody to make it smaller.
const TOO_LARGE: Group = &[
    ("status", too_large::status),
    (
        "cluster_for_its_operator",
        too_large::cluster_for_its_operator,
    ),
];

/// Which generation rules, and what one sees without rights.
const GENERATIONS: &[(&str, Start, Scenario)] = &[
    ("neither", Cluster::bare, flavors::neither),
    ("only_the_old", Cluster::old, flavors::only_the_old),
    ("only_the_new", Cluster::new, flavors::only_the_new),
    (
        "both_and_the_new_rules",
        Cluster::old,
        flavors::both_and_the_new_rules,
    ),
    ("rolled_back", Cluster::old, flavors::rolled_back),
    ("without_rights", Cluster::old, flavors::without_rights),
    (
        "with_one_right_missing",
        Cluster::old,
        flavors::with_one_right_missing,
    ),
    ("asked_too_early", Cluster::old, flavors::asked_too_early),
];

/// From the real old generation to the played new one.
const MIGRATION: Group = &[
    ("migration_hold", modelled::migration_hold),
    (
        "pods_of_the_older_operator",
        migrated::pods_of_the_older_operator,
    ),
    ("two_owners", migrated::two_owners),
    ("legacy_keys_left", migrated::legacy_keys_left),
    ("mirrored_and_complete", modelled::mirrored_and_complete),
];

/// Kubernetes alone.
const ENCODINGS: Group = &[
    ("of_every_field", encodings::of_every_field),
    ("of_a_refusal", encodings::of_a_refusal),
];

/// What users hand over, read as kubectl and the API server read it.
const AS_KUBECTL: Group = &[
    ("label_selectors", as_kubectl::label_selectors),
    ("lists_of_kubeconfigs", as_kubectl::lists_of_kubeconfigs),
];

/// What the README shows.
const README: Group = &[
    ("why_and_cure", readme::why_and_cure),
    ("reset_one_node", readme::reset_one_node),
    ("uninstall_a_package", readme::uninstall_a_package),
    ("force_a_deletion", readme::force_a_deletion),
];

type Start = fn(&Tools) -> Result<Cluster>;

pub fn all(tools: &Tools) -> Vec<Trial> {
    let groups: &[(&str, Start, Group)] = &[
        ("old", Cluster::old, OLD),
        ("healing", Cluster::old, HEALING),
        ("healing", Cluster::new, HEALING_JOBS),
        ("held_up", Cluster::old, HELD_UP),
        ("facts", Cluster::old, FACTS),
        ("kept_out", Cluster::old, KEPT_OUT),
        ("not_begun", Cluster::old, NOT_BEGUN),
        ("specs", Cluster::old, SPECS),
        ("later", Cluster::old, LATER),
        ("writes", Cluster::old, WRITES),
        ("first_change", Cluster::old, FIRST_CHANGE),
        ("undo", Cluster::old, UNDO),
        ("rights", Cluster::old, RIGHTS),
        ("teardown", Cluster::old, TEARDOWN),
        ("uninstall", Cluster::old, UNINSTALL),
        ("strip", Cluster::old, STRIP),
        ("webhooks", Cluster::old_with_webhooks, WEBHOOKS),
        ("modelled", Cluster::new, NEW),
        ("migration", Cluster::old, MIGRATION),
        ("encodings", Cluster::bare, ENCODINGS),
        ("as_kubectl", Cluster::bare, AS_KUBECTL),
        ("too_large", Cluster::unoperated, TOO_LARGE),
        ("readme", Cluster::old, README),
        ("faults", Cluster::old, FAULTS),
        ("soak", Cluster::old, SOAK),
    ];
    let named = GENERATIONS
        .iter()
        .map(|(name, start, run)| ("flavors", *start, *name, *run));
    let all = groups.iter().flat_map(|(group, start, scenarios)| {
        scenarios
            .iter()
            .map(move |(name, run)| (*group, *start, *name, *run))
    });
    let trial = |(group, start, name, run): (&str, Start, &str, Scenario)| {
        let (tools, alone) = (tools.clone(), group == "webhooks");
        let trial = Trial::test(format!("{group}::{name}"), move || {
            let _alone = alone.then(|| WEBHOOK_PORT.lock());
            let cluster = start(&tools).map_err(|error| format!("{error:#}"))?;
            run(&cluster.with_nodes(3));
            Ok(())
        });
        trial.with_ignored_flag(alone && !crate::in_network_namespace())
    };
    let mut trials: Vec<Trial> = all.chain(named).map(trial).collect();
    // It starts as many clusters as it has use for.
    let tools = tools.clone();
    trials.push(Trial::test("faults::with_the_operator_away", move || {
        faults::with_the_operator_away(&tools);
        Ok(())
    }));
    trials
}

static WEBHOOK_PORT: Mutex<()> = Mutex::new(());
