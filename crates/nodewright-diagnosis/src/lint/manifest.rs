//! Manifests: the objects of YAML and JSON documents, with file and line.

use std::rc::Rc;

use serde_json::Value;

use super::violation::Violation;
use super::yaml::{self, Parsed, Range};
use crate::api::{ApiFlavor, DeploymentPolicy, Skyhook};
use crate::cluster::decode_leniently;

/// A manifest's text, and the path of its file or `stdin`.
#[derive(Debug, Clone)]
pub struct ManifestFile {
    pub path: String,
    pub text: String,
}

/// One API object of a document.
#[derive(Debug)]
pub struct Manifest {
    /// Path of the manifest's file, or `stdin`.
    pub file: String,
    /// The `apiVersion`; empty if it is not a string.
    pub api_version: String,
    /// The `kind`; empty if it is not a string.
    pub kind: String,
    /// The name; empty if it is absent or not a string.
    pub name: String,
    /// The object as kubectl sends it.
    pub value: Value,
    pub object: ManifestObject,
    /// Violations of the schema of the object's kind.
    pub(super) violations: Vec<Violation>,
    document: Rc<Parsed>,
    /// JSON pointer of the object in its document: empty except for items of lists.
    base: String,
    first_line: usize,
    pub(super) suppressions: Rc<Vec<Suppression>>,
}

/// The decoded object. Fields with values of the wrong type have their defaults.
#[derive(Debug)]
pub enum ManifestObject {
    Skyhook(Box<Skyhook>),
    Policy(Box<DeploymentPolicy>),
    /// An object of another group or kind, or one that cannot be decoded.
    Other,
}

/// A document from which no object can be read.
#[derive(Debug)]
pub struct Unreadable {
    pub file: String,
    pub line: usize,
    pub reason: UnreadableReason,
}

#[derive(Debug, PartialEq, Eq)]
pub enum UnreadableReason {
    /// Neither YAML nor JSON, with the parser's message.
    Syntax(String),
    /// A Go template that mentions either API, such as a file of a Helm chart before rendering.
    Template,
    /// A list, a number or a string.
    NotAnObject,
}

/// The parsed documents of all files.
#[derive(Debug, Default)]
pub struct Documents {
    /// Paths in the order in which they were read.
    pub files: Vec<String>,
    /// Objects of all kinds.
    pub manifests: Vec<Manifest>,
    pub unreadable: Vec<Unreadable>,
    /// Number of skipped templates, which mention neither API.
    pub templates_skipped: usize,
}

impl Documents {
    /// Parses the documents of all files.
    pub fn parse(files: &[ManifestFile]) -> Documents {
        let mut documents = Documents::default();
        for file in files {
            documents.files.push(file.path.clone());
            let text = file.text.trim_start_matches('\u{feff}');
            for (line, text) in yaml::split(text) {
                documents.add(&file.path, text, line);
            }
        }
        documents
    }

    fn add(&mut self, file: &str, text: &str, first_line: usize) {
        let parsed = yaml::parse(text, first_line);
        let template = text.contains("{{") && text.contains("}}");
        if template && parsed.as_ref().map_or(true, |parsed| is_template(&parsed.value)) {
            if mentions_api(text) {
                self.unreadable(file, template_line(text, first_line), UnreadableReason::Template);
            } else {
                self.templates_skipped += 1;
            }
            return;
        }
        match parsed {
            Ok(parsed) if parsed.value.is_object() => {
                let suppressions = Rc::new(Suppression::all(&parsed));
                let document = Rc::new(parsed);
                self.objects(file, &document, first_line, "", &suppressions);
            }
            Ok(Parsed { value: Value::Null, .. }) => {}
            Ok(_) => self.unreadable(file, first_line, UnreadableReason::NotAnObject),
            Err(error) => {
                let reason = UnreadableReason::Syntax(error.reason);
                self.unreadable(file, error.line, reason);
            }
        }
    }

    fn unreadable(&mut self, file: &str, line: usize, reason: UnreadableReason) {
        self.unreadable.push(Unreadable { file: file.to_owned(), line, reason });
    }

    /// Adds the object at a JSON pointer, or the items if the object is a list.
    fn objects(
        &mut self,
        file: &str,
        document: &Rc<Parsed>,
        first_line: usize,
        base: &str,
        suppressions: &Rc<Vec<Suppression>>,
    ) {
        let value = document.value.pointer(base).cloned().unwrap_or_default();
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let kind = text("kind");
        if let (true, Some(items)) = (kind.ends_with("List"), value["items"].as_array()) {
            for item in 0..items.len() {
                let base = format!("{base}/items/{item}");
                self.objects(file, document, first_line, &base, suppressions);
            }
            return;
        }
        self.manifests.push(Manifest {
            file: file.to_owned(),
            api_version: text("apiVersion"),
            name: value["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            object: ManifestObject::of(&value),
            kind,
            value,
            document: Rc::clone(document),
            base: base.to_owned(),
            first_line,
            suppressions: Rc::clone(suppressions),
            violations: Vec::new(),
        });
    }
}

impl Manifest {
    /// The API of the object's group, even if that API does not have the object's kind.
    pub fn flavor(&self) -> Option<ApiFlavor> {
        ApiFlavor::of_group(self.api_version.split('/').next()?)
    }

    pub fn skyhook(&self) -> Option<&Skyhook> {
        match &self.object {
            ManifestObject::Skyhook(skyhook) => Some(skyhook),
            _ => None,
        }
    }

    pub fn policy(&self) -> Option<&DeploymentPolicy> {
        match &self.object {
            ManifestObject::Policy(policy) => Some(policy),
            _ => None,
        }
    }

    /// Whether the manifest has a field at this path, even with a null value.
    pub fn has(&self, path: &[&str]) -> bool {
        self.get(path).is_some()
    }

    /// The value at a path of keys and indexes.
    pub fn get(&self, path: &[&str]) -> Option<&Value> {
        self.value.pointer(&pointer(path))
    }

    /// The lines of the field at this path, or of the nearest field above it.
    pub(super) fn range(&self, path: &[&str]) -> Range {
        let mut at = self.base.clone() + &pointer(path);
        loop {
            match (self.document.ranges.get(&at), at.rfind('/')) {
                (Some(range), _) => return *range,
                (None, Some(end)) => at.truncate(end),
                (None, None) => {
                    return Range { first: self.first_line, last: self.first_line };
                }
            }
        }
    }

    /// Whether a line belongs to this object.
    pub fn contains_line(&self, line: usize) -> bool {
        let range = self.range(&[]);
        (range.first..=range.last).contains(&line)
    }

    /// Whether the object's API has its kind.
    pub fn is_known_kind(&self) -> bool {
        let kinds = self.flavor().map(|flavor| [flavor.kind(), "DeploymentPolicy"]);
        kinds.is_some_and(|kinds| kinds.contains(&self.kind.as_str()))
    }

    /// Whether the schema is violated at this path, above it or below it. Decoding may have replaced the
    /// value by a default. For the path of a package, violations in its fields do not count.
    pub(super) fn violates_schema(&self, path: &[&str]) -> bool {
        let package = matches!(path, ["spec", "packages", _]);
        self.violations.iter().any(|violation| {
            let (at, common) = (&violation.path, violation.path.len().min(path.len()));
            let related = at[..common].iter().eq(path[..common].iter());
            related && (!package || at.len() <= path.len())
        })
    }

    /// Repeated keys of mappings: the path of the key, and the line of the repetition.
    pub(super) fn duplicates(&self) -> impl Iterator<Item = (String, usize)> {
        let duplicates = self.document.duplicates.iter();
        duplicates.filter_map(|(pointer, line)| {
            let path = pointer.strip_prefix(&self.base)?;
            path.starts_with('/').then(|| (dotted(path), *line))
        })
    }
}

impl ManifestObject {
    fn of(value: &Value) -> ManifestObject {
        let group = value["apiVersion"].as_str().unwrap_or_default().split('/').next();
        let Some(flavor) = group.and_then(ApiFlavor::of_group) else {
            return ManifestObject::Other;
        };
        match value["kind"].as_str() {
            Some(kind) if kind == flavor.kind() => decode_leniently(value.clone())
                .map_or(ManifestObject::Other, |s| ManifestObject::Skyhook(Box::new(s))),
            Some("DeploymentPolicy") => decode_leniently(value.clone())
                .map_or(ManifestObject::Other, |p| ManifestObject::Policy(Box::new(p))),
            _ => ManifestObject::Other,
        }
    }
}

fn pointer(path: &[&str]) -> String {
    path.iter().fold(String::new(), |at, key| yaml::child(&at, key))
}

/// Converts a JSON pointer: `/spec/packages/driver` to `spec.packages.driver`.
fn dotted(pointer: &str) -> String {
    let keys = pointer.split('/').skip(1);
    let keys = keys.map(|key| key.replace("~1", "/").replace("~0", "~"));
    path_text(&keys.collect::<Vec<_>>())
}

/// A path as text: `spec.compartments[0].name`.
pub(super) fn path_text<S: AsRef<str>>(path: &[S]) -> String {
    let mut text = String::new();
    for key in path.iter().map(AsRef::as_ref) {
        if key.bytes().all(|b| b.is_ascii_digit()) && !key.is_empty() {
            text += &format!("[{key}]");
        } else {
            if key.contains('.') {
                text += &format!("[{key:?}]");
                continue;
            }
            if !text.is_empty() {
                text.push('.');
            }
            text += key;
        }
    }
    text
}

/// Whether a document is an unrendered template: not a mapping, or with a template action as kind or
/// apiVersion. An unquoted action parses as a mapping.
fn is_template(value: &Value) -> bool {
    let action = |value: &Value| value.is_object() || value.as_str().is_some_and(|t| t.contains("{{"));
    !value.is_object() || action(&value["kind"]) || action(&value["apiVersion"])
}

/// Whether a text contains the group of either API.
fn mentions_api(text: &str) -> bool {
    let mut flavors = ApiFlavor::ALL.into_iter();
    flavors.any(|flavor| text.contains(flavor.group()))
}

/// The line of the first template action.
fn template_line(text: &str, first_line: usize) -> usize {
    let before = text.split("{{").next().unwrap_or_default();
    first_line + before.matches('\n').count()
}

const PREFIX: &str = "kubectl-skyhook:";

/// A suppression of one rule for the field below or beside its comment, including everything in that field.
#[derive(Debug, Clone)]
pub struct Suppression {
    pub line: usize,
    /// Code or name of the rule; empty if the comment has none.
    pub rule: String,
    pub reason: String,
    /// The lines that the comment covers.
    pub range: Range,
}

impl Suppression {
    /// All suppressions in a document.
    pub fn all(parsed: &Parsed) -> Vec<Suppression> {
        let comments = parsed.comments.iter();
        let found = comments.filter_map(|(line, text)| {
            let text = text.trim().strip_prefix(PREFIX)?.trim();
            let words = text.strip_prefix("allow").unwrap_or_default().trim();
            let (rule, reason) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
            Some(Suppression {
                line: *line,
                rule: rule.to_owned(),
                reason: reason.trim().to_owned(),
                range: covered(parsed, *line),
            })
        });
        found.collect()
    }

    /// Whether the comment suppresses a finding of this rule at this line.
    pub fn covers(&self, code: &str, name: &str, line: usize) -> bool {
        let rule = self.rule.as_str();
        let same = rule.eq_ignore_ascii_case(code) || rule == name;
        same && self.line.min(self.range.first) <= line && line <= self.range.last
    }
}

/// The lines of the largest field that begins on the line of the comment, else of the next field below.
fn covered(parsed: &Parsed, line: usize) -> Range {
    let ranges = || parsed.ranges.values().filter(|range| range.first >= line);
    let first = ranges().map(|range| range.first).min().unwrap_or(line);
    let last = ranges().filter(|range| range.first == first);
    Range { first, last: last.map(|range| range.last).max().unwrap_or(line) }
}
