//! Node states that are equal on many nodes: each is decoded once.

use std::cell::RefCell;
use std::collections::HashMap;

use super::NodeState;
use crate::api::{Name, Shared};

/// Node states by the keys and texts of their annotations.
type Known = HashMap<Box<[(Name, Name)]>, Shared<NodeState>>;

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::default();
}

/// The most that are remembered; where there are more, hardly any are equal.
const MOST_KNOWN: usize = 1 << 12;

impl NodeState {
    /// Reads the annotations of a node, by key and text.
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
