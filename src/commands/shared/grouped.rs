//! Grouping of equal items, to show each group once.

use std::collections::HashMap;
use std::hash::Hash;

/// Groups items by key. Groups and items keep the order of first appearance.
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
