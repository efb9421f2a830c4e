//! The entries of a node state by key, where there are many.

use super::Entry;

/// Up to this many entries are compared one by one.
const FEW: usize = 8;

/// The positions of all entries, sorted by key; empty for few entries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct ByKey(Vec<u32>);

impl ByKey {
    /// Adds the entries that were appended.
    pub fn extend(&mut self, entries: &[Entry]) {
        if entries.len() <= FEW {
            return;
        }
        for new in self.0.len()..entries.len() {
            let at = self.position_after(entries, &entries[new].key);
            self.0.insert(at, new as u32);
        }
    }

    /// The entry under a key; the last one, if several annotations have it.
    pub fn find<'a>(&self, entries: &'a [Entry], key: &str) -> Option<&'a Entry> {
        if self.0.is_empty() {
            return entries.iter().rev().find(|entry| entry.key == key);
        }
        let last = self.0[..self.position_after(entries, key)].last()?;
        Some(&entries[*last as usize]).filter(|entry| entry.key == key)
    }

    /// The position after all entries up to this key.
    fn position_after(&self, entries: &[Entry], key: &str) -> usize {
        let up_to = |at: &u32| entries[*at as usize].key.as_str() <= key;
        self.0.partition_point(up_to)
    }
}
