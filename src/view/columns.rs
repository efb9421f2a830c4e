//! `-o custom-columns=NAME:.metadata.name,ZONE:.metadata.labels.zone`.

use serde_json::Value;

use super::jsonpath::{Path, printed};
use super::text::Line;
use super::{FormatError, Table};

/// Columns that a user has chosen, each with a heading and a path.
#[derive(Debug, Clone, PartialEq)]
pub struct Columns {
    columns: Vec<(String, Path)>,
}

impl Columns {
    pub fn parse(spec: &str) -> Result<Columns, FormatError> {
        let columns = split(spec).into_iter().map(|column| {
            let (heading, path) = match column.split_once(':') {
                Some((heading, path)) if !heading.is_empty() && !path.is_empty() => (heading, path),
                _ => {
                    let what = format!(
                        "{column:?} is not a valid column; expected HEADING:PATH, such as NAME:.metadata.name"
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
            let words = line.unwrap_or_default().split_whitespace();
            words.map(str::to_owned).collect()
        };
        let (headings, paths) = (words(lines.next()), words(lines.next()));
        if headings.is_empty() || headings.len() != paths.len() || lines.next().is_some() {
            return Err(FormatError(
                "a custom-columns file must have a line of headings and a line with the same number of paths, such as \
                 NAME ZONE and .metadata.name .metadata.labels.zone"
                    .to_owned(),
            ));
        }
        let columns = headings.into_iter().zip(&paths);
        let columns = columns.map(|(heading, path)| headed(heading, path));
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
    Ok(found.map(printed).collect::<Vec<_>>().join(",").into())
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
    use serde_json::json;

    use super::*;
    use crate::view::Text;

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
        for (spec, column) in [("", ""), ("NAME", "NAME"), ("A:", "A:"), (":.a", ":.a"), ("A:.a,", "")] {
            assert_eq!(
                error(spec),
                format!(
                    "{column:?} is not a valid column; expected HEADING:PATH, such as NAME:.metadata.name"
                )
            );
        }
        assert_eq!(
            error("A:.a,B:.b[x]"),
            "column B: expected an index, a slice, a key in quotes, `*` or `?(filter)`, found `x` at character 4, after `.b[`"
        );
        assert_eq!(error("A:{.a}{.b}"), "column A: expected the end, found `{` at character 5, after `{.a}`");
    }
}
