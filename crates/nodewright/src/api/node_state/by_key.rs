//! Index of a node state's entries by key, for states with many entries.

use super::Entry;

/// Maximum number of entries without an index: a few entries are compared one by one.
const FEW: usize = 8;

/// The positions of all entries, sorted by key; empty for few entries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct ByKey(Vec<u32>);

impl ByKey {
    /// Indexes the appended entries.
    pub fn extend(&mut self, entries: &[Entry]) {
        if entries.len() <= FEW {
            return;
        }
        for new in self.0.len()..entries.len() {
            let at = self.position_after(entries, &entries[new].key);
            self.0.insert(at, new as u32);
        }
    }

    /// The entry with this key; the last one if several annotations have the key.
    pub fn find<'a>(&self, entries: &'a [Entry], key: &str) -> Option<&'a Entry> {
        if self.0.is_empty() {
            return entries.iter().rev().find(|entry| entry.key == key);
        }
        let last = self.0[..self.position_after(entries, key)].last()?;
        Some(&entries[*last as usize]).filter(|entry| entry.key == key)
    }

    /// The position in the index after all entries with keys up to `key`.
    fn position_after(&self, entries: &[Entry], key: &str) -> usize {
        let up_to = |at: &u32| entries[*at as usize].key.as_str() <= key;
        self.0.partition_point(up_to)
    }
}
