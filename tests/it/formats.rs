//! Files that users keep: plans and journals. Other builds must read them with their original meaning, or
//! refuse them.
//!
//! A fixture contains every member of its format. If one of these tests fails because a member was renamed or
//! changed its meaning, raise the number of the format, and add a fixture of the new one.

use kubectl_skyhook::apply::journal::Record;
use kubectl_skyhook::apply::journal::record::{self, Entry, RecordError};
use kubectl_skyhook::plan::{self, SavedPlan};
use serde_json::Value;

fn fixture(name: &str) -> String {
    let path = format!("{}/tests/formats/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("a fixture")
}

#[test]
fn saved_plans_keep_their_format() {
    assert_eq!(plan::FORMAT, "kubectl-skyhook/plan/v3");
    let text = fixture("plan-v3.json");
    let saved = SavedPlan::parse(&text).expect("a plan");
    assert_eq!(saved.text(), text);
}

#[test]
fn journals_keep_their_format() {
    assert_eq!(record::FORMAT, "kubectl-skyhook/journal/v2");
    let text = fixture("journal-v2.jsonl");
    for line in text.lines() {
        let entry: Entry = serde_json::from_str(line).expect("an entry");
        assert_eq!(serde_json::to_string(&entry).expect("JSON"), line);
    }
    let record = Record::parse(&text).expect("a journal");
    assert_eq!(record.torn, [0usize; 0]);
}

/// Members of the first format were renamed since, and would be read as absent.
#[test]
fn journals_of_the_first_format_are_refused() {
    let text = fixture("journal-v2.jsonl");
    let (first, rest) = text.split_once('\n').expect("lines");
    let mut first: Value = serde_json::from_str(first).expect("JSON");
    first["begun"]["format"] = "kubectl-skyhook/journal/v1".into();
    let read = Record::parse(&format!("{first}\n{rest}"));
    assert!(matches!(read, Err(RecordError::Format(format)) if format == "kubectl-skyhook/journal/v1"));
}
