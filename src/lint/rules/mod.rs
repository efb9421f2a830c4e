//! The rules about manifests, one file each, in the order of codes.

use super::{Input, LintFindings, LintRule, UnreadableReason, did_you_mean};
use crate::rules::Subject;

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

mod apply_without_enabled;
mod duplicate_key;
mod suppression_invalid;
mod template_not_rendered;
mod unreadable_manifest;

/// Every rule, in the order of codes.
pub const ALL: &[&LintRule] = &[
    &unreadable_manifest::RULE,
    &template_not_rendered::RULE,
    &duplicate_key::RULE,
    &suppression_invalid::RULE,
    &apply_without_enabled::RULE,
];
