//! The nodes matched by label selectors, each searched once: rules use them repeatedly.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use super::Node;
use crate::api::{ApiFlavor, LabelSelector};

#[derive(Debug, Default)]
pub struct Selections(Mutex<Known>);

/// The completed searches in a list of nodes, with the positions found.
#[derive(Debug, Default)]
struct Known {
    nodes: Range<usize>,
    found: HashMap<LabelSelector, Arc<[usize]>>,
    /// By key and value of a label: the nodes with it; filled when a selector uses the key.
    labelled: HashMap<String, HashMap<String, Vec<usize>>>,
    /// By the name of a custom resource: the nodes with its keys of either API; filled on first use.
    tracked: Option<HashMap<String, Arc<[usize]>>>,
}

impl Selections {
    /// The searches in these nodes.
    fn known(&self, nodes: &[Node]) -> MutexGuard<'_, Known> {
        let mut known = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let Range { start, end } = nodes.as_ptr_range();
        let nodes_here = start as usize..end as usize;
        if known.nodes != nodes_here {
            *known = Known { nodes: nodes_here, ..Known::default() };
        }
        known
    }

    /// The positions of nodes with keys of a custom resource of that name, of either API.
    pub fn tracked(&self, skyhook: &str, nodes: &[Node]) -> Arc<[usize]> {
        let mut known = self.known(nodes);
        let tracked = known.tracked.get_or_insert_with(|| by_name(nodes));
        tracked.get(skyhook).map(Arc::clone).unwrap_or_default()
    }

    /// The positions of the selected nodes.
    pub fn of(&self, selector: &LabelSelector, nodes: &[Node]) -> Arc<[usize]> {
        let mut known = self.known(nodes);
        if let Some(found) = known.found.get(selector) {
            return Arc::clone(found);
        }
        let matches = |at: &usize| selector.matches(&nodes[*at].labels);
        // Custom resources share the nodes among them by the values of one label, as a rule.
        let found: Arc<[usize]> = match selector.match_labels.first_key_value() {
            None => (0..nodes.len()).filter(matches).collect(),
            Some((key, value)) => {
                let labelled = known.labelled.entry(key.clone());
                let labelled = labelled.or_insert_with(|| by_value(key, nodes));
                let having = labelled.get(value).map_or(&[][..], Vec::as_slice);
                having.iter().copied().filter(matches).collect()
            }
        };
        known.found.insert(selector.clone(), Arc::clone(&found));
        found
    }
}

fn by_value(key: &str, nodes: &[Node]) -> HashMap<String, Vec<usize>> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        if let Some(value) = node.labels.get(key) {
            places.entry(value.as_str()).or_default().push(at);
        }
    }
    let owned = |(value, places): (&str, Vec<usize>)| (value.to_owned(), places);
    places.into_iter().map(owned).collect()
}

fn by_name(nodes: &[Node]) -> HashMap<String, Arc<[usize]>> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        let keys = ApiFlavor::ALL.map(|g| node.keys(g).skyhooks.keys());
        for name in keys.into_iter().flatten() {
            let places = places.entry(name).or_default();
            if places.last() != Some(&at) {
                places.push(at);
            }
        }
    }
    let owned = |(name, places): (&str, Vec<usize>)| (name.to_owned(), places.into());
    places.into_iter().map(owned).collect()
}
