//! A sentence about attributes that failing nodes have and healthy nodes lack.

use crate::cluster::contrast::Contrast;
use crate::view::{count, list};

/// The sentence for the first contrast, and for others with the same numbers of nodes.
pub fn sentence(all: &[Contrast]) -> Option<String> {
    let first = all.first()?;
    let alike = all.iter().skip(1).filter(|c| (c.failing, c.healthy) == (first.failing, first.healthy));
    let alike: Vec<String> = alike.map(|c| format!("{} {}", c.attribute, c.value)).collect();
    let failing = if first.failing == first.failing_total {
        format!("all {} failing nodes have", count(first.failing_total))
    } else {
        format!("{} of {} failing nodes have", count(first.failing), count(first.failing_total))
    };
    let healthy = match first.healthy {
        0 => format!("none of the {} healthy nodes do", count(first.healthy_total)),
        n => format!("{} of {} healthy nodes do", count(n), count(first.healthy_total)),
    };
    let also =
        if alike.is_empty() { String::new() } else { format!("; the same nodes also have {}", list(&alike)) };
    Some(format!("{failing} {} {}, {healthy}{also}", first.attribute, first.value))
}
