use std::collections::BTreeSet;

use super::support::evidence::some_of;
use super::{Findings, Grade, Subject};
use crate::cluster::{Cluster, Source};

rule! {
    /// A field of an object has a value that cannot be read, so the field counts as unknown.
    ///
    /// # What it means
    ///
    /// All other fields of the object and all other objects are used. Findings that depend on the field are
    /// missing. Rules that read such objects are reported as not run, and commands that change custom
    /// resources or nodes are refused.
    ///
    /// # What causes it
    ///
    /// The value has another type than the field requires, such as a number instead of a string: the file was
    /// edited, or the CustomResourceDefinition has another schema. API servers reject such values.
    ///
    /// # How to confirm
    ///
    /// The evidence names the object, the field and the value.
    ///
    /// # How to fix
    ///
    /// Correct the value in the file, or the schema of the CustomResourceDefinition.
    ///
    /// # Affected versions
    ///
    /// All operators.
    SKY511 "value-not-readable" Warning needs Skyhooks Nodes,
        also Legacy Policies Pods Workloads Jobs Events DisruptionBudgets Operator OperatorPods Webhooks ConfigMaps
            NodeMetadata,
        finds Unknowns
}

/// Maximum number of fields in the evidence of one object.
const NAMED: usize = 5;

fn detect(cluster: &Cluster, findings: &mut Findings) {
    let mut known = BTreeSet::new();
    for object in Source::ALL.iter().flat_map(|source| cluster.unknown_values(*source)) {
        // Skip duplicates: in a file, the operator's pods are also among all pods.
        if object.fields.is_empty() || !known.insert((object.kind.to_owned(), object.to_string())) {
            continue;
        }
        let subject = match object.source {
            Source::Nodes => Subject::node(object.name, None),
            Source::Skyhooks => {
                Subject { skyhook: Some(object.name.to_owned()), ..Subject::object(object.kind, object.name) }
            }
            _ => Subject::object(object.kind, object.name),
        };
        let message = format!(
            "invalid values of {} are ignored; findings that depend on them may be missing",
            some_of(object.fields.iter().map(|field| &field.path))
        );
        let finding = findings.report(subject, message);
        for field in object.fields.iter().take(NAMED) {
            finding.evidence(&object, &field.path, &field.value);
        }
        let kind = object.kind.to_lowercase();
        let mut words = vec!["get", &kind, object.name, "-o", "yaml"];
        if !object.namespace.is_empty() {
            words.extend(["--namespace", object.namespace]);
        }
        finding.kubectl(Grade::B0, "Show the object", words);
    }
}
