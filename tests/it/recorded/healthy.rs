//! Recordings of healthy rollouts have no overdue action at any time.

use kubectl_skyhook::rules::{self, Scope};

use super::recording::{Recording, recordings};

use crate::support::sample::{every_case, some};

/// Seconds between two frames.
const STEP: f64 = 5.0;

#[test]
fn recorded_operators_are_never_late() {
    let rules = ["SKY228", "SKY229", "SKY230"].map(|code| rules::find(code).expect("a rule"));
    let scope = Scope { rules: rules.to_vec(), ..Scope::default() };
    let mut frames = 0;
    let directories = ["recordings", "recordings-v0.17"];
    for path in some(directories.iter().flat_map(|directory| recordings(directory)), 4) {
        let recording = Recording::read(&path);
        let times = (0..).map(|step| f64::from(step) * STEP).take_while(|at| *at < recording.end());
        for at in times.filter(|at| recording.has_skyhooks(*at)) {
            frames += 1;
            let cluster = recording.dated_cluster(at);
            let report = rules::diagnose(&cluster, &scope);
            let found: Vec<String> =
                report.findings.iter().map(|f| format!("{:?}: {}", f.key(), f.message)).collect();
            assert_eq!(found, Vec::<String>::new(), "{} at {at} s", recording.name);
        }
    }
    assert!(frames > if every_case() { 200 } else { 20 }, "{frames} frames");
}

/// The recordings are not accepted because nothing is ever due: 90 s later, without another write, actions are overdue.
#[test]
fn operators_that_stop_are_late() {
    let scope = Scope { rules: vec![rules::find("SKY228").expect("a rule")], ..Scope::default() };
    let path = recordings("recordings").into_iter().find(|path| path.ends_with("install_count3.ndjson.gz"));
    let recording = Recording::read(&path.expect("the recording"));
    let times = (0..).map(f64::from).take_while(|at| *at < recording.end());
    let late: Vec<f64> = times
        .filter(|at| recording.has_skyhooks(*at))
        .filter(|at| {
            let mut cluster = recording.dated_cluster(*at);
            cluster.taken_at += jiff::SignedDuration::from_secs(90);
            !rules::diagnose(&cluster, &scope).findings.is_empty()
        })
        .collect();
    assert_eq!(late, [16.0, 40.0, 52.0]);
}
