//! `DeploymentPolicy`: compartments of nodes, and budgets that limit how many nodes are worked on at once.

use serde::Deserialize;

use super::{LabelSelector, Meta, UnknownFields};

/// Name of the operator's compartment for nodes that no other compartment selects.
pub const DEFAULT_COMPARTMENT: &str = "__default__";

/// Display name of a compartment.
pub fn compartment_title(name: &str) -> &str {
    match name {
        DEFAULT_COMPARTMENT => "(default)",
        name => name,
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct DeploymentPolicy {
    pub metadata: Meta,
    pub spec: DeploymentPolicySpec,
    #[serde(skip)]
    pub unknown_fields: UnknownFields,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DeploymentPolicySpec {
    pub default: PolicyDefault,
    pub compartments: Vec<Compartment>,
    pub reset_batch_state_on_completion: Option<bool>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PolicyDefault {
    pub budget: Budget,
    pub strategy: Option<serde_json::Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Compartment {
    pub name: String,
    pub selector: LabelSelector,
    pub budget: Budget,
    pub strategy: Option<serde_json::Value>,
}

/// A maximum number or percentage of nodes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Budget {
    pub percent: Option<i64>,
    pub count: Option<i64>,
}
