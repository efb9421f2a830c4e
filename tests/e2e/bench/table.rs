//! Writes `bench.md`: the measurements as tables.

use std::fmt::Write as _;

use super::results::{Measured, Results, Row};

pub fn markdown(results: &Results) -> String {
    let mut text = format!(
        "# What commands cost\n\nTaken at {} on {}; our binary has {}. Medians of {} rounds, in which all ran by turns \
         (four times as many for what is over in milliseconds). × is the ratio over the quickest bare client of the \
         same table.\n",
        results.taken_at,
        results.machine,
        bytes(results.binary_bytes as f64),
        results.rounds
    );
    for cluster in &results.clusters {
        tables(&mut text, cluster);
    }
    text
}

fn tables(text: &mut String, cluster: &Measured) {
    let _ = write!(
        text,
        "\n## {} nodes of {}, {} custom resources, {} pods\n\nLoad average {} before, {} after.\n",
        cluster.nodes,
        bytes(cluster.node_bytes as f64),
        cluster.skyhooks,
        cluster.pods,
        cluster.load_before,
        cluster.load_after
    );
    for group in &cluster.groups {
        let last = match group.input_bytes {
            Some(_) => "read per second",
            None => "received",
        };
        let of = group.input_bytes.map(|input| format!(" ({})", bytes(input as f64))).unwrap_or_default();
        let _ = write!(
            text,
            "\n| {}{of} | wall | × | CPU | × | peak memory | requests | {last} |\n|---|--:|--:|--:|--:|--:|--:|--:|\n",
            group.title
        );
        for row in &group.rows {
            let received = match group.input_bytes {
                Some(input) => bytes(input as f64 / row.wall_seconds),
                None => bytes(row.received_bytes as f64),
            };
            let _ = writeln!(text, "{}", line(row, &received));
        }
    }
}

fn line(row: &Row, received: &str) -> String {
    let written = row.written_bytes;
    let written = written.map(|size| format!(" (wrote {})", bytes(size as f64)));
    format!(
        "| {}{} | {} | {} | {} | {} | {} | {} | {received} |",
        row.name.replace('|', "\\|"),
        written.unwrap_or_default(),
        seconds(row.wall_seconds),
        ratio(row.wall_ratio),
        seconds(row.cpu_seconds),
        ratio(row.cpu_ratio),
        bytes(row.peak_bytes),
        row.requests,
    )
}

fn ratio(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.2}") } else { format!("{ratio:.0}") }
}

fn seconds(seconds: f64) -> String {
    if seconds < 0.1 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

fn bytes(bytes: f64) -> String {
    match bytes {
        0.0 => "–".to_owned(),
        b if b < 1e4 => format!("{b:.0} B"),
        b if b < 1e6 => format!("{:.0} kB", b / 1e3),
        b if b < 1e8 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.0} MB", b / 1e6),
    }
}
