//! Cache of decoded node states: states that are equal on many nodes are decoded once.

use std::cell::RefCell;
use std::collections::HashMap;

use super::NodeState;
use crate::api::{Name, Shared};

/// Decoded node states, by the keys and texts of their annotations.
type Known = HashMap<Box<[(Name, Name)]>, Shared<NodeState>>;

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::default();
}

/// Maximum number of cached states. A full cache is emptied: it saves memory only while nodes share few states.
const MOST_KNOWN: usize = 1 << 12;

impl NodeState {
    /// Decodes a node's annotations, given as key and text.
    pub fn of(annotations: &[(&str, &str)]) -> Shared<NodeState> {
        let names = annotations.iter();
        let names = names.map(|(key, text)| (Name::from(*key), Name::from(*text)));
        let names: Box<[(Name, Name)]> = names.collect();
        KNOWN.with_borrow_mut(|known| {
            if let Some(state) = known.get(&names) {
                return state.clone();
            }
            let mut state = NodeState::default();
            for (key, text) in annotations {
                state.add(key, NodeState::package_of(key), text);
            }
            if known.len() >= MOST_KNOWN {
                known.clear();
            }
            let state = Shared::from(state);
            known.insert(names, state.clone());
            state
        })
    }
}
