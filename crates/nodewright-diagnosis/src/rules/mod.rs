//! The rules: each detects one way to get stuck, and offers remedies.
//!
//! To add a rule: write `crates/nodewright-diagnosis/src/rules/NAME.rs` with its documentation, code and `detect`; list it below by name and by
//! code; write `tests/rules/NAME.yaml` with bad and good cases and a mark for each finding (CONTRIBUTING.md). The
//! tests report anything missing.

mod finding;
mod findings;
mod remedies;
mod report;
pub mod support;

pub use crate::plan::Grade;
pub use finding::Subject;
pub use finding::{ENDED_RECONCILE, Evidence, Finding, FindingKey, FindingSummary, Severity};
pub use findings::Findings;
pub use name_equals_taint_key::names_taken_by;
pub use remedies::remedy::{Remedy, Undo, uninstall_argument, uninstall_command};
pub use report::{Counts, NotChecked, Report, Scope, Verdict, diagnose};
pub use status_too_large::LIMIT as STATUS_LIMIT;
pub use support::blockers::Blocks;
pub use support::evidence::some_of;
pub use support::reason::Reason;

use crate::cluster::{Cluster, Source};

/// One known way to get stuck, with its detection.
#[derive(Debug)]
pub struct Rule {
    /// A permanent code such as `SKY101`, never renumbered or reused.
    pub code: &'static str,
    /// The problem in a few words: `deletion-waits-for-erroring-install`.
    pub name: &'static str,
    /// Severity of the findings, unless the rule sets another one for a finding.
    pub severity: Severity,
    /// Sources that the rule must read to report that no problem exists.
    pub needs: &'static [Source],
    /// Sources that make the findings more certain or better explained.
    pub optional_sources: &'static [Source],
    /// The operations blocked while a finding of the rule exists.
    pub blocks: &'static [Blocks],
    /// Whether the executor or the kubelet retries automatically, so that the problem may resolve itself.
    pub retried: bool,
    /// The role of the findings for rules about effects.
    pub finds: Finds,
    /// The full text: meaning, causes, confirmation, remedies, affected versions.
    pub docs: &'static str,
    pub detect: fn(&Cluster, &mut Findings),
}

/// The role of a rule's findings for rules about effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finds {
    /// Problems. An error keeps its node from making progress.
    Causes,
    /// Intended waits that last until someone intervenes. A warning also keeps its node from making progress.
    LastingWaits,
    /// Effects of other problems. Rules about effects ignore them; only rules about missing progress count
    /// them as explanations.
    Effects,
    /// Blocked batches: the operator does not choose their waiting nodes, so custom resources that wait for
    /// these nodes keep waiting.
    HeldNodes,
    /// Missing progress that no other rule explains.
    Unexplained,
    /// Values that could not be read: they explain nothing.
    Unknowns,
}

impl Rule {
    /// The first line of the documentation.
    pub fn summary(&self) -> &'static str {
        self.docs.lines().next().unwrap_or_default().trim()
    }
}

/// Declares a rule: documentation, code, name, severity, sources and blocked operations.
macro_rules! rule {
    ($(#[doc = $doc:literal])+ $code:ident $name:literal $severity:ident
     needs $($need:ident)+ $(, also $($also:ident)+)?
     $(, blocks $($blocks:ident)+)? $(, retried $retried:literal)? $(, finds $finds:ident)?) => {
        $(#[doc = $doc])+
        pub static RULE: $crate::rules::Rule = $crate::rules::Rule {
            code: stringify!($code),
            name: $name,
            severity: $crate::rules::Severity::$severity,
            needs: &[$($crate::cluster::Source::$need),+],
            optional_sources: &[$($($crate::cluster::Source::$also),+)?],
            blocks: &[$($($crate::rules::Blocks::$blocks),+)?],
            retried: false $(|| $retried)?,
            finds: rule!(@finds $($finds)?),
            docs: concat!($($doc, "\n"),+),
            detect,
        };
    };
    (@finds) => {
        $crate::rules::Finds::Causes
    };
    (@finds $finds:ident) => {
        $crate::rules::Finds::$finds
    };
}

mod action_overdue;
mod auto_taint_key_invalid;
mod batch_counters_frozen;
mod batch_held_by_node;
mod batch_of_ignored_nodes;
mod batch_slots_held;
mod cancelled_uninstall_still_running;
mod config_change_pending;
mod config_map_name_taken;
mod container_not_created;
mod cordon_lifted;
mod cordon_without_owner;
mod crd_being_deleted;
mod deletion_blocked_by_malformed_state;
mod deletion_blocked_while_disabled;
mod deletion_blocked_while_paused;
mod deletion_not_progressing;
mod deletion_passes_over_node;
mod deletion_waits_for_erroring_install;
mod dependency_cycle;
mod dependency_uninstalled;
mod deployment_policy_missing;
mod disabled;
mod drain_blocked;
mod drain_evicts_package_pods;
mod drain_timed_out;
mod ended_pod_blocks_stage;
mod failed_node_counted_as_waiting;
mod foreign_container_running;
mod foreign_cordon;
mod foreign_webhook_unreachable;
mod image_not_pulled;
mod image_reference_truncated;
mod interrupt_skipped_for_good;
mod interrupt_waits_for_workload;
mod job_cannot_create_pod;
mod job_controller_stopped;
mod job_suspended_after_pause;
mod job_suspended_by_others;
mod leftovers_of_deleted_skyhook;
mod legacy_keys_left;
mod legacy_policy_left;
mod migration_hold;
mod name_equals_taint_key;
mod name_too_long;
mod no_node_selected;
mod node_being_deleted;
mod node_erroring_without_cause;
mod node_ignored;
mod node_not_ready;
mod node_state_malformed;
mod not_migrated_yet;
mod nothing_at_work;
mod old_pods_under_paused_nodewright;
mod operator_not_running;
mod operator_undersized;
mod orphaned_pods_and_jobs;
mod orphaned_uninstall_complete;
mod package_erroring;
mod package_left_the_spec;
mod package_never_scheduled;
mod package_pods_evicted;
mod pause_left_behind;
mod paused;
mod persistent_runtime_required_cordon;
mod pod_changed_by_admission;
mod pod_missing_package_annotation;
mod pod_not_started;
mod pod_stuck_terminating;
mod pods_of_older_operator;
mod reboots_not_counted_together;
mod result_not_recorded;
mod rollout_stopped;
mod runtime_required_deadlock;
mod runtime_required_not_in_force;
mod runtime_required_taint_kept;
mod serial_loses_state;
mod spec_rejected_by_operator;
mod spec_rewritten_in_turn;
mod stage_running_too_long;
mod stale_erroring_after_reboot;
mod stale_job_terminating;
mod stale_nodewrights_after_rollback;
mod status_too_large;
mod two_operators_running;
mod two_owners;
mod uninstall_failing;
mod uninstall_finished_request_stands;
mod uninstall_interrupt_without_interrupt;
mod uninstall_requested_but_never_installed;
mod uninstall_unknown_to_operator;
mod untolerated_taint;
pub mod upgrade_abandoned;
mod value_not_readable;
mod value_refused;
mod version_changed_while_uninstalling;
mod waits_for_earlier;
mod webhook_unreachable;

/// Every rule, in the order of codes.
pub static ALL: &[&Rule] = &[
    &deletion_waits_for_erroring_install::RULE,
    &uninstall_interrupt_without_interrupt::RULE,
    &uninstall_requested_but_never_installed::RULE,
    &version_changed_while_uninstalling::RULE,
    &cancelled_uninstall_still_running::RULE,
    &name_equals_taint_key::RULE,
    &orphaned_uninstall_complete::RULE,
    &deletion_blocked_by_malformed_state::RULE,
    &deletion_blocked_while_paused::RULE,
    &deletion_blocked_while_disabled::RULE,
    &dependency_uninstalled::RULE,
    &uninstall_failing::RULE,
    &deletion_not_progressing::RULE,
    &deletion_passes_over_node::RULE,
    &uninstall_finished_request_stands::RULE,
    &package_erroring::RULE,
    &image_not_pulled::RULE,
    &container_not_created::RULE,
    &ended_pod_blocks_stage::RULE,
    &pod_not_started::RULE,
    &node_state_malformed::RULE,
    &dependency_cycle::RULE,
    &job_suspended_after_pause::RULE,
    &package_never_scheduled::RULE,
    &interrupt_skipped_for_good::RULE,
    &pod_stuck_terminating::RULE,
    &spec_rejected_by_operator::RULE,
    &image_reference_truncated::RULE,
    &serial_loses_state::RULE,
    &pod_changed_by_admission::RULE,
    &node_erroring_without_cause::RULE,
    &stale_job_terminating::RULE,
    &failed_node_counted_as_waiting::RULE,
    &stage_running_too_long::RULE,
    &job_cannot_create_pod::RULE,
    &package_left_the_spec::RULE,
    &nothing_at_work::RULE,
    &value_refused::RULE,
    &result_not_recorded::RULE,
    &config_change_pending::RULE,
    &config_map_name_taken::RULE,
    &upgrade_abandoned::RULE,
    &action_overdue::RULE,
    &job_controller_stopped::RULE,
    &job_suspended_by_others::RULE,
    &foreign_container_running::RULE,
    &rollout_stopped::RULE,
    &waits_for_earlier::RULE,
    &deployment_policy_missing::RULE,
    &node_ignored::RULE,
    &batch_held_by_node::RULE,
    &stale_erroring_after_reboot::RULE,
    &no_node_selected::RULE,
    &paused::RULE,
    &disabled::RULE,
    &batch_counters_frozen::RULE,
    &pause_left_behind::RULE,
    &batch_slots_held::RULE,
    &reboots_not_counted_together::RULE,
    &batch_of_ignored_nodes::RULE,
    &drain_blocked::RULE,
    &cordon_without_owner::RULE,
    &untolerated_taint::RULE,
    &interrupt_waits_for_workload::RULE,
    &runtime_required_taint_kept::RULE,
    &foreign_cordon::RULE,
    &runtime_required_deadlock::RULE,
    &persistent_runtime_required_cordon::RULE,
    &node_not_ready::RULE,
    &drain_timed_out::RULE,
    &runtime_required_not_in_force::RULE,
    &drain_evicts_package_pods::RULE,
    &package_pods_evicted::RULE,
    &node_being_deleted::RULE,
    &cordon_lifted::RULE,
    &operator_not_running::RULE,
    &name_too_long::RULE,
    &auto_taint_key_invalid::RULE,
    &pod_missing_package_annotation::RULE,
    &webhook_unreachable::RULE,
    &status_too_large::RULE,
    &operator_undersized::RULE,
    &two_operators_running::RULE,
    &value_not_readable::RULE,
    &spec_rewritten_in_turn::RULE,
    &foreign_webhook_unreachable::RULE,
    &crd_being_deleted::RULE,
    &migration_hold::RULE,
    &not_migrated_yet::RULE,
    &two_owners::RULE,
    &old_pods_under_paused_nodewright::RULE,
    &stale_nodewrights_after_rollback::RULE,
    &legacy_keys_left::RULE,
    &uninstall_unknown_to_operator::RULE,
    &legacy_policy_left::RULE,
    &leftovers_of_deleted_skyhook::RULE,
    &orphaned_pods_and_jobs::RULE,
    &pods_of_older_operator::RULE,
];

/// Finds a rule by code or name, ignoring case.
pub fn find(code_or_name: &str) -> Option<&'static Rule> {
    ALL.iter()
        .copied()
        .find(|r| r.code.eq_ignore_ascii_case(code_or_name) || r.name.eq_ignore_ascii_case(code_or_name))
}
