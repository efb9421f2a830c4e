//! Tests of tables.

use super::super::text::{Text, error, good};
use super::*;

fn nodes() -> Table {
    let mut table = Table::new(["node", "status", "message"]).wrap_last();
    table.row(cells!["gpu-0001", good("complete"), ""]);
    table.row(cells![
        "日本-2",
        error("erroring"),
        "the container exited with 1, and has been restarted 7 times since",
    ]);
    table
}

#[test]
fn a_summary_goes_below_its_row_where_it_would_be_unreadable() {
    let mut table = Table::new(["node", "status", "message"]).truncate_last();
    table.row(cells!["gpu-0001", error("erroring"), "the container exited with 1"]);
    assert_eq!(
        plain_at(38, table.clone()),
        "NODE      STATUS    MESSAGE\ngpu-0001  erroring\n    the container exited with 1\n"
    );
    assert_eq!(
        plain_at(50, table),
        "NODE      STATUS    MESSAGE\ngpu-0001  erroring  the container exited with 1\n"
    );
}

#[test]
fn a_sentence_goes_below_its_row_where_it_would_be_a_few_words_wide() {
    assert_eq!(
        plain_at(48, nodes()),
        "NODE      STATUS    MESSAGE\n\
         gpu-0001  complete\n    <none>\n\
         日本-2    erroring\n    the container exited with 1, and has been\n    restarted 7 times since\n"
    );
}

fn plain_at(width: usize, table: Table) -> String {
    Text::from(table).lines(Layout::columns(width)).iter().map(|line| line.plain() + "\n").collect()
}

#[test]
fn aligns_by_width_and_keeps_labels() {
    assert_eq!(
        Text::from(nodes()).labelled(Layout::PIPE),
        "[heading:NODE]      [heading:STATUS]    [heading:MESSAGE]\n\
         gpu-0001  [good:complete]  <none>\n\
         日本-2    [error:erroring]  the container exited with 1, and has been restarted 7 times since\n"
    );
}

#[test]
fn wraps_prose_on_a_terminal_only() {
    assert_eq!(
        plain_at(50, nodes()),
        "NODE      STATUS    MESSAGE\n\
         gpu-0001  complete  <none>\n\
         日本-2    erroring  the container exited with 1,\n\
        \x20                   and has been restarted 7 times\n\
        \x20                   since\n"
    );
}

#[test]
fn a_table_that_is_too_wide_folds() {
    assert_eq!(
        plain_at(30, nodes()),
        "NODE      STATUS\n\
        \x20   MESSAGE\n\
         gpu-0001  complete\n\
        \x20   <none>\n\
         日本-2    erroring\n\
        \x20   the container exited with\n\
        \x20   1, and has been restarted\n\
        \x20   7 times since\n"
    );
    let mut table = Table::new(["node", "status", "priority", "packages", "age"]);
    table.row(cells!["gpu-0001", good("complete"), "200", "driver 1.0.0", "5d3h"]);
    assert_eq!(
        plain_at(40, table.clone()),
        "NODE      STATUS    PRIORITY\n    PACKAGES      AGE\ngpu-0001  complete  200\n    driver 1.0.0  5d3h\n"
    );
    for width in [24, 30, 40, 60] {
        let widest = plain_at(width, table.clone()).lines().map(UnicodeWidthStr::width).max();
        assert!(widest <= Some(width), "{widest:?} at {width}");
    }
}

#[test]
fn a_summary_is_cut_only_where_the_row_then_fits() {
    let cut = || Table { last: LastColumn::Truncated, ..nodes() };
    let lines = plain_at(50, cut());
    let last = "日本-2    erroring  the container exited with 1,…\n";
    assert!(lines.ends_with(last), "{lines}");
    let widest = plain_at(21, cut()).lines().map(UnicodeWidthStr::width).max();
    assert_eq!(widest, Some(21));
    assert!(plain_at(17, cut()).starts_with("NODE\n    STATUS\n    MESSAGE\ngpu-0001\n    complete\n"));
}

#[test]
fn a_row_is_one_line_whatever_is_in_it() {
    let mut table = Table::new(["a", "b"]);
    table.row(cells!["x\n\x1b[31my\t", "\u{202e}z "]);
    table.row(cells!["w".repeat(70_000), "end"]);
    let lines = Text::from(table).lines(Layout { width: None, headers: false });
    let lines: Vec<String> = lines.iter().map(Line::plain).collect();
    assert_eq!(lines, ["x\\n^[[31my\\t  <U+202E>z".to_owned(), "w".repeat(70_000) + "  end",]);
}

#[test]
fn one_column_and_no_rows() {
    let mut table = Table::new(["name"]);
    assert_eq!(Text::from(table.clone()).plain(), "");
    table.row(cells!["a"]).row(cells![""]);
    assert_eq!(Text::from(table).plain(), "NAME\na\n<none>\n");
    assert_eq!(Text::from(Table::default()).plain(), "");
}

/// The widest cell of a column counts for all parts of a long table.
#[test]
fn long_tables_are_aligned_throughout() {
    let mut table = Table::new(["node", "status"]);
    for i in 0..=LAYOUT_CHUNK_ROWS {
        let status = if i % 10 == 0 { error("erroring") } else { good("complete") };
        table.row(cells![format!("gpu-{i:03}"), status]);
    }
    table.row(cells!["ノード-of-the-second-part", good("complete")]);
    let text = Text::from(table).plain();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[1]), (LAYOUT_CHUNK_ROWS + 3, "gpu-000                    erroring"));
    assert_eq!(lines[LAYOUT_CHUNK_ROWS + 2], "ノード-of-the-second-part  complete");
}
