//! The nodes that label selectors select, each looked for once: rules ask for them again and again.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::Node;
use crate::api::LabelSelector;

#[derive(Debug, Default)]
pub struct Selections(Mutex<Known>);

/// What was looked for among these nodes, and where what was found stands.
#[derive(Debug, Default)]
struct Known {
    nodes: Range<usize>,
    found: Vec<(LabelSelector, Arc<[usize]>)>,
}

impl Selections {
    /// Where the selected nodes stand in the list.
    pub fn of(&self, selector: &LabelSelector, nodes: &[Node]) -> Arc<[usize]> {
        let mut known = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let Range { start, end } = nodes.as_ptr_range();
        let nodes_here = start as usize..end as usize;
        if known.nodes != nodes_here {
            *known = Known {
                nodes: nodes_here,
                found: Vec::new(),
            };
        }
        if let Some((_, found)) = known.found.iter().find(|(known, _)| known == selector) {
            return Arc::clone(found);
        }
        let all = nodes.iter().enumerate();
        let selected = all.filter(|(_, n)| selector.matches(&n.labels));
        let found: Arc<[usize]> = selected.map(|(at, _)| at).collect();
        known.found.push((selector.clone(), Arc::clone(&found)));
        found
    }
}

impl Clone for Selections {
    /// Of a copy other nodes may be asked about.
    fn clone(&self) -> Selections {
        Selections::default()
    }
}
