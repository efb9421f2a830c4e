//! The values of `-o`.

use std::path::PathBuf;
use std::str::FromStr;

use serde_json::Value;

use super::jsonpath::{EvalError, JsonPath, Path, printed};
use super::text::{Line, Text};
use super::{Table, View, harmless_xml};
use crate::program::{as_typed, document_as_typed};
use crate::view::Joined;

pub use super::yaml::yaml;
pub use nodewright::text::escape::json;

/// The value of `-o`.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum OutputFormat {
    /// For people.
    #[default]
    Table,
    /// For people with wide terminals: more columns.
    Wide,
    Json,
    Yaml,
    /// One `resource/name` a line.
    Name,
    JsonPath(JsonPath),
    JsonPathAsJson(JsonPath),
    CustomColumns(Columns),
    /// A JUnit report, for views that have one.
    Junit,
    /// A SARIF log, for views that have one.
    Sarif,
    /// OpenMetrics text, for views that have metrics, on stdout or in a file.
    OpenMetrics(Option<PathBuf>),
    /// The command's output file; notices are printed as for `table`.
    File(PathBuf),
}

/// Rendered output, by how it may be changed for printing.
#[derive(Debug, Clone, PartialEq)]
pub enum Rendered {
    /// Laid out for the terminal.
    Text(Text),
    /// Printed unchanged for programs.
    Data(String),
    /// With a notice for stderr: a path matches nothing.
    Noted(Box<Rendered>, String),
}

impl Rendered {
    /// The output with a notice about the fields of the document, if its paths match nothing.
    fn of_paths(self, matched: bool, document: &Value) -> Rendered {
        if matched {
            return self;
        }
        Rendered::Noted(Box::new(self), format!("A path matches nothing; {}.", fields(document)))
    }
}

/// The fields that a path can name: `each of .items has the fields name, status`; `the fields are …` without items.
pub fn fields(document: &Value) -> String {
    let (of, value) = match items(document) {
        [] => return ".items is empty".to_owned(),
        [only] if std::ptr::eq(only, document) => ("the fields are", only),
        [first, ..] => ("each of .items has the fields", first),
    };
    let names =
        value.as_object().into_iter().flat_map(|fields| fields.keys()).map(String::as_str).joined(", ");
    format!("{of} {names}")
}

/// An invalid `-o`, or one that does not fit the data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FormatError(pub String);

impl From<FormatError> for crate::error::Error {
    fn from(error: FormatError) -> Self {
        Self::failed(error)
    }
}

impl From<EvalError> for FormatError {
    fn from(misfit: EvalError) -> FormatError {
        FormatError(format!("cannot evaluate the template: {misfit}"))
    }
}

const ALLOWED: &str = "table, wide, json, yaml, name, jsonpath=TEMPLATE, jsonpath-file=FILE, \
     jsonpath-as-json=TEMPLATE, custom-columns=HEADING:PATH,…, custom-columns-file=FILE, and for some commands junit, sarif, \
     openmetrics";

/// The document, with commands as the user typed them.
fn document(view: &dyn View) -> serde_json::Value {
    let mut document = view.document();
    document_as_typed(&mut document);
    document
}

fn junit(view: &dyn View) -> Option<String> {
    let report = view.junit()?;
    let xml = report.to_string().expect("the report has no text that XML cannot escape");
    Some(as_typed(harmless_xml(&xml)).into_owned())
}

impl OutputFormat {
    /// Whether the output is for programs: it stays complete and parsable, even if empty.
    pub fn is_data(&self) -> bool {
        !matches!(self, Self::Table | Self::Wide | Self::File(_))
    }

    /// Renders a view in this format.
    pub fn render(&self, view: &dyn View) -> Result<Rendered, FormatError> {
        Ok(match self {
            OutputFormat::Table | OutputFormat::File(_) => Rendered::Text(view.blocks(false)),
            OutputFormat::Wide => Rendered::Text(view.blocks(true)),
            OutputFormat::Name => {
                let mut text = Text::new();
                for name in view.names() {
                    text.line(name);
                }
                Rendered::Text(text)
            }
            OutputFormat::Json => Rendered::Data(json(&document(view))),
            OutputFormat::Yaml => Rendered::Data(yaml(&document(view))?),
            OutputFormat::Junit => Rendered::Data(junit(view).ok_or_else(|| {
                FormatError("this command has no JUnit report; `lint`, `diagnose stuck` and `diagnose check` have one".to_owned())
            })?),
            OutputFormat::Sarif => Rendered::Data(view.sarif().map(|log| json(&log)).ok_or_else(|| {
                FormatError("this command has no SARIF report; `lint` has one".to_owned())
            })?),
            OutputFormat::OpenMetrics(_) => Rendered::Data(view.openmetrics().map(|metrics| metrics.text()).ok_or_else(|| {
                FormatError("this command has no metrics; `diagnose stuck` and `diagnose check` have metrics".to_owned())
            })?),
            OutputFormat::JsonPath(path) => {
                let document = document(view);
                let printed = path.text(&document)?;
                Rendered::Data(printed.text).of_paths(printed.matched, &document)
            }
            OutputFormat::JsonPathAsJson(path) => {
                let document = document(view);
                let printed = path.json(&document)?;
                Rendered::Data(printed.text).of_paths(printed.matched, &document)
            }
            OutputFormat::CustomColumns(columns) => {
                let document = document(view);
                let table = Rendered::Text(columns.table(&document)?.into());
                table.of_paths(columns.all_match(&document), &document)
            }
        })
    }
}

impl OutputFormat {
    /// The file named by `jsonpath-file=FILE` or `custom-columns-file=FILE`; `None` for other formats.
    pub fn file(text: &str) -> Option<&str> {
        let (word, file) = text.split_once('=')?;
        let word = word.to_ascii_lowercase();
        let named = matches!(word.as_str(), "jsonpath-file" | "custom-columns-file");
        (named && !file.is_empty()).then_some(file)
    }

    /// The format for a file named by [`OutputFormat::file`], from the file's content.
    ///
    /// # Errors
    ///
    /// The file holds no template or columns.
    pub fn of_file(text: &str, content: &str) -> Result<OutputFormat, FormatError> {
        if text.to_ascii_lowercase().starts_with("jsonpath") {
            Ok(OutputFormat::JsonPath(json_path(content)?))
        } else {
            Columns::parse_file(content).map(OutputFormat::CustomColumns)
        }
    }
}

impl FromStr for OutputFormat {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<OutputFormat, FormatError> {
        let (word, argument) = match text.split_once('=') {
            Some((word, argument)) => (word, Some(argument)),
            None => (text, None),
        };
        let word = word.to_ascii_lowercase();
        match (word.as_str(), argument) {
            ("table", None) => Ok(OutputFormat::Table),
            ("wide", None) => Ok(OutputFormat::Wide),
            ("json", None) => Ok(OutputFormat::Json),
            ("yaml", None) => Ok(OutputFormat::Yaml),
            ("name", None) => Ok(OutputFormat::Name),
            ("junit", None) => Ok(OutputFormat::Junit),
            ("sarif", None) => Ok(OutputFormat::Sarif),
            ("openmetrics", None) => Ok(OutputFormat::OpenMetrics(None)),
            ("openmetrics", Some(file)) if !file.is_empty() => {
                Ok(OutputFormat::OpenMetrics(Some(file.into())))
            }
            ("jsonpath" | "jsonpath-as-json", None | Some("")) => {
                Err(FormatError(format!("a template is required, as in {word}='{{.kind}}'")))
            }
            ("jsonpath", Some(template)) => Ok(OutputFormat::JsonPath(json_path(template)?)),
            ("jsonpath-as-json", Some(template)) => Ok(OutputFormat::JsonPathAsJson(json_path(template)?)),
            ("custom-columns", Some(spec)) => Columns::parse(spec).map(OutputFormat::CustomColumns),
            ("custom-columns", None) => Err(FormatError(
                "columns are required, as in custom-columns=HEADING:.path; -o json shows the paths"
                    .to_owned(),
            )),
            ("jsonpath-file" | "custom-columns-file", None | Some("")) => {
                Err(FormatError(format!("a file path is required, as in {word}=FILE")))
            }
            ("go-template" | "go-template-file" | "template" | "templatefile", _) => Err(FormatError(
                "Go templates are not supported: use jsonpath=TEMPLATE, \
                     as in jsonpath='{.kind}'"
                    .to_owned(),
            )),
            _ => Err(FormatError(format!("allowed formats are {ALLOWED}"))),
        }
    }
}

fn json_path(template: &str) -> Result<JsonPath, FormatError> {
    JsonPath::parse(template).map_err(|error| FormatError(error.to_string()))
}

/// Columns that a user has chosen, each with a heading and a path.
#[derive(Debug, Clone, PartialEq)]
pub struct Columns {
    columns: Vec<(String, Path)>,
}

impl Columns {
    pub fn parse(spec: &str) -> Result<Columns, FormatError> {
        let columns = split(spec).into_iter().map(|column| {
            let (heading, path) = match column.split_once(':') {
                Some((heading, path)) if !path.is_empty() => (heading, path),
                _ => {
                    let what = format!(
                        "{column:?} is not a valid column; expected HEADING:PATH, such as NAME:.name"
                    );
                    return Err(FormatError(what));
                }
            };
            headed(heading.to_owned(), path)
        });
        let columns = columns.collect::<Result<_, _>>()?;
        Ok(Columns { columns })
    }

    /// Parses the two lines of a file: headings above, paths below, separated by blanks.
    ///
    /// # Errors
    ///
    /// The file does not have two lines, or the numbers of headings and paths differ.
    pub fn parse_file(text: &str) -> Result<Columns, FormatError> {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let words = |line: Option<&str>| -> Vec<String> {
            line.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
        };
        let (headings, paths) = (words(lines.next()), words(lines.next()));
        if headings.is_empty() || headings.len() != paths.len() || lines.next().is_some() {
            return Err(FormatError(
                "a custom-columns file must have a line of headings and a line with the same number of paths, such as \
                 NAME ZONE and .metadata.name .metadata.labels.zone"
                    .to_owned(),
            ));
        }
        let columns = headings.into_iter().zip(&paths).map(|(heading, path)| headed(heading, path));
        let columns = columns.collect::<Result<_, _>>()?;
        Ok(Columns { columns })
    }

    /// A table with one row per item of a list; other documents have one row.
    ///
    /// # Errors
    ///
    /// The data does not have the shape that a path requires.
    pub fn table(&self, document: &Value) -> Result<Table, FormatError> {
        let mut table = Table::with_headings(self.columns.iter().map(|(heading, _)| heading));
        for item in items(document) {
            let cells = self.columns.iter().map(|(_, path)| cell(path, item));
            table.row(cells.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(table)
    }

    /// Whether each column has a value in some item.
    fn all_match(&self, document: &Value) -> bool {
        let items = items(document);
        let has = |path: &Path| items.iter().any(|item| path.find(item).is_ok_and(|found| !found.is_empty()));
        items.is_empty() || self.columns.iter().all(|(_, path)| has(path))
    }
}

fn headed(heading: String, path: &str) -> Result<(String, Path), FormatError> {
    let path = Path::parse(path).map_err(|error| FormatError(format!("column {heading}: {error}")))?;
    Ok((heading, path))
}

/// The items of a list, which `node list --compat` calls `nodes`; any other document is a single item.
fn items(document: &Value) -> &[Value] {
    let member = |name| document.get(name)?.as_array();
    let list = document.as_array().or(member("items")).or(member("nodes"));
    list.map_or(std::slice::from_ref(document), Vec::as_slice)
}

/// All values at the path, joined by commas. The table shows an empty cell as `<none>`.
fn cell(path: &Path, item: &Value) -> Result<Line, FormatError> {
    let found = path.find(item)?.into_iter().filter(|value| !value.is_null());
    Ok(found.map(printed).joined(",").into())
}

/// Splits columns at commas, except within brackets or quotes of a path.
fn split(spec: &str) -> Vec<&str> {
    let mut columns = Vec::new();
    let (mut start, mut depth, mut quote) = (0, 0_usize, None);
    for (at, c) in spec.char_indices() {
        match c {
            _ if quote == Some(c) => quote = None,
            _ if quote.is_some() => {}
            '"' | '\'' if depth > 0 => quote = Some(c),
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                columns.push(&spec[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    columns.push(&spec[start..]);
    columns
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::view::{Table, Text, cells, is_harmless};

    /// A name may hold characters that XML does not allow, or that change the reading direction.
    #[test]
    fn names_are_valid_and_harmless_in_xml() {
        struct Hostile;

        impl View for Hostile {
            fn blocks(&self, _wide: bool) -> Text {
                Text::new()
            }

            fn names(&self) -> Vec<String> {
                Vec::new()
            }

            fn document(&self) -> Value {
                Value::Null
            }

            fn junit(&self) -> Option<quick_junit::Report> {
                let name = "gpu\u{fffe}-\u{202e}-\u{9b}-\u{7}-<日本>\n";
                let case = crate::view::monitoring::Case {
                    name: name.to_owned(),
                    result: crate::view::monitoring::TestResult::Failed,
                    message: name.to_owned(),
                    detail: name.to_owned(),
                };
                Some(crate::view::monitoring::report(name, [case]))
            }
        }

        let Ok(Rendered::Data(xml)) = OutputFormat::Junit.render(&Hostile) else { panic!("a report") };
        let allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
        assert!(xml.chars().all(allowed), "{xml}");
        assert!(!xml.contains(['\u{202e}', '\u{9b}']), "{xml}");
        // The suite, the case, the message and the detail, in attributes and in text. The library drops control characters.
        let spelled = "gpu&lt;U+FFFE&gt;-&lt;U+202E&gt;---&lt;日本&gt;";
        assert!(xml.matches(spelled).count() >= 4, "{xml}");
    }

    struct Nodes;

    impl View for Nodes {
        fn blocks(&self, wide: bool) -> Text {
            let mut table = if wide { Table::new(["name", "zone"]) } else { Table::new(["name"]) };
            if wide {
                table.row(cells!["gpu-1", "a"])
            } else {
                table.row(cells!["gpu-1"])
            };
            table.into()
        }

        fn names(&self) -> Vec<String> {
            vec!["node/gpu-1".to_owned()]
        }

        fn document(&self) -> Value {
            json!({"zone": "a", "name": "gpu-1", "tags": [], "more": {"count": 1, "x": null, "list": ["a", {"b": 2, "c": "d"}]}})
        }
    }

    fn rendered(format: &str) -> String {
        let format: OutputFormat = format.parse().expect("a format");
        match format.render(&Nodes).expect("it renders") {
            Rendered::Text(text) => text.plain(),
            Rendered::Data(data) => data,
            Rendered::Noted(..) => panic!("a path matches nothing"),
        }
    }

    #[test]
    fn a_view_has_every_format() {
        assert_eq!(rendered("Table"), "NAME\ngpu-1\n");
        assert_eq!(rendered("wide"), "NAME   ZONE\ngpu-1  a\n");
        assert_eq!(rendered("NAME"), "node/gpu-1\n");
        assert_eq!(
            rendered("json"),
            r#"{
    "zone": "a",
    "name": "gpu-1",
    "tags": [],
    "more": {
        "count": 1,
        "x": null,
        "list": [
            "a",
            {
                "b": 2,
                "c": "d"
            }
        ]
    }
}
"#
        );
        assert_eq!(rendered("jsonpath={.more.list[*]}"), "a {\"b\":2,\"c\":\"d\"}");
        assert_eq!(rendered("JSONPath=.name"), "gpu-1");
        assert_eq!(rendered("jsonpath-as-json={.zone}"), "[\n    \"a\"\n]\n");
        assert_eq!(rendered("custom-columns=Name:.name,ZONE:zone"), "Name   ZONE\ngpu-1  a\n");
        assert_eq!(
            rendered("yaml"),
            "zone: a\nname: gpu-1\ntags: []\nmore:\n  count: 1\n  x: null\n  list:\n  - a\n  - b: 2\n    c: d\n"
        );
    }

    #[test]
    fn nothing_harmful_is_printed_as_data() {
        let document = json!({"a": "\u{1b}[31m\u{202e}b\u{e0041}\u{9b}", "list": ["\u{2066}", "c\td"]});
        let yaml = yaml(&document).expect("it renders");
        assert!(is_harmless(&yaml), "{yaml:?}");
        let read: Value = serde_saphyr::from_str(&yaml).expect("YAML");
        assert_eq!(read, document);
    }

    #[test]
    fn says_what_is_allowed() {
        let error = |format: &str| format.parse::<OutputFormat>().expect_err(format).to_string();
        let allowed = "allowed formats are table, wide, json, yaml, name, jsonpath=TEMPLATE, \
                       jsonpath-file=FILE, jsonpath-as-json=TEMPLATE, \
                       custom-columns=HEADING:PATH,…, custom-columns-file=FILE, and for some commands junit, sarif, openmetrics";
        assert_eq!(error("kyaml"), allowed);
        assert_eq!(error("json="), allowed);
        assert_eq!(
            error("go-template={{.items}}"),
            "Go templates are not supported: use jsonpath=TEMPLATE, as in jsonpath='{.kind}'"
        );
        assert_eq!(error("jsonpath"), "a template is required, as in jsonpath='{.kind}'");
        assert_eq!(error("custom-columns-file="), "a file path is required, as in custom-columns-file=FILE");
        assert_eq!(error("jsonpath={.items[0"), "unclosed `[` at character 8, after `{.items`");
    }

    fn printed(spec: &str, document: Value) -> String {
        let columns = Columns::parse(spec).expect("columns");
        Text::from(columns.table(&document).expect("rows")).plain()
    }

    #[test]
    fn prints_a_row_for_each_item() {
        let node = |name: &str, keys: &[&str]| {
            json!({"metadata": {"name": name, "labels": {"zone": "a"}}, "gone": null,
                   "keys": keys.iter().map(|key| json!({"key": key})).collect::<Vec<_>>()})
        };
        let list = json!({"kind": "NodeList", "items": [node("gpu-1", &["k1", "k2"]), node("gpu-2", &[])]});
        assert_eq!(
            printed(
                "NAME:.metadata.name,Labels:metadata.labels,K:{.keys[*].key},K2:keys[?(@.key==\"k2\")].key,G:.gone,N:.nope",
                list
            ),
            "NAME   Labels        K       K2      G       N\n\
             gpu-1  {\"zone\":\"a\"}  k1,k2   k2      <none>  <none>\n\
             gpu-2  {\"zone\":\"a\"}  <none>  <none>  <none>  <none>\n"
        );
        assert_eq!(printed("A:.a", json!([{"a": 1}, {"a": true}])), "A\n1\ntrue\n");
        assert_eq!(printed("A:{a}", json!({"a": "x\n"})), "A\nx\\n\n");
        assert_eq!(printed("A:.a", json!([])), "");
    }

    #[test]
    fn says_what_a_column_is() {
        let error = |spec| Columns::parse(spec).expect_err("no columns").to_string();
        for (spec, column) in [("", ""), ("NAME", "NAME"), ("A:", "A:"), ("A:.a,", "")] {
            assert_eq!(
                error(spec),
                format!("{column:?} is not a valid column; expected HEADING:PATH, such as NAME:.name")
            );
        }
        assert_eq!(
            error("A:.a,B:.b[x]"),
            "column B: expected an index, a slice, a key in quotes, `*` or `?(filter)`, found `x` at character 4, after `.b[`"
        );
        assert_eq!(error("A:{.a}{.b}"), "column A: expected the end, found `{` at character 5, after `{.a}`");
    }
}
