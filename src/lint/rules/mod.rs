//! The rules about manifests, one file each, in the order of codes.

use super::violation::ViolationKind;
use super::{Input, LintFindings, LintRule, Manifest, UnreadableReason, did_you_mean};
use crate::api::{Package, Skyhook};
use crate::model::spec_errors::{self, SpecError, SpecErrorKind};
use crate::rules::{Severity, Subject};

/// Declares a rule: documentation, code, name and severity. `check` is the function beside it.
macro_rules! lint_rule {
    ($(#[doc = $doc:literal])+ $code:ident $name:literal $severity:ident) => {
        $(#[doc = $doc])+
        pub static RULE: $crate::lint::LintRule = $crate::lint::LintRule {
            code: stringify!($code),
            name: $name,
            severity: $crate::rules::Severity::$severity,
            docs: concat!($($doc, "\n"),+),
            check,
        };
    };
}

mod syntax;

mod apply_without_enabled;
mod budget_and_policy;
mod budget_invalid;
mod compartment_invalid;
mod config_interrupt_unmatched;
mod dependency_cycle;
mod dependency_missing;
mod duplicate_key;
mod duration_invalid;
mod enabled_package_downgraded;
mod enabled_package_removed;
mod image_invalid;
mod legacy_read_only;
mod metadata_invalid;
mod missing_field;
mod package_name_invalid;
mod policy_not_found;
mod resources_invalid;
mod selector_invalid;
mod strategy_invalid;
mod suppression_invalid;
mod template_not_rendered;
mod unknown_field;
mod unknown_kind;
mod unreadable_manifest;
mod value_not_allowed;
mod version_invalid;
mod wrong_type;

/// Every rule, in the order of codes.
pub const ALL: &[&LintRule] = &[
    &unreadable_manifest::RULE,
    &template_not_rendered::RULE,
    &duplicate_key::RULE,
    &suppression_invalid::RULE,
    &unknown_kind::RULE,
    &unknown_field::RULE,
    &wrong_type::RULE,
    &missing_field::RULE,
    &value_not_allowed::RULE,
    &metadata_invalid::RULE,
    &package_name_invalid::RULE,
    &version_invalid::RULE,
    &image_invalid::RULE,
    &resources_invalid::RULE,
    &budget_invalid::RULE,
    &budget_and_policy::RULE,
    &selector_invalid::RULE,
    &dependency_missing::RULE,
    &apply_without_enabled::RULE,
    &config_interrupt_unmatched::RULE,
    &duration_invalid::RULE,
    &policy_not_found::RULE,
    &enabled_package_removed::RULE,
    &enabled_package_downgraded::RULE,
    &compartment_invalid::RULE,
    &strategy_invalid::RULE,
    &legacy_read_only::RULE,
    &dependency_cycle::RULE,
];

/// Reports the violations of this kind.
fn schema_violations(input: &Input<'_>, findings: &mut LintFindings, kind: ViolationKind) {
    for manifest in input.manifests() {
        for violation in manifest.violations.iter().filter(|v| v.kind == kind) {
            let path: Vec<&str> = violation.path.iter().map(String::as_str).collect();
            let finding = findings.report(manifest, &path, &violation.message);
            finding.fix.clone_from(&violation.fix);
        }
    }
}

/// The parts of specs that the operator's own validation rejects, without those that already violate the schema.
fn spec_errors<'i>(
    input: &'i Input<'_>,
    kind: SpecErrorKind,
) -> impl Iterator<Item = (&'i Manifest, &'i Skyhook, SpecError)> {
    input.skyhooks().flat_map(move |(manifest, skyhook)| {
        let errors = spec_errors::spec_errors(skyhook).into_iter();
        let own = errors.filter(move |error| {
            error.kind == kind && !manifest.violates_schema(&error.path_with_key())
        });
        own.map(move |error| (manifest, skyhook, error))
    })
}

/// Whether a package is recorded on no node, as the webhook decides it.
fn is_uninstalled(live: &Skyhook, name: &str, package: &Package) -> bool {
    !live.status.node_state.has(&package.entry_key(name))
}
