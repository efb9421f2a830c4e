//! Cache of the nodes that match a label selector: rules use the same selectors repeatedly.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use super::Node;
use crate::api::{ApiFlavor, LabelSelector};

#[derive(Debug, Default)]
pub struct Selections(Mutex<Known>);

/// Cached searches in one list of nodes. Results are positions in the list.
#[derive(Debug, Default)]
struct Known {
    nodes: Range<usize>,
    found: HashMap<LabelSelector, Arc<[usize]>>,
    /// Nodes by key and value of a label; filled when a selector uses the key.
    labelled: HashMap<String, HashMap<String, Vec<usize>>>,
    /// Nodes with keys of either API, by the name of the custom resource; filled on first use.
    tracked: Option<HashMap<String, Arc<[usize]>>>,
}

impl Selections {
    /// The cache for these nodes; emptied if it was for other nodes.
    fn known(&self, nodes: &[Node]) -> MutexGuard<'_, Known> {
        let mut known = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let Range { start, end } = nodes.as_ptr_range();
        let nodes_here = start as usize..end as usize;
        if known.nodes != nodes_here {
            *known = Known { nodes: nodes_here, ..Known::default() };
        }
        known
    }

    /// Positions of the nodes with keys of a custom resource with this name, of either API.
    pub fn tracked(&self, skyhook: &str, nodes: &[Node]) -> Arc<[usize]> {
        let mut known = self.known(nodes);
        let tracked = known.tracked.get_or_insert_with(|| by_name(nodes));
        tracked.get(skyhook).map(Arc::clone).unwrap_or_default()
    }

    /// Positions of the nodes that the selector matches.
    pub fn of(&self, selector: &LabelSelector, nodes: &[Node]) -> Arc<[usize]> {
        let mut known = self.known(nodes);
        if let Some(found) = known.found.get(selector) {
            return Arc::clone(found);
        }
        let matches = |at: &usize| selector.matches(&nodes[*at].labels);
        // Custom resources usually divide the nodes by the values of one label.
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
        let keys = ApiFlavor::ALL.map(|flavor| node.keys(flavor).skyhooks.keys());
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
