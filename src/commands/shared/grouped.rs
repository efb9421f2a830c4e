//! Groups equal items, to be shown once.

use std::collections::HashMap;
use std::hash::Hash;

/// The items by their keys; groups and items stay in the order in which they came.
pub fn grouped<K, V>(items: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)>
where
    K: Clone + Eq + Hash,
{
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    let mut places = HashMap::new();
    for (key, item) in items {
        let at = *places.entry(key.clone()).or_insert(groups.len());
        if at == groups.len() {
            groups.push((key, Vec::new()));
        }
        groups[at].1.push(item);
    }
    groups
}
