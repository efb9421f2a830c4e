//! Recordings of operators at work, for tests of rules and outlooks. The tests of the model read the same files.

#[allow(dead_code, reason = "the tests of the model need more")]
#[path = "../../crates/nodewright/tests/model/events.rs"]
mod events;
mod healthy;
#[allow(dead_code, reason = "the tests of the model need more")]
#[path = "../../crates/nodewright/tests/model/recording.rs"]
mod recording;

use std::path::Path;

use nodewright::cluster::Cluster;

use recording::Recording;

/// The root of the repository.
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The clusters of some recordings at this many times each, with the names of the recordings.
pub fn recorded_clusters<'n>(
    names: impl IntoIterator<Item = &'n str>,
    frames: usize,
) -> impl Iterator<Item = (String, Cluster)> {
    let own = Path::new(ROOT).join("tests/model/recordings");
    names.into_iter().flat_map(move |name| {
        let recording = Recording::read(&own.join(format!("{name}.ndjson.gz")));
        let step = recording.end() / frames as f64;
        (1..=frames).map(move |frame| (recording.name.clone(), recording.cluster_then(step * frame as f64)))
    })
}
