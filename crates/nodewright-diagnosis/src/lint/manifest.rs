//! Manifests: the objects of YAML and JSON documents, with file and line.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use serde_json::Value;

use super::yaml::{self, Parsed, Positions, Range};
use super::{Input, LintFinding};
use crate::api::{ApiFlavor, DeploymentPolicy, LabelSelector, Skyhook};
use crate::cluster::{Node, decode_leniently};
use crate::plan::pointer;

/// A manifest's text, and the path of its file or `stdin`.
#[derive(Debug, Clone)]
pub struct ManifestFile {
    pub path: String,
    pub text: String,
    /// Whether a kustomization or a test uses the file as a patch or an assertion: its objects are incomplete.
    pub is_part: bool,
}

/// Number of documents of a file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Objects of either API, which are checked.
    pub manifests: usize,
    /// Objects of other API groups.
    pub others: usize,
    /// Documents without an object, such as lists and broken files, in files without an object of either API.
    pub documents: usize,
    /// Templates that declare no object of either API.
    pub templates: usize,
    /// Patches and assertions.
    pub parts: usize,
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
    flavor: Option<ApiFlavor>,
    /// The object as kubectl sends it.
    pub value: Value,
    pub object: ManifestObject,
    /// Violations of the schema of the object's kind.
    pub(super) violations: Vec<Violation>,
    document: Rc<Positions>,
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
    /// The number of documents by the path of the file.
    pub files: BTreeMap<String, Tally>,
    /// Objects of all kinds.
    pub manifests: Vec<Manifest>,
    pub unreadable: Vec<Unreadable>,
}

impl Documents {
    /// Parses the documents of all files.
    pub fn parse(files: &[impl Borrow<ManifestFile>]) -> Documents {
        let mut documents = Documents::default();
        for file in files.iter().map(Borrow::borrow) {
            let text = file.text.trim_start_matches('\u{feff}');
            let mut reader =
                FileReader { file, documents: &mut documents, tally: Tally::default(), broken: Vec::new() };
            for (line, text) in yaml::split(text) {
                reader.add(text, line);
            }
            reader.finish();
        }
        documents
    }

    /// Whether Kustomize builds the manifests.
    pub(super) fn has_kustomization(&self) -> bool {
        self.files.keys().any(|file| KUSTOMIZATIONS.iter().any(|name| file.ends_with(name)))
    }
}

/// Adds the documents of one file.
struct FileReader<'d> {
    file: &'d ManifestFile,
    documents: &'d mut Documents,
    tally: Tally,
    /// Documents without an object, with the reasons.
    broken: Vec<Unreadable>,
}

impl FileReader<'_> {
    fn add(&mut self, text: &str, first_line: usize) {
        let parsed = yaml::parse(text, first_line);
        let template = text.contains("{{") && text.contains("}}");
        if template && parsed.as_ref().map_or(true, |parsed| is_template(&parsed.value)) {
            if declares_object(text) {
                let unreadable = self.unreadable(template_line(text, first_line), UnreadableReason::Template);
                self.documents.unreadable.push(unreadable);
            } else {
                self.tally.templates += 1;
            }
            return;
        }
        match parsed {
            Ok(Parsed { value, positions }) if value.is_object() => {
                let suppressions = Rc::new(Suppression::all(&positions));
                self.objects(value, &Rc::new(positions), first_line, "", &suppressions);
            }
            Ok(Parsed { value: Value::Null, .. }) => {}
            Ok(_) => self.broken.push(self.unreadable(first_line, UnreadableReason::NotAnObject)),
            Err(error) => {
                let broken = self.unreadable(error.line, UnreadableReason::Syntax(error.reason));
                if declares_object(text) {
                    self.documents.unreadable.push(broken);
                } else {
                    self.broken.push(broken);
                }
            }
        }
    }

    fn unreadable(&self, line: usize, reason: UnreadableReason) -> Unreadable {
        Unreadable { file: self.file.path.clone(), line, reason }
    }

    /// Adds an object, or the items if the object is a list.
    fn objects(
        &mut self,
        mut value: Value,
        document: &Rc<Positions>,
        first_line: usize,
        base: &str,
        suppressions: &Rc<Vec<Suppression>>,
    ) {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if let (true, Some(items)) =
            (kind.ends_with("List"), value.get_mut("items").and_then(Value::as_array_mut))
        {
            for (item, mut value) in std::mem::take(items).into_iter().enumerate() {
                // Items of a typed list need no type.
                if kind != "List" && value.is_object() && value["kind"].is_null() {
                    value["apiVersion"] = api_version.as_str().into();
                    value["kind"] = kind.trim_end_matches("List").into();
                }
                self.objects(value, document, first_line, &format!("{base}/items/{item}"), suppressions);
            }
            return;
        }
        let flavor = api_version.split('/').next().and_then(ApiFlavor::of_group);
        if flavor.is_some() && (self.file.is_part || has_patch_directive(&value)) {
            self.tally.parts += 1;
            return;
        }
        match flavor {
            Some(_) => self.tally.manifests += 1,
            None => self.tally.others += 1,
        }
        self.documents.manifests.push(Manifest {
            file: self.file.path.clone(),
            api_version,
            name: value["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            flavor,
            object: ManifestObject::of(flavor, &kind, &value),
            kind,
            value,
            document: Rc::clone(document),
            base: base.to_owned(),
            first_line,
            suppressions: Rc::clone(suppressions),
            violations: Vec::new(),
        });
    }

    /// kubectl rejects a file with a broken document as a whole: report it beside objects of either API.
    fn finish(mut self) {
        if self.tally.manifests > 0 {
            self.documents.unreadable.append(&mut self.broken);
        }
        self.tally.documents = self.broken.len();
        self.documents.files.insert(self.file.path.clone(), self.tally);
    }
}

impl Manifest {
    /// The API of the object's group, even if that API does not have the object's kind.
    pub fn flavor(&self) -> Option<ApiFlavor> {
        self.flavor
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

    /// The value at a path of keys and indexes.
    pub fn get(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(&self.value, |value, key| match value {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            value => value.get(key),
        })
    }

    /// The lines of the field at this path, or of the nearest field above it.
    pub(super) fn range(&self, path: &[&str]) -> Range {
        let mut at = self.base.clone() + &pointer(path);
        loop {
            match (self.document.ranges.get(&at), at.rfind('/')) {
                (Some(range), _) => return *range,
                (None, Some(end)) => at.truncate(end),
                (None, None) => {
                    return Range { first: self.first_line, last: self.first_line, column: 1 };
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
    pub(super) fn violates_schema<S: AsRef<str>>(&self, path: &[S]) -> bool {
        let path: Vec<&str> = path.iter().map(AsRef::as_ref).collect();
        let package = matches!(path[..], ["spec", "packages", _]);
        self.violations.iter().any(|violation| {
            let (at, common) = (&violation.path, violation.path.len().min(path.len()));
            let related = at[..common].iter().eq(path[..common].iter());
            related && (!package || at.len() <= path.len())
        })
    }

    /// The reason in the comment that suppresses a finding; `None` without such a comment or without a reason.
    pub(super) fn suppression(&self, finding: &LintFinding) -> Option<String> {
        let comment = self.suppressions.iter().find(|comment| comment.covers(finding))?;
        (!comment.reason.is_empty()).then(|| comment.reason.clone())
    }

    /// Repeated keys of mappings: the path of the key, and the line of the repetition.
    pub(super) fn duplicates(&self) -> impl Iterator<Item = (String, usize)> {
        self.document.duplicates.iter().filter_map(|(pointer, line)| {
            let path = pointer.strip_prefix(&self.base)?;
            path.starts_with('/').then(|| (dotted(path), *line))
        })
    }
}

impl ManifestObject {
    fn of(flavor: Option<ApiFlavor>, kind: &str, value: &Value) -> ManifestObject {
        let Some(flavor) = flavor else {
            return ManifestObject::Other;
        };
        match kind {
            kind if kind == flavor.kind() => decode_leniently(value.clone())
                .map_or(ManifestObject::Other, |s| ManifestObject::Skyhook(Box::new(s))),
            "DeploymentPolicy" => decode_leniently(value.clone())
                .map_or(ManifestObject::Other, |p| ManifestObject::Policy(Box::new(p))),
            _ => ManifestObject::Other,
        }
    }
}

/// Converts a JSON pointer: `/spec/packages/driver` to `spec.packages.driver`.
fn dotted(pointer: &str) -> String {
    let keys = pointer.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~"));
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

/// Whether a document is an unrendered template: text, or a mapping with a template action as kind or
/// apiVersion. An unquoted action parses as a mapping.
fn is_template(value: &Value) -> bool {
    let action = |value: &Value| value.is_object() || value.as_str().is_some_and(|t| t.contains("{{"));
    !(value.is_object() || value.is_array()) || action(&value["kind"]) || action(&value["apiVersion"])
}

/// Whether a text, which need not be valid YAML, has an `apiVersion` in the group of either API.
fn declares_object(text: &str) -> bool {
    ApiFlavor::ALL.into_iter().any(|flavor| {
        let mut places = text.match_indices(flavor.group());
        places.any(|(at, _)| {
            let line = text[..at].rsplit('\n').next().unwrap_or_default();
            line.trim_end_matches([' ', '"', '\'', ':']).ends_with("apiVersion")
        })
    })
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
    pub fn all(positions: &Positions) -> Vec<Suppression> {
        let found = positions.comments.iter().filter_map(|(line, text)| {
            let text = text.trim().strip_prefix(PREFIX)?.trim();
            let words = text.strip_prefix("allow").unwrap_or_default().trim();
            let (rule, reason) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
            Some(Suppression {
                line: *line,
                rule: rule.to_owned(),
                reason: reason.trim().to_owned(),
                range: covered(positions, *line),
            })
        });
        found.collect()
    }

    fn covers(&self, finding: &LintFinding) -> bool {
        let lines = self.line.min(self.range.first)..=self.range.last;
        lines.contains(&finding.line) && finding.rule.is_named(&self.rule)
    }
}

/// The lines of the largest field that begins on the line of the comment, else of the next field below.
fn covered(positions: &Positions, line: usize) -> Range {
    let ranges = || positions.ranges.values().filter(|range| range.first >= line);
    let first = ranges().map(|range| range.first).min().unwrap_or(line);
    let last = ranges().filter(|range| range.first == first);
    Range { first, last: last.map(|range| range.last).max().unwrap_or(line), column: 1 }
}

impl<'a> Input<'a> {
    /// The nodes that a selector matches, if the nodes are known.
    pub fn matching(&self, selector: &LabelSelector) -> Option<Vec<&'a Node>> {
        Some(self.nodes()?.iter().filter(|n| selector.matches(&n.labels)).collect())
    }

    /// The nodes that a custom resource selects, if the nodes are known.
    pub fn selected(&self, skyhook: &Skyhook) -> Option<Vec<&'a Node>> {
        self.matching(&skyhook.spec.node_selectors)
    }

    /// The custom resources that meet a condition after the manifests are applied, by their selectors.
    pub fn selections(&self, condition: impl Fn(&Skyhook) -> bool) -> Selections<'_> {
        let all = self.all_skyhooks().into_iter().filter(|skyhook| condition(skyhook));
        let mut by_selector: HashMap<&LabelSelector, Vec<&Skyhook>> = HashMap::new();
        for skyhook in all {
            by_selector.entry(&skyhook.spec.node_selectors).or_default().push(skyhook);
        }
        let mut groups: Vec<_> = by_selector.into_iter().collect();
        groups.iter_mut().for_each(|(_, skyhooks)| skyhooks.sort_by_key(|skyhook| skyhook.order()));
        groups.sort_by_key(|(_, skyhooks)| skyhooks[0].order());
        Selections { nodes: self.nodes(), groups }
    }

    /// The custom resources that use a policy.
    pub fn users(&self, policy: &str) -> Vec<&Skyhook> {
        let uses = |skyhook: &&Skyhook| skyhook.spec.deployment_policy == policy;
        let own = self.skyhooks().map(|(_, skyhook)| skyhook);
        let live = self.cluster.into_iter().flat_map(|cluster| cluster.skyhooks.items()).filter(uses);
        let unchanged = live.filter(|live| own.clone().all(|skyhook| skyhook.name() != live.name()));
        own.clone().filter(uses).chain(unchanged).collect()
    }
}

/// Custom resources by their node selectors.
pub struct Selections<'s> {
    nodes: Option<&'s [Node]>,
    /// The custom resources of each selector, in the order in which the operator processes them.
    groups: Vec<(&'s LabelSelector, Vec<&'s Skyhook>)>,
}

impl<'s> Selections<'s> {
    /// The other custom resources that certainly select a common node of the cluster. If the nodes are unknown: those
    /// whose selector implies the one of this custom resource, or the reverse.
    pub fn overlapping<'o>(&'o self, skyhook: &'o Skyhook) -> impl Iterator<Item = &'s Skyhook> + 'o {
        let own = &skyhook.spec.node_selectors;
        let selected: Option<Vec<&Node>> =
            self.nodes.map(|nodes| nodes.iter().filter(|node| own.matches(&node.labels)).collect());
        self.groups
            .iter()
            .filter(move |(selector, _)| match &selected {
                Some(nodes) => nodes.iter().any(|node| selector.matches(&node.labels)),
                None => *selector == own || contains(own, selector) || contains(selector, own),
            })
            .flat_map(|(_, skyhooks)| skyhooks.iter().copied())
            .filter(|other| other.name() != skyhook.name())
    }
}

/// Whether `narrow` certainly implies all requirements of `wide`, so that `wide` selects every node of
/// `narrow`.
pub(super) fn contains(wide: &LabelSelector, narrow: &LabelSelector) -> bool {
    let labels = wide.match_labels.iter();
    let mut expressions = wide.match_expressions.iter();
    let required = |key: &str, value: &String| {
        required_values(narrow, key).is_some_and(|values| values.iter().all(|v| *v == value))
    };
    labels.into_iter().all(|(key, value)| required(key, value))
        && expressions.all(|requirement| {
            let values = required_values(narrow, &requirement.key);
            narrow.match_expressions.contains(requirement)
                || values.is_some_and(|values| match requirement.operator.as_str() {
                    "In" => values.iter().all(|v| requirement.values.contains(v)),
                    "NotIn" => !values.iter().any(|v| requirement.values.contains(v)),
                    operator => operator == "Exists",
                })
        })
}

/// The values that a selector allows for a label; `None` if the selector does not list them.
pub(super) fn required_values<'s>(selector: &'s LabelSelector, key: &str) -> Option<Vec<&'s String>> {
    if let Some(value) = selector.match_labels.get(key) {
        return Some(vec![value]);
    }
    let listed = selector
        .match_expressions
        .iter()
        .find(|r| r.key == key && r.operator == "In" && !r.values.is_empty())?;
    Some(listed.values.iter().collect())
}

/// A part of a manifest that violates its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Keys and indexes from the root of the object.
    pub path: Vec<String>,
    /// Whether a required field is missing.
    pub missing: bool,
    /// The error message, which contains the path.
    pub message: String,
    pub fix: Option<String>,
}

/// The file names of a kustomization.
pub(super) const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
/// The file names of a test of chainsaw.
pub(super) const TESTS: [&str; 2] = ["chainsaw-test.yaml", "chainsaw-test.yml"];

/// The paths in a kustomization, relative to its directory.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Files and directories that are applied together with the kustomization.
    pub resources: Vec<String>,
    /// Files with parts of objects.
    pub parts: Vec<String>,
}

impl Named {
    pub fn of_kustomization(value: &Value) -> Named {
        let resources = ["resources", "bases", "components"].map(|field| strings(&value[field]));
        let paths =
            ["patches", "patchesJson6902"].map(|field| items(&value[field]).map(|patch| &patch["path"]));
        let paths = paths.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let merged = strings(&value["patchesStrategicMerge"]);
        Named { resources: resources.into_iter().flatten().collect(), parts: paths.chain(merged).collect() }
    }

    /// A test applies files one after another, and compares objects with parts of them.
    pub fn of_test(value: &Value) -> Named {
        let steps = items(&value["spec"]["steps"]);
        let files = steps
            .flat_map(|step| {
                ["try", "catch", "finally", "cleanup"].into_iter().flat_map(|part| items(&step[part]))
            })
            .flat_map(|action| {
                ["assert", "error", "patch"].into_iter().filter_map(|kind| action[kind]["file"].as_str())
            });
        Named { resources: Vec::new(), parts: files.map(str::to_owned).collect() }
    }
}

/// Whether an object is a strategic merge patch: it contains a directive of one.
pub(super) fn has_patch_directive(value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            members.iter().any(|(key, value)| key.starts_with("$patch") || has_patch_directive(value))
        }
        Value::Array(items) => items.iter().any(has_patch_directive),
        _ => false,
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn strings(list: &Value) -> Vec<String> {
    items(list).filter_map(Value::as_str).map(str::to_owned).collect()
}
