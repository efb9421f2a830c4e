//! The node-state codec: decodes and edits the package states in a node's annotations, byte for byte.
//!
//! The operator keeps one state machine per custom resource and node, as a JSON object in an annotation:
//! `{"driver|2.0.1":{"name":"driver",…,"stage":"apply","state":"complete"}}`. A newer format has one
//! annotation per package. Edits change one entry and keep every other byte, unknown fields included.
//! Malformed text is a value ([`NodeState::malformed`]), not an error.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::keys::NodeKey;
use super::name::is_word;
use super::{Name, Shared, visit};

/// The package states of one custom resource on one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeState {
    annotations: Vec<Annotation>,
    entries: Vec<Entry>,
    malformed: Vec<Malformed>,
}

/// An annotation of a node state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Annotation {
    key: Name,
    text: Name,
    one_package: bool,
    /// The byte ranges of all member values, including overridden duplicates.
    values: Vec<Range<usize>>,
}

/// One package in a node state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// `name|version` as in the map.
    pub key: Name,
    pub name: Name,
    pub version: Name,
    pub image: Name,
    /// Digest to which the spec pins the image; empty without a pin.
    pub container_sha: Name,
    pub stage: Stage,
    pub state: State,
    /// Number of failed attempts of the current stage.
    pub restarts: i64,
    annotation: usize,
    /// The byte range of the entry's value in the annotation.
    value: Range<usize>,
}

impl Entry {
    /// Name and version of the package; taken from the key where the fields are empty.
    pub fn identity(&self) -> (&str, &str) {
        let (name, version) = self.key.split_once('|').unwrap_or((&self.key, ""));
        let [name, version] = [(&self.name, name), (&self.version, version)]
            .map(|(field, key)| if field.is_empty() { key } else { field });
        (name, version)
    }

    /// Whether the entry is complete at `config` or `post-interrupt`, which can be a package's last stage.
    pub fn may_be_installed(&self) -> bool {
        self.state == State::Complete && matches!(self.stage, Stage::Config | Stage::PostInterrupt)
    }
}

/// An annotation whose text is not a valid node state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Malformed {
    pub annotation: String,
    pub text: String,
    pub error: String,
}

/// The members that the operator decodes. A `null` member counts as the zero value of its type.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    name: Option<Name>,
    version: Option<Name>,
    image: Option<Name>,
    #[serde(rename = "containerSHA")]
    container_sha: Option<Name>,
    stage: Option<String>,
    state: Option<String>,
    restarts: Option<i32>,
}

impl NodeState {
    /// Decodes an annotation and adds its entries. `package` is set for the format with one annotation per
    /// package.
    pub fn add(&mut self, key: &str, package: Option<&str>, text: &str) {
        let annotation = self.annotations.len();
        let mut values = Vec::new();
        match read(text, package.is_some()) {
            Ok(read) => {
                let mut at: HashMap<Name, usize> = HashMap::with_capacity(read.len());
                for entry in read {
                    values.push(entry.value.clone());
                    let entry = Entry { annotation, ..entry };
                    // The last of equal keys wins, as in the operator's decoder.
                    match at.entry(entry.key.clone()) {
                        Occupied(at) => self.entries[*at.get()] = entry,
                        Vacant(at) => {
                            at.insert(self.entries.len());
                            self.entries.push(entry);
                        }
                    }
                }
            }
            Err(error) => {
                self.malformed.push(Malformed { annotation: key.to_owned(), text: text.to_owned(), error })
            }
        }
        self.annotations.push(Annotation {
            key: key.into(),
            text: text.into(),
            one_package: package.is_some(),
            values,
        });
    }

    /// The package in an annotation key, for the format with one annotation per package.
    pub fn package_of(key: &str) -> Option<&str> {
        match NodeKey::of_any(key) {
            Some(NodeKey::NodeState { package, .. }) => package,
            _ => None,
        }
    }

    /// The packages recorded, in the order of the text.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Simulates the start of a complete package's uninstall. Changes only the decoded entry, not the
    /// annotation's text.
    pub fn simulate_uninstall(&mut self, key: &str) {
        for entry in self.entries.iter_mut().filter(|e| e.key == key) {
            if entry.state == State::Complete && !entry.stage.is_uninstall() {
                (entry.stage, entry.state) = (Stage::Uninstall, State::InProgress);
            }
        }
    }

    /// The entry with the key `name|version`; the last one if several annotations have the key.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| entry.key == key)
    }

    /// The annotations that could not be read.
    pub fn malformed(&self) -> &[Malformed] {
        &self.malformed
    }

    /// The annotations of the node state, as key and text.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.annotations.iter().map(|a| (a.key.as_str(), a.text.as_str()))
    }

    /// Moves an entry to another stage and state; every other byte stays.
    ///
    /// Returns the annotation's key and new text, or `None` if there is no such entry.
    pub fn with_stage(&self, key: &str, stage: &Stage, state: &State) -> Option<(String, String)> {
        let entry = self.entry(key)?;
        let annotation = &self.annotations[entry.annotation];
        let value = &annotation.text[entry.value.clone()];
        let edited = edit_members(value, [("stage", stage.as_str()), ("state", state.as_str())]);
        let mut text = annotation.text.to_string();
        text.replace_range(entry.value.clone(), &edited);
        Some((annotation.key.to_string(), text))
    }

    /// Adds an entry, with `value` as its JSON. Every other byte stays, except that an object replaces
    /// `null`.
    ///
    /// Returns the annotation's new text, or `None` if the entry exists or an annotation cannot be read.
    pub fn with_entry(&self, annotation: &str, key: &str, value: &str) -> Option<String> {
        if self.entry(key).is_some() || !self.malformed.is_empty() {
            return None;
        }
        let member = format!("{}:{value}", serde_json::Value::from(key));
        let Some(at) = self.annotations.iter().position(|a| a.key == annotation) else {
            return Some(format!("{{{member}}}"));
        };
        let text = &self.annotations[at].text;
        let Some(close) = text.rfind('}') else {
            // The operator's decoder reads `null` as an empty map.
            return Some(format!("{{{member}}}"));
        };
        let empty = self.entries.iter().all(|e| e.annotation != at);
        let mut edited = text.to_string();
        edited.insert_str(close, &format!("{}{member}", if empty { "" } else { "," }));
        Some(edited)
    }

    /// Key and text of the annotation that contains the entry.
    pub fn annotation_of(&self, key: &str) -> Option<(&str, &str)> {
        let annotation = &self.annotations[self.entry(key)?.annotation];
        Some((&annotation.key, &annotation.text))
    }

    /// The JSON text of an entry in the annotation.
    pub fn entry_text(&self, key: &str) -> Option<&str> {
        let entry = self.entry(key)?;
        Some(&self.annotations[entry.annotation].text[entry.value.clone()])
    }

    /// Removes an entry and its duplicates with their separators; every other byte stays.
    ///
    /// Returns the annotation's key and its new text; the text is `None` if no entry remains.
    pub fn without_entry(&self, key: &str) -> Option<(String, Option<String>)> {
        let entry = self.entry(key)?;
        let annotation = &self.annotations[entry.annotation];
        let values = &annotation.values;
        if annotation.one_package || values.len() == 1 {
            return Some((annotation.key.to_string(), None));
        }
        let text = &annotation.text;
        let at = values.iter().position(|v| *v == entry.value).expect("the annotation contains the entry");
        let range = if at == 0 {
            let open = text.find('{').expect("the annotation is an object") + 1;
            let comma = entry.value.end + text[entry.value.end..].find(',').expect("another entry follows");
            open..comma + 1
        } else {
            values[at - 1].end..entry.value.end
        };
        let mut left = text.to_string();
        left.replace_range(range, "");
        let of_annotation = |e: &&Entry| e.annotation == entry.annotation;
        if self.entries.iter().filter(of_annotation).count() == values.len() {
            return Some((annotation.key.to_string(), Some(left)));
        }
        // Remove again: without this entry, an earlier duplicate of its key would take effect.
        let mut again = NodeState::default();
        again.add(&annotation.key, None, &left);
        again.without_entry(key).or_else(|| Some((annotation.key.to_string(), Some(left))))
    }
}

fn read(text: &str, one_package: bool) -> Result<Vec<Entry>, String> {
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    if one_package {
        return Ok(vec![read_entry(text, None, text)?]);
    }
    // The operator's decoder reads `null` as an empty map.
    if text.trim() == "null" {
        return Ok(Vec::new());
    }
    members(text)?.into_iter().map(|(key, raw)| read_entry(raw.get(), Some(key), text)).collect()
}

fn read_entry(value: &str, key: Option<String>, text: &str) -> Result<Entry, String> {
    let fields = read_fields(value).map_err(|error| match &key {
        Some(key) => format!("entry {key:?}: {error}"),
        None => error,
    })?;
    let (name, version) = (fields.name.unwrap_or_default(), fields.version.unwrap_or_default());
    let stage = fields.stage.unwrap_or_default();
    let key = key.unwrap_or_else(|| format!("{name}|{version}"));
    let words = [&*key, &*name, &*version, &*stage];
    if let Some(flag) = words.iter().find(|word| !is_word(word)) {
        return Err(format!("{flag:?} is not a valid package name, version or stage"));
    }
    Ok(Entry {
        key: key.into(),
        name,
        version,
        image: fields.image.unwrap_or_default(),
        container_sha: fields.container_sha.unwrap_or_default(),
        stage: Stage::from(stage.as_str()),
        state: State::from(fields.state.unwrap_or_default().as_str()),
        restarts: fields.restarts.unwrap_or_default().into(),
        annotation: 0,
        value: span(text, value),
    })
}

fn read_fields(value: &str) -> Result<Fields, String> {
    if value.trim() == "null" {
        return Ok(Fields::default());
    }
    // A derived struct accepts an array in place of an object; the operator's decoder does not.
    let members = members(value)?;
    let plain = members
        .iter()
        .enumerate()
        .all(|(at, (name, _))| member(name) == name && members[..at].iter().all(|(other, _)| other != name));
    if plain {
        return serde_json::from_str(value).map_err(|e| e.to_string());
    }
    // The operator's decoder ignores the case of member names. The last of equal names wins, unless it is
    // `null`.
    let mut last: HashMap<&str, &RawValue> = HashMap::new();
    for (name, raw) in &members {
        let before = last.contains_key(member(name));
        if !(before && raw.get() == "null") {
            last.insert(member(name), raw);
        }
    }
    let text = serde_json::to_string(&last).map_err(|e| e.to_string())?;
    serde_json::from_str(&text).map_err(|e| e.to_string())
}

/// The member's name in the operator's spelling. Other names are returned unchanged.
fn member(name: &str) -> &str {
    const MEMBERS: [&str; 7] = ["name", "version", "image", "containerSHA", "stage", "state", "restarts"];
    MEMBERS.iter().find(|m| m.eq_ignore_ascii_case(name)).copied().unwrap_or(name)
}

/// Sets members of an object to strings: in place where they exist, else appended.
fn edit_members(object: &str, fields: [(&str, &str); 2]) -> String {
    // The operator reads a `null` entry as an empty entry.
    let object = if object == "null" { "{}" } else { object };
    let members = members(object).expect("the entry was decoded before");
    let mut replaced = Vec::new();
    let mut appended = String::new();
    for (field, new) in fields {
        let new = serde_json::to_string(new).expect("a string is valid JSON");
        match members.iter().rev().find(|(name, _)| member(name) == field) {
            Some((_, raw)) => replaced.push((span(object, raw.get()), new)),
            None => {
                let first = members.is_empty() && appended.is_empty();
                let comma = if first { "" } else { "," };
                appended.push_str(&format!("{comma}\"{field}\":{new}"));
            }
        }
    }
    let mut edited = object.to_owned();
    edited.insert_str(object.rfind('}').expect("the entry is an object"), &appended);
    replaced.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    for (range, new) in replaced {
        edited.replace_range(range, &new);
    }
    edited
}

/// The byte range of a borrowed value in its text.
fn span(text: &str, value: &str) -> Range<usize> {
    let start = value.as_ptr() as usize - text.as_ptr() as usize;
    start..start + value.len()
}

/// The members of a JSON object, in order, each with the text of its value.
fn members(text: &str) -> Result<Vec<(String, &RawValue)>, String> {
    let mut json = serde_json::Deserializer::from_str(text);
    let members = visit::entries(&mut json, "a JSON object of packages").map_err(|e| e.to_string())?;
    json.end().map_err(|e| e.to_string())?;
    Ok(members)
}

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
        let names: Box<[(Name, Name)]> =
            annotations.iter().map(|(key, text)| (Name::from(*key), Name::from(*text))).collect();
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

#[cfg(test)]
mod tests;

macro_rules! open_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)+
            /// An unknown value, written by a newer operator.
            Other(String),
        }

        impl $name {
            /// The known values, in the operator's spelling.
            pub const KNOWN: &'static [&'static str] = &[$($text),+];

            /// The operator's spelling.
            pub fn as_str(&self) -> &str {
                match self {
                    $($name::$variant => $text,)+
                    $name::Other(text) => text,
                }
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => $name::$variant,)+
                    other => $name::Other(other.to_owned()),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                super::visit::text(d, |text| Self::from(text))
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(self.as_str())
            }
        }
    };
}

open_enum! {
    /// The lifecycle stage of a package on a node.
    Stage {
        Uninstall = "uninstall",
        UninstallInterrupt = "uninstall-interrupt",
        Upgrade = "upgrade",
        Apply = "apply",
        Interrupt = "interrupt",
        PostInterrupt = "post-interrupt",
        Config = "config",
    }
}

open_enum! {
    /// The progress of a package's current stage.
    State {
        Complete = "complete",
        InProgress = "in_progress",
        Skipped = "skipped",
        Erroring = "erroring",
        Unknown = "unknown",
    }
}

open_enum! {
    /// The operator's status of a node or of a whole custom resource.
    Status {
        Complete = "complete",
        Blocked = "blocked",
        Waiting = "waiting",
        Disabled = "disabled",
        Paused = "paused",
        InProgress = "in_progress",
        Erroring = "erroring",
        Unknown = "unknown",
    }
}

impl Stage {
    /// Whether the stage is part of an uninstall.
    pub fn is_uninstall(&self) -> bool {
        matches!(self, Stage::Uninstall | Stage::UninstallInterrupt)
    }

    /// Whether the stage interrupts the node: restarts services or reboots.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, Stage::Interrupt | Stage::UninstallInterrupt)
    }
}
