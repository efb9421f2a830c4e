//! Diagnoses with one finding for each node.

use kubectl_skyhook::view::expand;
use serde_json::Value;

/// A diagnosis in which findings about sets of nodes are unfolded: one for each node. Other documents stay.
pub fn on_each_node(mut document: Value) -> Value {
    if document["kind"] != "Diagnosis" {
        return document;
    }
    let mut places: Vec<Vec<Value>> = Vec::new();
    let mut unfolded: Vec<Value> = Vec::new();
    for finding in document["findings"].as_array().expect("findings") {
        let set = finding["subject"]["node"].as_str().and_then(expand);
        let nodes = set.map(|nodes| nodes.expect("a set of nodes"));
        let findings = match nodes {
            None => vec![finding.clone()],
            Some(nodes) => {
                let of = |node: &String| {
                    let mut finding = finding.clone();
                    finding["subject"]["name"] = node.as_str().into();
                    finding["subject"]["node"] = node.as_str().into();
                    finding
                };
                nodes.iter().map(of).collect()
            }
        };
        let from = unfolded.len();
        unfolded.extend(findings);
        places.push((from..unfolded.len()).map(Value::from).collect());
    }
    let unfold = |list: &mut Value| {
        if let Some(groups) = list.as_array_mut() {
            let group =
                |at: &Value| places[usize::try_from(at.as_u64().expect("a place")).expect("a place")].clone();
            *groups = groups.iter().flat_map(group).collect();
        }
    };
    for finding in &mut unfolded {
        if let Some(explained) = finding.get_mut("explainedBy") {
            unfold(explained);
        }
    }
    for cause in document["causes"].as_array_mut().expect("causes") {
        unfold(&mut cause["findingIndexes"]);
        unfold(&mut cause["explains"]);
    }
    document["findings"] = unfolded.into();
    document
}
