//! The picture of the README: two commands on a capture, as a terminal shows them, and the nodes by status.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::support::run::run;

const CAPTURE: &str = "tests/clusters/deleted-while-erroring";
const COMMANDS: [&str; 2] = ["status", "diagnose stuck"];
/// Columns after which a line continues on the next one.
const COLUMNS: usize = 104;
const LINE_HEIGHT: usize = 19;
const MARGIN: usize = 18;
const WIDTH: usize = 900;
const CELL: usize = 16;

/// The picture, as SVG.
pub fn svg() -> String {
    let mut body = String::new();
    let mut y = MARGIN + LINE_HEIGHT;
    for words in COMMANDS {
        line(&mut body, &mut y, &format!("\u{1b}[2m$\u{1b}[0m \u{1b}[1mkubectl skyhook {words}\u{1b}[0m"));
        let shown = run(&format!("{words} --color always --from {CAPTURE}")).output().stdout;
        let shown = shown.lines().take_while(|line| !line.contains("could not run"));
        shown.flat_map(wrapped).for_each(|text| line(&mut body, &mut y, &text));
    }
    map(&mut body, &mut y);
    let height = y + MARGIN - LINE_HEIGHT;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"kubectl skyhook status and diagnose on a cluster with a deletion that is stuck\">\n\
         <style>text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#e6eaee;white-space:pre}}\
         .b{{font-weight:700}}.d{{fill:#9aa5b1}}.r{{fill:#ff7b7f}}.y{{fill:#f0b155}}.g{{fill:#5ecb85}}.c{{fill:#7fd1de}}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"8\" fill=\"#181d24\"/>\n{body}</svg>\n"
    )
}

/// The pieces of a line that fit; continuation lines keep the indentation.
fn wrapped(text: &str) -> Vec<String> {
    let indent = text.len() - text.trim_start().len();
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_inclusive(' ') {
        let width = visible(word);
        if used + width > COLUMNS && used > indent {
            lines.push(" ".repeat(indent + 2));
            used = indent + 2;
        }
        used += width;
        lines.last_mut().expect("a line").push_str(word);
    }
    lines
}

/// Number of letters without escape sequences.
fn visible(text: &str) -> usize {
    let mut pieces = text.split("\u{1b}[");
    let first = pieces.next().map_or(0, |text| text.chars().count());
    let rest = pieces.map(|piece| piece.split_once('m').map_or(0, |(_, text)| text.chars().count()));
    first + rest.sum::<usize>()
}

/// Adds a line, with the terminal's colors as classes.
fn line(body: &mut String, y: &mut usize, text: &str) {
    let _ = write!(body, "<text x=\"{MARGIN}\" y=\"{y}\" xml:space=\"preserve\">");
    let mut pieces = text.split("\u{1b}[");
    body.push_str(&escaped(pieces.next().unwrap_or_default()));
    for piece in pieces {
        let (codes, text) = piece.split_once('m').expect("the end of an escape sequence");
        let classes = codes.split(';').filter_map(|code| match code {
            "1" => Some("b"),
            "2" => Some("d"),
            "31" => Some("r"),
            "32" => Some("g"),
            "33" => Some("y"),
            "34" | "36" => Some("c"),
            _ => None,
        });
        let classes: Vec<&str> = classes.collect();
        let text = escaped(text);
        if classes.is_empty() {
            body.push_str(&text);
        } else {
            let _ = write!(body, "<tspan class=\"{}\">{text}</tspan>", classes.join(" "));
        }
    }
    body.push_str("</text>\n");
    *y += LINE_HEIGHT;
}

/// Adds the map of the nodes: one cell for each, as in `report`.
fn map(body: &mut String, y: &mut usize) {
    let document = run(&format!("node status -o json --from {CAPTURE}")).output().json();
    let items = document["items"].as_array().expect("items").iter();
    let nodes: BTreeMap<&str, &str> = items
        .map(|item| (item["node"].as_str().expect("a node"), item["status"].as_str().expect("a status")))
        .collect();
    let _ = writeln!(body, "<text x=\"{MARGIN}\" y=\"{y}\" class=\"d\">nodes</text>");
    for (at, (node, status)) in nodes.iter().enumerate() {
        let color = match *status {
            "complete" => "#2c7a45",
            "erroring" => "#e5484d",
            "in_progress" => "#3b82f6",
            _ => "#4a545f",
        };
        let (x, top) = (MARGIN + 60 + at * (CELL + 4), *y - 12);
        let _ = writeln!(
            body,
            "<rect x=\"{x}\" y=\"{top}\" width=\"{CELL}\" height=\"{CELL}\" rx=\"3\" fill=\"{color}\">\
             <title>{}: {status}</title></rect>",
            escaped(node)
        );
    }
    *y += LINE_HEIGHT;
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
