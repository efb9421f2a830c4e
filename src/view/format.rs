//! The values of `-o`.

use std::path::PathBuf;
use std::str::FromStr;

use super::columns::Columns;
pub use super::go_json::json;
use super::jsonpath::{EvalError, JsonPath, Printed};
use super::text::Text;
use super::yaml::YamlError;
pub use super::yaml::yaml;
use super::{View, harmless_xml};
use crate::program::{as_typed, document_as_typed};

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
    /// Like `Data`, from a template whose paths match nothing.
    Unmatched(String),
}

impl From<Printed> for Rendered {
    fn from(Printed { text, matched }: Printed) -> Rendered {
        if matched { Rendered::Data(text) } else { Rendered::Unmatched(text) }
    }
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

impl From<YamlError> for FormatError {
    fn from(error: YamlError) -> FormatError {
        FormatError(error.to_string())
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
            OutputFormat::JsonPath(path) => path.text(&document(view))?.into(),
            OutputFormat::JsonPathAsJson(path) => path.json(&document(view))?.into(),
            OutputFormat::CustomColumns(columns) => {
                Rendered::Text(columns.table(&document(view))?.into())
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::view::{Table, cells, is_harmless};

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
                let case = crate::view::junit::Case {
                    name: name.to_owned(),
                    result: crate::view::junit::TestResult::Failed,
                    message: name.to_owned(),
                    detail: name.to_owned(),
                };
                Some(crate::view::junit::report(name, [case]))
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
            Rendered::Data(data) | Rendered::Unmatched(data) => data,
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
}
