//! Reads objects from a stream of JSON. Only one item of a list is in memory at a time, except items of
//! unknown kind that precede the kind of their list.

use std::io::Read;

use memchr::memmem;
use serde_json::value::RawValue;

use super::body::{Body, Summary};
use super::loader::ManifestLoader;
use super::{DumpError, is_message, unreadable};
use crate::cluster::json_pieces::{self, Items, Pieces, Stop, TextPosition};

const WITHOUT_VERSION: &str = "a value without kind or apiVersion";

/// Whether a text with this head is JSON. Flow-style YAML also starts like this, but kubectl never writes it.
pub fn begins(head: &[u8]) -> bool {
    let head = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
    head.split(|b| *b == b'\n')
        .map(<[u8]>::trim_ascii_start)
        .find(|line| !line.is_empty() && !is_message(line))
        .is_some_and(|line| line.starts_with(b"{") || line.starts_with(b"["))
}

/// Reads the values of a stream one after another.
pub fn read(
    label: &str,
    stem: &str,
    stream: impl Read,
    loader: &mut ManifestLoader,
) -> Result<(), DumpError> {
    let mut reading = JsonReader { label, stem, pieces: Pieces::new(stream), loader };
    while let Some(byte) = reading.next_byte("\u{feff}".as_bytes())? {
        match byte {
            b'{' => reading.document()?,
            b'[' => reading.array()?,
            _ => {
                let line = reading.pieces.place().line;
                let text = reading.pieces.line().map_err(|e| unreadable(label, e))?;
                let text = String::from_utf8_lossy(text).into_owned();
                if !is_message(text.as_bytes()) {
                    let text = super::quoted(&text);
                    return Err(DumpError::Text { path: label.to_owned(), line, text });
                }
                reading.loader.skip_message(label, &text);
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

    /// Reads an array of documents, as written by `jq -s`.
    fn array(&mut self) -> Result<(), DumpError> {
        let text = self.pieces.whole(b"").map_err(|stop| stopped(self.label, stop))?;
        let documents: Vec<&RawValue> =
            serde_json::from_slice(text).map_err(|error| DumpError::syntax(self.label, error.to_string()))?;
        for document in documents.into_iter().map(RawValue::get) {
            if !document.starts_with('{') {
                return Err(DumpError::not_an_object(self.label, "a value that is not an object"));
            }
            read(self.label, self.stem, document.as_bytes(), self.loader)?;
        }
        Ok(())
    }

    /// Reads an object, which may be a list.
    fn document(&mut self) -> Result<(), DumpError> {
        let mut items =
            ListItems { label: self.label, loader: self.loader, list: None, count: None, late: Vec::new() };
        let taken = self.pieces.object(&mut items);
        let (count, late) = (items.count, items.late);
        let text = taken.map_err(|stop| stopped(self.label, stop))?;
        match count {
            None => self.object(&text),
            Some(count) => self.list(&text, count, late),
        }
    }

    /// Adds an object that was read as a whole.
    fn object(&mut self, text: &[u8]) -> Result<(), DumpError> {
        let label = self.label;
        let body = Body::read(text).map_err(|_| syntax(label, text, TextPosition::START))?;
        match (body.summary.kind.clone(), body.summary.api_version.clone()) {
            (Some(kind), Some(_)) if body.summary.has_items && kind.ends_with("List") => {
                Err(self.no_object("a List whose items field is not an array"))
            }
            (Some(kind), Some(version)) => self.loader.document(label, self.stem, &version, &kind, body),
            _ => Err(self.no_object(WITHOUT_VERSION)),
        }
    }

    /// Registers the list, then adds the items that had no kind before their list's kind was known.
    fn list(&mut self, text: &[u8], count: usize, late: Vec<Vec<u8>>) -> Result<(), DumpError> {
        let label = self.label;
        let Summary { kind, api_version, .. } =
            serde_json::from_slice(text).map_err(|_| syntax(label, text, TextPosition::START))?;
        let (Some(kind), Some(version)) = (kind, api_version) else {
            return Err(self.no_object(WITHOUT_VERSION));
        };
        let Some(of) = kind.strip_suffix("List") else {
            self.loader.file(self.stem);
            return Ok(());
        };
        self.loader.list(self.stem, &version, of, count == 0);
        for item in late {
            let body = Body::read(&item).map_err(|_| syntax(label, &item, TextPosition::START))?;
            self.loader.item(label, Some((of, &version)), body)?;
        }
        self.loader.end_list();
        Ok(())
    }

    fn no_object(&self, what: &str) -> DumpError {
        DumpError::not_an_object(self.label, what)
    }
}

/// Receives the items of a list, and decodes each immediately, if its kind is known.
struct ListItems<'a> {
    label: &'a str,
    loader: &'a mut ManifestLoader,
    /// Kind and version of the items, if written before them.
    list: Option<(String, String)>,
    count: Option<usize>,
    /// Items that precede the kind of their list, as kubectl writes lists.
    late: Vec<Vec<u8>>,
}

impl Items for ListItems<'_> {
    type Error = DumpError;

    fn begin(&mut self, before: &[u8]) -> bool {
        let head = [before, b"null}"].concat();
        let head: Summary = serde_json::from_slice(&head).unwrap_or_default();
        // An object of another kind. Otherwise it is a list, whose kind may follow its items.
        if head.kind.as_ref().is_some_and(|kind| !kind.ends_with("List")) {
            return false;
        }
        self.list = head.kind.zip(head.api_version).and_then(|(kind, version)| {
            let kind = kind.strip_suffix("List")?;
            Some((kind.to_owned(), version))
        });
        self.count = Some(0);
        true
    }

    fn take(&mut self, item: &[u8], place: TextPosition) -> Result<(), DumpError> {
        let label = self.label;
        let list = self.list.as_ref().map(|(kind, version)| (kind.as_str(), version.as_str()));
        let node = begins_as_node(item, list).then(|| Body::read_node(item, list));
        let body = match node.flatten() {
            Some(body) => body,
            None => Body::read(item).map_err(|_| syntax(label, item, place))?,
        };
        self.count = self.count.map(|count| count + 1);
        let known = body.summary.kind.is_some() && body.summary.api_version.is_some();
        if !known && list.is_none() {
            self.late.push(item.to_vec());
            return Ok(());
        }
        self.loader.item(label, list, body)
    }
}

/// Whether an item is probably a node: kubectl writes kind and version first, or the list has them.
fn begins_as_node(item: &[u8], list: Option<(&str, &str)>) -> bool {
    const FIRST: usize = 80;
    let mut head = item[..item.len().min(FIRST)].to_vec();
    head.retain(|b| !b.is_ascii_whitespace());
    list.is_some_and(|(kind, _)| kind == "Node") || memmem::find(&head, b"\"kind\":\"Node\"").is_some()
}

fn stopped(label: &str, stop: Stop<DumpError>) -> DumpError {
    match stop {
        Stop::Unreadable(error) => unreadable(label, error),
        Stop::Syntax(why) => DumpError::syntax(label, why),
        Stop::Item(error) => error,
    }
}

/// The syntax error of a text that begins at this position.
fn syntax(label: &str, text: &[u8], start: TextPosition) -> DumpError {
    DumpError::syntax(label, json_pieces::syntax(b"", text, start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ApiFlavor;
    use crate::cluster::Cluster;

    fn streamed(text: &str) -> Result<Option<Cluster>, String> {
        let mut loader = ManifestLoader::default();
        match read("f", "", text.as_bytes(), &mut loader) {
            Ok(()) => Ok(loader.finish(None)),
            Err(DumpError::Syntax { why, .. }) => Err(why),
            Err(other) => Err(other.to_string()),
        }
    }

    /// The text in one piece, with sorted keys.
    fn at_once(text: &str) -> Result<Option<Cluster>, String> {
        let documents = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
        let documents = documents.collect::<Result<Vec<_>, _>>();
        let documents =
            documents.map_err(|e| if e.is_eof() { format!("cut off: {e}") } else { e.to_string() })?;
        let documents: String = documents.iter().map(serde_json::Value::to_string).collect();
        streamed(&documents)
    }

    const NODE: &str = r#"{"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "a", "labels": {"x": "}\"]"}, "creationTimestamp": "2026-01-01T00:00:00Z"}}"#;

    /// A custom resource without a kind of its own: its list has the kind.
    const OWN: &str = r#"{"metadata": {"name": "a"}, "kind": null, "spec": {"packages": {}}}"#;
    const INDEX: &str = r#"{"apiVersion": "kubectl-skyhook/v1", "kind": "Capture", "takenAt": "2026-01-01T00:00:00Z",
        "versions": {"tool": "1", "server": null, "operator": null}, "served": [], "sources": [], "files": ["nodes"]}"#;

    #[test]
    fn what_comes_piece_by_piece_is_what_comes_at_once() {
        let (kind, version) = (ApiFlavor::NodeWright.kind(), ApiFlavor::NodeWright.api_version());
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
            format!(r#"{{"items": [{OWN}, {{}}], "kind": "{kind}List", "apiVersion": "{version}"}}"#),
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
        // Text behind the last value is quoted.
        let spoiled = (1..text.len() - 1).map(|at| format!("{}?{}", &text[..at], &text[at..]));
        for bad in cut.chain(spoiled) {
            let Err(why) = at_once(&bad) else { continue };
            assert_eq!(streamed(&bad).map(|_| ()), Err(why), "{bad}");
        }
    }

    #[test]
    fn messages_of_kubectl_are_skipped_and_other_text_is_quoted() {
        let around = |before: &str, after: &str| {
            streamed(&format!("{before}{NODE}\n{after}")).map(|found| found.expect("a node").notes.len())
        };
        assert_eq!(around("Warning: v1 A is deprecated\n", ""), Ok(1));
        assert_eq!(around("", "Error from server (Forbidden): b is forbidden\n"), Ok(1));
        assert_eq!(around("Warning: a\nWarning: b\n", "Error from server: c"), Ok(3));
        assert_eq!(
            around("", "connection lost, password=hunter2\n"),
            Err("f: line 3 is neither an object nor a known message from kubectl: connection lost, password=<masked>"
                .to_owned())
        );
        assert!(begins(b"Warning: a\n\n {") && !begins(b"Warning: a\nkind: A\n"));
    }
}
