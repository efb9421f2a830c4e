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
pub use finding::{ENDED_RECONCILE, Evidence, Finding, FindingKey, FindingSummary, Severity, Subject};
pub use findings::Findings;
pub use name_equals_taint_key::names_taken_by;
pub use remedies::remedy::{Remedy, Undo, uninstall_command};
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

/// References to the rules in these modules.
macro_rules! rules {
    ($($module:ident),+ $(,)?) => { &[$(&$module::RULE),+] };
}

/// Every rule, in the order of codes.
pub static ALL: &[&Rule] = rules![
    deletion_waits_for_erroring_install,
    uninstall_interrupt_without_interrupt,
    uninstall_requested_but_never_installed,
    version_changed_while_uninstalling,
    cancelled_uninstall_still_running,
    name_equals_taint_key,
    orphaned_uninstall_complete,
    deletion_blocked_by_malformed_state,
    deletion_blocked_while_paused,
    deletion_blocked_while_disabled,
    dependency_uninstalled,
    uninstall_failing,
    deletion_not_progressing,
    deletion_passes_over_node,
    uninstall_finished_request_stands,
    package_erroring,
    image_not_pulled,
    container_not_created,
    ended_pod_blocks_stage,
    pod_not_started,
    node_state_malformed,
    dependency_cycle,
    job_suspended_after_pause,
    package_never_scheduled,
    interrupt_skipped_for_good,
    pod_stuck_terminating,
    spec_rejected_by_operator,
    image_reference_truncated,
    serial_loses_state,
    pod_changed_by_admission,
    node_erroring_without_cause,
    stale_job_terminating,
    failed_node_counted_as_waiting,
    stage_running_too_long,
    job_cannot_create_pod,
    package_left_the_spec,
    nothing_at_work,
    value_refused,
    result_not_recorded,
    config_change_pending,
    config_map_name_taken,
    upgrade_abandoned,
    action_overdue,
    job_controller_stopped,
    job_suspended_by_others,
    foreign_container_running,
    rollout_stopped,
    waits_for_earlier,
    deployment_policy_missing,
    node_ignored,
    batch_held_by_node,
    stale_erroring_after_reboot,
    no_node_selected,
    paused,
    disabled,
    batch_counters_frozen,
    pause_left_behind,
    batch_slots_held,
    reboots_not_counted_together,
    batch_of_ignored_nodes,
    drain_blocked,
    cordon_without_owner,
    untolerated_taint,
    interrupt_waits_for_workload,
    runtime_required_taint_kept,
    foreign_cordon,
    runtime_required_deadlock,
    persistent_runtime_required_cordon,
    node_not_ready,
    drain_timed_out,
    runtime_required_not_in_force,
    drain_evicts_package_pods,
    package_pods_evicted,
    node_being_deleted,
    cordon_lifted,
    operator_not_running,
    name_too_long,
    auto_taint_key_invalid,
    pod_missing_package_annotation,
    webhook_unreachable,
    status_too_large,
    operator_undersized,
    two_operators_running,
    value_not_readable,
    spec_rewritten_in_turn,
    foreign_webhook_unreachable,
    crd_being_deleted,
    migration_hold,
    not_migrated_yet,
    two_owners,
    old_pods_under_paused_nodewright,
    stale_nodewrights_after_rollback,
    legacy_keys_left,
    uninstall_unknown_to_operator,
    legacy_policy_left,
    leftovers_of_deleted_skyhook,
    orphaned_pods_and_jobs,
    pods_of_older_operator,
];

/// Finds a rule by code or name, ignoring case.
pub fn find(code_or_name: &str) -> Option<&'static Rule> {
    ALL.iter()
        .copied()
        .find(|r| r.code.eq_ignore_ascii_case(code_or_name) || r.name.eq_ignore_ascii_case(code_or_name))
}
