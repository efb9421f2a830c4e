//! The rules about manifests, one file each, in the order of codes.

use super::{Input, LintFindings, LintRule, UnreadableReason, did_you_mean};
use crate::api::{Package, Skyhook};
use crate::rules::{Severity, Subject};

/// Declares a rule: documentation, code, name, severity, and `Effects` if it checks the effects instead of the
/// manifests. `check` is a function in the rule's file, unless the rule `reports` spec errors of a kind.
macro_rules! lint_rule {
    ($(#[doc = $doc:literal])+ $code:ident $name:literal $severity:ident reports $kind:ident) => {
        lint_rule!($(#[doc = $doc])+ $code $name $severity Manifests);

        fn check(input: &$crate::lint::Input<'_>, findings: &mut $crate::lint::LintFindings) {
            findings.report_spec_errors(input, $crate::model::spec_errors::SpecErrorKind::$kind);
        }
    };
    ($(#[doc = $doc:literal])+ $code:ident $name:literal $severity:ident) => {
        lint_rule!($(#[doc = $doc])+ $code $name $severity Manifests);
    };
    ($(#[doc = $doc:literal])+ $code:ident $name:literal $severity:ident $checks:ident) => {
        $(#[doc = $doc])+
        pub static RULE: $crate::lint::LintRule = $crate::lint::LintRule {
            code: stringify!($code),
            name: $name,
            severity: $crate::rules::Severity::$severity,
            docs: concat!($($doc, "\n"),+),
            check: $crate::lint::Check::$checks(check),
        };
    };
}

mod apply_not_installed;
mod batch_exceeds_budget;
mod batch_exceeds_compartment;
mod budget_rounds_to_zero;
mod change_on_all_nodes;
mod compartments_overlap;
mod config_interrupt_shadowed;
mod config_map_name_shared;
mod config_map_refused;
mod dependency_cycle;
mod dependency_uninstalled;
mod drain_will_be_refused;
mod duplicate_key;
mod enabled_package_downgraded;
mod enabled_package_removed;
mod env_refused;
mod env_reserved;
mod exported_fields;
mod failure_threshold_half;
mod image_architecture;
mod image_invalid;
mod interrupt_removed;
mod interrupt_without_effect;
mod legacy_api;
mod legacy_key;
mod legacy_read_only;
mod name_matches_taint_key;
mod never_completes;
mod no_budget;
mod no_packages;
mod nodes_in_no_compartment;
mod non_interrupt_labels_on_daemon_sets;
mod object_name_too_long;
mod object_twice;
mod package_label_refused;
mod paused_in_manifest;
mod placeholder;
mod policy_below;
mod policy_not_found;
mod reboots_overlap;
mod reference_not_found;
mod refused_by_schema;
mod refused_by_server;
mod refused_by_webhook;
mod requests_exceed_node;
mod rollback_of_failed_upgrade;
mod runtime_required_circle;
mod runtime_required_missing;
mod runtime_required_with_sequencing;
mod selects_all_nodes;
mod selects_no_node;
mod sequencing_without_effect;
mod serial;
mod stage_timeout_too_short;
mod status_will_outgrow;
mod strategies;
mod suppression_invalid;
mod taint_not_tolerated;
mod template_not_rendered;
mod timeouts;
mod toleration_refused;
mod unknown_kind;
mod unmanaged_pods;
mod unreadable_manifest;
mod version_order;
mod wildcard_toleration;

/// Every rule, in the order of codes.
pub const ALL: &[&LintRule] = &[
    &unreadable_manifest::RULE,
    &template_not_rendered::RULE,
    &duplicate_key::RULE,
    &suppression_invalid::RULE,
    &unknown_kind::RULE,
    &refused_by_schema::RULE,
    &refused_by_webhook::RULE,
    &image_invalid::RULE,
    &policy_not_found::RULE,
    &enabled_package_removed::RULE,
    &enabled_package_downgraded::RULE,
    &legacy_read_only::RULE,
    &exported_fields::RULE,
    &refused_by_server::RULE,
    &dependency_cycle::RULE,
    &serial::RULE,
    &never_completes::RULE,
    &selects_all_nodes::RULE,
    &selects_no_node::RULE,
    &no_budget::RULE,
    &runtime_required_with_sequencing::RULE,
    &batch_exceeds_budget::RULE,
    &batch_exceeds_compartment::RULE,
    &budget_rounds_to_zero::RULE,
    &nodes_in_no_compartment::RULE,
    &version_order::RULE,
    &package_label_refused::RULE,
    &object_name_too_long::RULE,
    &name_matches_taint_key::RULE,
    &config_map_name_shared::RULE,
    &interrupt_without_effect::RULE,
    &runtime_required_missing::RULE,
    &runtime_required_circle::RULE,
    &sequencing_without_effect::RULE,
    &reboots_overlap::RULE,
    &wildcard_toleration::RULE,
    &non_interrupt_labels_on_daemon_sets::RULE,
    &paused_in_manifest::RULE,
    &legacy_api::RULE,
    &placeholder::RULE,
    &taint_not_tolerated::RULE,
    &requests_exceed_node::RULE,
    &image_architecture::RULE,
    &drain_will_be_refused::RULE,
    &status_will_outgrow::RULE,
    &stage_timeout_too_short::RULE,
    &change_on_all_nodes::RULE,
    &legacy_key::RULE,
    &toleration_refused::RULE,
    &config_map_refused::RULE,
    &env_refused::RULE,
    &compartments_overlap::RULE,
    &reference_not_found::RULE,
    &object_twice::RULE,
    &apply_not_installed::RULE,
    &policy_below::RULE,
    &no_packages::RULE,
    &config_interrupt_shadowed::RULE,
    &dependency_uninstalled::RULE,
    &timeouts::RULE,
    &failure_threshold_half::RULE,
    &env_reserved::RULE,
    &unmanaged_pods::RULE,
    &interrupt_removed::RULE,
    &rollback_of_failed_upgrade::RULE,
];

/// Whether no node has a record of a package, which is the webhook's criterion for an uninstalled package.
fn is_uninstalled(live: &Skyhook, name: &str, package: &Package) -> bool {
    !live.status.node_state.has(&package.entry_key(name))
}
