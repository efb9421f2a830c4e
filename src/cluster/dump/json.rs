//! JSON to objects as it comes: of a list, one item is held at a time.

use std::io::Read;

use memchr::memmem;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::body::Body;
use super::loader::ManifestLoader;
use super::pieces::{Pieces, TextPosition};
use super::summary::Summary;
use super::{DumpError, unreadable};

const WITHOUT_KIND: &str = "a value without a kind";
const WITHOUT_VERSION: &str = "a value without kind and apiVersion";

/// Whether a text that begins so is JSON. Flow-style YAML also starts like this, but kubectl never writes it.
pub fn begins(head: &[u8]) -> bool {
    let head = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
    let first = head.iter().find(|b| !b.is_ascii_whitespace());
    matches!(first, Some(b'{' | b'['))
}

/// Reads the values of a text, one after another.
pub fn read(
    label: &str,
    stem: &str,
    stream: impl Read,
    loader: &mut ManifestLoader,
) -> Result<(), DumpError> {
    let mut reading = JsonReader {
        label,
        stem,
        pieces: Pieces::new(stream),
        loader,
    };
    while let Some(byte) = reading.next_byte("\u{feff}".as_bytes())? {
        match byte {
            b'{' => reading.document()?,
            b'[' => reading.array()?,
            _ => {
                reading.whole(b"")?;
                return Err(reading.no_object(WITHOUT_KIND));
            }
        }
    }
    Ok(())
}

struct JsonReader<'a, R> {
    label: &'a str,
    stem: &'a str,
    pieces: Pieces<R>,
    loader: &'a mut ManifestLoader,
}

impl<R: Read> JsonReader<'_, R> {
    fn next_byte(&mut self, also: &[u8]) -> Result<Option<u8>, DumpError> {
        let label = self.label;
        self.pieces.skip(also).map_err(|e| unreadable(label, e))
    }

    /// Documents in an array, as `jq -s` makes one.
    fn array(&mut self) -> Result<(), DumpError> {
        let mut text = self.pieces.take(1).to_vec();
        loop {
            match self.next_byte(b"")? {
                Some(b']') if !text.ends_with(b",") => break,
                Some(b',') if text.ends_with(b"0") => text.extend_from_slice(self.pieces.take(1)),
                Some(_) if text.ends_with(b"0") => return Err(self.syntax(&text)),
                Some(b'{') => {
                    self.document()?;
                    text.push(b'0');
                }
                _ => {
                    self.whole(&text)?;
                    return Err(self.no_object(WITHOUT_KIND));
                }
            }
        }
        self.pieces.take(1);
        Ok(())
    }

    /// An object, which may be a list. What stands before its items is kept, and a stroke for each of them.
    fn document(&mut self) -> Result<(), DumpError> {
        let mut text = self.pieces.take(1).to_vec();
        // Items come before what says their kind, as kubectl writes them.
        let (mut items, mut late) = (None, Vec::new());
        loop {
            match self.next_byte(b"")? {
                Some(b'}') if !text.ends_with(b",") => break,
                Some(b',') if !text.ends_with(b"{") && !text.ends_with(b",") => {}
                Some(b'"') if text.ends_with(b"{") || text.ends_with(b",") => {
                    let key = self.whole(&text)?.to_vec();
                    text.extend_from_slice(&key);
                    if self.next_byte(b"")? != Some(b':') {
                        return Err(self.syntax(&text));
                    }
                    text.extend_from_slice(self.pieces.take(1));
                    let value = self.next_byte(b"")?;
                    if key == b"\"items\"" && value == Some(b'[') && may_be_list(&text) {
                        items = Some(self.items(&mut text, &mut late)?);
                    } else {
                        let value = self.whole(&text)?;
                        text.extend_from_slice(value);
                    }
                    continue;
                }
                _ => return Err(self.syntax(&text)),
            }
            text.extend_from_slice(self.pieces.take(1));
        }
        text.extend_from_slice(self.pieces.take(1));
        match items {
            None => self.object(&text),
            Some(count) => self.list(&text, count, late),
        }
    }

    /// The items of a list, each decoded as it comes; how many there are.
    fn items(&mut self, text: &mut Vec<u8>, late: &mut Vec<Vec<u8>>) -> Result<usize, DumpError> {
        let head = [text.as_slice(), b"null}"].concat();
        let head: Summary = serde_json::from_slice(&head).unwrap_or_default();
        let list = match (&head.kind, &head.api_version) {
            (Some(kind), Some(version)) => kind.strip_suffix("List").zip(Some(version.as_str())),
            _ => None,
        };
        text.extend_from_slice(self.pieces.take(1));
        let mut count = 0;
        loop {
            match self.next_byte(b"")? {
                Some(b']') if !text.ends_with(b",") => break,
                Some(b',') if text.ends_with(b"0") => text.extend_from_slice(self.pieces.take(1)),
                Some(b',' | b']' | b'}' | b':') | None => return Err(self.syntax(text)),
                Some(_) if text.ends_with(b"0") => return Err(self.syntax(text)),
                Some(_) => {
                    self.one(text, list, late)?;
                    text.push(b'0');
                    count += 1;
                }
            }
        }
        text.extend_from_slice(self.pieces.take(1));
        Ok(count)
    }

    fn one(
        &mut self,
        before: &[u8],
        list: Option<(&str, &str)>,
        late: &mut Vec<Vec<u8>>,
    ) -> Result<(), DumpError> {
        let (label, place) = (self.label, self.pieces.place());
        let end = self.pieces.value().map_err(|e| unreadable(label, e))?;
        let Some(end) = end else {
            return Err(self.syntax(before));
        };
        let item = self.pieces.take(end);
        let node = begins_as_node(item, list).then(|| Body::read_node(item, list));
        let body = match node.flatten() {
            Some(body) => body,
            None => Body::read(item).map_err(|_| syntax(label, b"", item, place))?,
        };
        let known = body.summary.kind.is_some() && body.summary.api_version.is_some();
        if !known && list.is_none() {
            late.push(item.to_vec());
            return Ok(());
        }
        let taken = self.loader.item(label, list, body);
        taken.map_err(|what| no_object(label, &what))
    }

    /// An object that was read whole.
    fn object(&mut self, text: &[u8]) -> Result<(), DumpError> {
        let label = self.label;
        let begun = TextPosition { line: 1, column: 0 };
        let body = Body::read(text).map_err(|_| syntax(label, b"", text, begun))?;
        if body.summary.has_items {
            // A list without items, or of something else than items.
            let value: Value =
                serde_json::from_slice(text).map_err(|_| syntax(label, b"", text, begun))?;
            let added = self.loader.add(label, self.stem, value);
            return added.map_err(|what| no_object(label, &what));
        }
        match (body.summary.kind.clone(), body.summary.api_version.clone()) {
            (Some(kind), Some(version)) => {
                let taken = self
                    .loader
                    .document(label, self.stem, &version, &kind, body);
                taken.map_err(|what| no_object(label, &what))
            }
            _ => Err(self.no_object(WITHOUT_VERSION)),
        }
    }

    /// What stands around the items that were read, and those that waited for it.
    fn list(&mut self, text: &[u8], count: usize, late: Vec<Vec<u8>>) -> Result<(), DumpError> {
        let label = self.label;
        let begun = TextPosition { line: 1, column: 0 };
        let Summary {
            kind, api_version, ..
        } = serde_json::from_slice(text).map_err(|_| syntax(label, b"", text, begun))?;
        let (Some(kind), Some(version)) = (kind, api_version) else {
            return Err(self.no_object(WITHOUT_VERSION));
        };
        let Some(of) = kind.strip_suffix("List") else {
            self.loader.file(self.stem);
            return Ok(());
        };
        self.loader.list(self.stem, &version, of, count == 0);
        for item in late {
            let body = Body::read(&item).map_err(|_| syntax(label, b"", &item, begun))?;
            let taken = self.loader.item(label, Some((of, &version)), body);
            taken.map_err(|what| no_object(label, &what))?;
        }
        Ok(())
    }

    /// The next value, whatever it is; `before` is what of the text stands before it.
    fn whole(&mut self, before: &[u8]) -> Result<&[u8], DumpError> {
        let (label, place) = (self.label, self.pieces.place());
        let Some(end) = self.pieces.value().map_err(|e| unreadable(label, e))? else {
            return Err(self.syntax(before));
        };
        let value = self.pieces.take(end);
        match serde_json::from_slice::<IgnoredAny>(value) {
            Ok(_) => Ok(value),
            Err(_) => Err(syntax(label, b"", value, place)),
        }
    }

    /// What is wrong with what comes next, after what of the text stands before it.
    fn syntax(&self, before: &[u8]) -> DumpError {
        syntax(self.label, before, self.pieces.rest(), self.pieces.place())
    }

    fn no_object(&self, what: &str) -> DumpError {
        no_object(self.label, what)
    }
}

/// Whether an item is likely to be a node; kubectl writes kind and version first, or the list says it for all.
fn begins_as_node(item: &[u8], list: Option<(&str, &str)>) -> bool {
    const FIRST: usize = 80;
    let mut head = item[..item.len().min(FIRST)].to_vec();
    head.retain(|b| !b.is_ascii_whitespace());
    list.is_some_and(|(kind, _)| kind == "Node")
        || memmem::find(&head, b"\"kind\":\"Node\"").is_some()
}

/// Whether an object that begins so may be a list: its kind says so, or is still to come.
fn may_be_list(text: &[u8]) -> bool {
    let head = [text, b"null}"].concat();
    let head: Summary = serde_json::from_slice(&head).unwrap_or_default();
    head.kind.is_none_or(|kind| kind.ends_with("List"))
}

fn no_object(label: &str, what: &str) -> DumpError {
    DumpError::NotAnObject {
        path: label.to_owned(),
        what: what.to_owned(),
    }
}

/// What is wrong with a text that begins at this place, behind what of the document stands before it.
fn syntax(label: &str, before: &[u8], text: &[u8], begun: TextPosition) -> DumpError {
    let text = [before, text].concat();
    let mut values = serde_json::Deserializer::from_slice(&text).into_iter::<Value>();
    let why = match values.find_map(Result::err) {
        Some(error) => placed(&error, before, begun),
        None => "it is not JSON".to_owned(),
    };
    DumpError::Syntax {
        path: label.to_owned(),
        why,
    }
}

/// An error with its place in the whole of what is read.
fn placed(error: &serde_json::Error, before: &[u8], begun: TextPosition) -> String {
    let (line, column) = (error.line(), error.column());
    let said = error.to_string();
    let said = said
        .strip_suffix(&format!(" at line {line} column {column}"))
        .unwrap_or(&said);
    let start = TextPosition { line: 1, column: 0 }.after(before);
    let (line, column) = match line.saturating_sub(start.line) {
        0 => {
            let behind = column.saturating_sub(start.column);
            (begun.line, begun.column + behind)
        }
        more => (begun.line + more, column),
    };
    let cut = if error.is_eof() { "cut off: " } else { "" };
    format!("{cut}{said} at line {line} column {column}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ApiFlavor;
    use crate::cluster::Cluster;
    use crate::cluster::dump::documents;

    fn streamed(text: &str) -> Result<Option<Cluster>, String> {
        let mut loader = ManifestLoader::default();
        match read("f", "", text.as_bytes(), &mut loader) {
            Ok(()) => Ok(loader.finish(None)),
            Err(DumpError::Syntax { why, .. }) => Err(why),
            Err(other) => Err(other.to_string()),
        }
    }

    fn at_once(text: &str) -> Result<Option<Cluster>, String> {
        let mut loader = ManifestLoader::default();
        for document in documents::parse(text)? {
            let added = loader.add("f", "", document);
            added.map_err(|what| no_object("f", &what).to_string())?;
        }
        Ok(loader.finish(None))
    }

    const NODE: &str = r#"{"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "a", "labels": {"x": "}\"]"}, "creationTimestamp": "2026-01-01T00:00:00Z"}}"#;

    /// A custom resource in a list that says for all of them what they are.
    const OWN: &str = r#"{"metadata": {"name": "a"}, "kind": null, "spec": {"packages": {}}}"#;
    const INDEX: &str = r#"{"apiVersion": "kubectl-skyhook/v1", "kind": "Capture", "takenAt": "2026-01-01T00:00:00Z",
        "versions": {"tool": "1", "server": null, "operator": null}, "served": [], "sources": [], "files": ["nodes"]}"#;

    #[test]
    fn what_comes_piece_by_piece_is_what_comes_at_once() {
        let (kind, version) = (
            ApiFlavor::NodeWright.kind(),
            ApiFlavor::NodeWright.api_version(),
        );
        let bare = NODE.replace(r#""apiVersion": "v1", "kind": "Node","#, "");
        for text in [
            NODE.to_owned(),
            format!("{NODE} {NODE}\n"),
            format!(r#"{{"apiVersion": "v1", "items": [{NODE}, {NODE}], "kind": "List"}}"#),
            format!(r#"{{"kind": "NodeList", "apiVersion": "v1", "items": [{bare}]}}"#),
            format!(r#"{{"items": [{bare}], "apiVersion": "v1", "kind": "NodeList"}}"#),
            format!(r#"{{"items": [{bare}], "apiVersion": "v1", "kind": "List"}}"#),
            format!(r#"[{NODE}, {{"kind": "NodeList", "apiVersion": "v1", "items": [{bare}]}}]"#),
            format!(
                r#"{{"apiVersion": "v1", "items": [{{"kind": "NodeList", "apiVersion": "v1", "items": [{bare}]}},
                    {{"kind": "List", "apiVersion": "v1", "items": [{NODE}]}}], "kind": "List"}}"#
            ),
            "[]".to_owned(),
            r#"[1]"#.to_owned(),
            r#"[[{"kind": "Node"}]]"#.to_owned(),
            r#"{"items": [], "apiVersion": "v1", "kind": "NodeList"}"#.to_owned(),
            format!(r#"{{"kind": "{kind}List", "apiVersion": "{version}", "items": [{OWN}]}}"#),
            format!(
                r#"{{"items": [{OWN}, {{}}], "kind": "{kind}List", "apiVersion": "{version}"}}"#
            ),
            r#"{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "a"}}"#.to_owned(),
            INDEX.to_owned(),
            INDEX.replace("2026", "?"),
            r#"{"items": null, "apiVersion": "v1", "kind": "NodeList"}"#.to_owned(),
            r#"{"items": {"a": 1}, "apiVersion": "v1", "kind": "NodeList"}"#.to_owned(),
            r#"{"items": [1], "apiVersion": "v1", "kind": "Other"}"#.to_owned(),
            r#"{"items": [], "kind": "NodeList"}"#.to_owned(),
            r#"[{"kind": "Node"}]"#.to_owned(),
            "{}".to_owned(),
        ] {
            let [streamed, at_once] = [streamed(&text), at_once(&text)].map(|c| format!("{c:?}"));
            assert_eq!(streamed, at_once, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let text = format!(
            "{{\n  \"apiVersion\": \"v1\",\n  \"items\": [\n    {NODE},\n    {NODE}\n  ],\n  \"kind\": \"List\"\n}}\n"
        );
        let cut = (1..text.len() - 1).map(|end| text[..end].to_owned());
        let spoiled = (1..text.len()).map(|at| format!("{}?{}", &text[..at], &text[at..]));
        for bad in cut.chain(spoiled) {
            let Err(why) = at_once(&bad) else { continue };
            assert_eq!(streamed(&bad).map(|_| ()), Err(why), "{bad}");
        }
    }
}
