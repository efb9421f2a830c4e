//! The node-state codec: the state of each package in a node's annotation, without losing a byte.
//!
//! The operator keeps one state machine per custom resource and node, as a JSON object in an annotation:
//! `{"driver|2.0.1":{"name":"driver",…,"stage":"apply","state":"complete"}}`. A newer shape keeps one annotation per
//! package. Edits touch one entry and keep every other byte, unknown fields included. Text that is not such an object
//! is a value ([`NodeState::malformed`]), not an error.

mod by_key;
mod known;

use std::collections::HashMap;
use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use by_key::ByKey;

use super::keys::NodeKey;
use super::object_name::is_word;
use super::{ApiFlavor, Name, Stage, State, visit};

/// What one custom resource recorded on one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeState {
    annotations: Vec<Annotation>,
    entries: Vec<Entry>,
    by_key: ByKey,
    malformed: Vec<Malformed>,
}

/// One annotation that a node state is made of.
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
    /// The digest that the spec pins the image to; empty if it pins none.
    pub container_sha: Name,
    pub stage: Stage,
    pub state: State,
    /// Failed attempts of the current stage.
    pub restarts: i64,
    annotation: usize,
    /// The byte range of the entry's value in the annotation.
    value: Range<usize>,
}

impl Entry {
    /// Name and version; an entry that is damaged still has its key.
    pub fn identity(&self) -> (&str, &str) {
        let (name, version) = self.key.split_once('|').unwrap_or((&self.key, ""));
        let [name, version] = [(&self.name, name), (&self.version, version)]
            .map(|(field, key)| if field.is_empty() { key } else { field });
        (name, version)
    }

    /// Whether it is complete at a stage that is the last one of some packages.
    pub fn may_be_installed(&self) -> bool {
        self.state == State::Complete && matches!(self.stage, Stage::Config | Stage::PostInterrupt)
    }
}

/// An annotation that is not a node state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Malformed {
    pub annotation: String,
    pub text: String,
    pub error: String,
}

/// The members that the operator decodes; it takes `null` for the zero value of each.
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
    /// Reads one more annotation; `package` is set for the shape of one key per package.
    pub fn add(&mut self, key: &str, package: Option<&str>, text: &str) {
        let annotation = self.annotations.len();
        let mut values = Vec::new();
        // The operator's decoder lets the last of equal keys win.
        let mut places = HashMap::new();
        match read(text, package.is_some()) {
            Ok(read) => {
                for entry in read {
                    values.push(entry.value.clone());
                    let entry = Entry { annotation, ..entry };
                    match places.get(&entry.key) {
                        Some(&place) => self.entries[place] = entry,
                        None => {
                            places.insert(entry.key.clone(), self.entries.len());
                            self.entries.push(entry);
                        }
                    }
                }
                self.by_key.extend(&self.entries);
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

    /// The package that an annotation key is for, in the shape of one key per package.
    pub fn package_of(key: &str) -> Option<&str> {
        let mut parsed = ApiFlavor::ALL.into_iter();
        match parsed.find_map(|g| NodeKey::parse(g, key)) {
            Some(NodeKey::NodeState { package, .. }) => package,
            _ => None,
        }
    }

    /// The packages recorded, in the order of the text.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Simulates the start of a complete package's uninstall. Only the entry changes, not the text that it was decoded
    /// from.
    pub fn simulate_uninstall(&mut self, key: &str) {
        for entry in self.entries.iter_mut().filter(|e| e.key == key) {
            if entry.state == State::Complete && !entry.stage.is_uninstall() {
                (entry.stage, entry.state) = (Stage::Uninstall, State::InProgress);
            }
        }
    }

    /// The entry under `name|version`; the last one, if several annotations have it.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.by_key.find(&self.entries, key)
    }

    /// The annotations that could not be read.
    pub fn malformed(&self) -> &[Malformed] {
        &self.malformed
    }

    /// The annotation keys and their texts on the node.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.annotations.iter().map(|a| (a.key.as_str(), a.text.as_str()))
    }

    /// The annotation with the entry moved to another stage and state; every other byte stays.
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

    /// The annotation with one more entry, `value` being its JSON; every other byte stays.
    ///
    /// Returns `None` where an entry of that key exists, or the annotation cannot be read.
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
            // The operator's decoder takes `null` for an empty map.
            return Some(format!("{{{member}}}"));
        };
        let empty = self.entries.iter().all(|e| e.annotation != at);
        let mut edited = text.to_string();
        edited.insert_str(close, &format!("{}{member}", if empty { "" } else { "," }));
        Some(edited)
    }

    /// The key and text of the annotation with an entry.
    pub fn annotation_of(&self, key: &str) -> Option<(&str, &str)> {
        let annotation = &self.annotations[self.entry(key)?.annotation];
        Some((&annotation.key, &annotation.text))
    }

    /// The JSON text of an entry in the annotation.
    pub fn entry_text(&self, key: &str) -> Option<&str> {
        let entry = self.entry(key)?;
        Some(&self.annotations[entry.annotation].text[entry.value.clone()])
    }

    /// The annotation without the entry; every other byte stays.
    ///
    /// Returns the annotation's key and its new text, `None` if it has no entry any more.
    pub fn without(&self, key: &str) -> Option<(String, Option<String>)> {
        let entry = self.entry(key)?;
        let annotation = &self.annotations[entry.annotation];
        let values = &annotation.values;
        if annotation.one_package || values.len() == 1 {
            return Some((annotation.key.to_string(), None));
        }
        let text = &annotation.text;
        let at = values.iter().position(|v| *v == entry.value).expect("the entry is among them");
        let range = if at == 0 {
            let open = text.find('{').expect("an object") + 1;
            let comma = entry.value.end + text[entry.value.end..].find(',').expect("a next entry");
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
        // An overridden duplicate must not become effective.
        let mut again = NodeState::default();
        again.add(&annotation.key, None, &left);
        again.without(key).or_else(|| Some((annotation.key.to_string(), Some(left))))
    }
}

fn read(text: &str, one_package: bool) -> Result<Vec<Entry>, String> {
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    if one_package {
        return Ok(vec![read_entry(text, None, text)?]);
    }
    // The operator's decoder takes `null` for an empty map.
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
        return Err(format!("{flag:?} is not a name, version or stage of a package"));
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
    // A derived struct would take an array for an object; the operator's decoder does not.
    let members = members(value)?;
    let plain = members
        .iter()
        .enumerate()
        .all(|(at, (name, _))| member(name) == name && members[..at].iter().all(|(other, _)| other != name));
    if plain {
        return serde_json::from_str(value).map_err(|e| e.to_string());
    }
    // To the operator's decoder the case of a member's name means nothing, and the last of several wins.
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

/// The name by which the operator's decoder knows a member.
fn member(name: &str) -> &str {
    const MEMBERS: [&str; 7] = ["name", "version", "image", "containerSHA", "stage", "state", "restarts"];
    let known = MEMBERS.iter().find(|m| m.eq_ignore_ascii_case(name));
    known.copied().unwrap_or(name)
}

/// The object with the given members set to strings: in place where they exist, else appended.
fn edit_members(object: &str, fields: [(&str, &str); 2]) -> String {
    // An entry may be `null`, which the operator reads as an empty one.
    let object = if object == "null" { "{}" } else { object };
    let members = members(object).expect("the entry was read before");
    let mut replaced = Vec::new();
    let mut appended = String::new();
    for (field, new) in fields {
        let new = serde_json::to_string(new).expect("a string");
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
    edited.insert_str(object.rfind('}').expect("an object"), &appended);
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
    let members = visit::entries(&mut json, "a JSON object of packages");
    let members = members.map_err(|e| e.to_string())?;
    json.end().map_err(|e| e.to_string())?;
    Ok(members)
}

#[cfg(test)]
mod tests;
