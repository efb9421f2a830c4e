//! Events by the objects that they are about, and by the custom resources that they mention.

use std::collections::{HashMap, HashSet};

use super::Event;

/// Positions in the list of events, by object and by mentioned custom resource.
#[derive(Debug, Default)]
pub(super) struct EventIndex {
    by_object: HashMap<String, Vec<usize>>,
    by_mention: HashMap<String, Vec<usize>>,
}

impl EventIndex {
    /// Indexes events for custom resources with these names.
    pub fn of<'a>(events: &[Event], skyhooks: impl Iterator<Item = &'a str>) -> EventIndex {
        let names = Names::of(skyhooks);
        let mut index = EventIndex::default();
        for (at, event) in events.iter().enumerate() {
            let by_object = index.by_object.entry(event.name.clone());
            by_object.or_default().push(at);
            let own = names.all.get(event.name.as_str()).copied();
            for name in own.into_iter().chain(names.in_text(&event.message)) {
                let by_mention = index.by_mention.entry(name.to_owned()).or_default();
                if by_mention.last() != Some(&at) {
                    by_mention.push(at);
                }
            }
        }
        index
    }

    pub fn about(&self, name: &str) -> &[usize] {
        self.by_object.get(name).map_or(&[], Vec::as_slice)
    }

    pub fn mentioning(&self, skyhook: &str) -> &[usize] {
        self.by_mention.get(skyhook).map_or(&[], Vec::as_slice)
    }
}

/// Separators between the segments of a name.
const SEPARATORS: [char; 2] = ['-', '.'];

/// Names to search for in one pass.
struct Names<'a> {
    all: HashSet<&'a str>,
    first_segments: HashSet<&'a str>,
    /// Maximum number of separators in a name.
    separators: usize,
}

impl<'a> Names<'a> {
    fn of(names: impl Iterator<Item = &'a str>) -> Names<'a> {
        let all: HashSet<&str> = names.collect();
        let first = |name: &&'a str| name.split(SEPARATORS).next();
        let separators = |name: &&str| name.matches(SEPARATORS).count();
        Names {
            first_segments: all.iter().filter_map(first).collect(),
            separators: all.iter().map(separators).max().unwrap_or(0),
            all,
        }
    }

    /// The names in a text, each as a whole word or as whole segments of a longer name.
    fn in_text(&self, text: &str) -> Vec<&'a str> {
        let of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || SEPARATORS.contains(&c);
        let words = text.split(|c: char| !of_name(c));
        let mut found = Vec::new();
        for word in words.filter(|word| !word.is_empty()) {
            let after = word.match_indices(SEPARATORS).map(|(at, _)| at + 1);
            for start in std::iter::once(0).chain(after) {
                let rest = &word[start..];
                let ends = rest.match_indices(SEPARATORS).map(|(at, _)| at);
                let mut ends = ends.chain([rest.len()]).take(self.separators + 1);
                let first = ends.clone().next().map(|end| &rest[..end]);
                if first.is_some_and(|first| self.first_segments.contains(first)) {
                    found.extend(ends.by_ref().filter_map(|end| self.all.get(&rest[..end])));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_as_whole_segments() {
        let names = Names::of(["gpu", "gpu-tune", "net.v2", "a"].into_iter());
        for (text, expected) in [
            ("created pod gpu-tune-driver-x7 on node", vec!["gpu", "gpu-tune"]),
            ("stage [apply] of [skyhook:net.v2].", vec!["net.v2"]),
            ("my-gpu-tune", vec!["gpu", "gpu-tune"]),
            ("gputune tune-gpux GPU", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(names.in_text(text), expected, "{text}");
        }
    }
}
