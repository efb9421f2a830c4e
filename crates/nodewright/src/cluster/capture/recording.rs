//! Records lists while they are read: each object is masked and compressed, and only the compressed bytes are
//! kept.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::sync::{Mutex, MutexGuard};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use super::mask::Masks;

/// Gzip-compressed bytes. Concatenated gzip members decompress to the concatenated input.
#[derive(Default)]
pub struct Packed {
    pub bytes: Vec<u8>,
    /// Size after decompression, in bytes.
    pub unpacked: u64,
}

/// A recorded list of objects of one kind, in compressed parts.
#[derive(Default)]
pub struct Reel {
    pub api_version: String,
    pub kind: String,
    pub parts: Vec<Packed>,
}

/// All recordings of a capture. Lists may be recorded in parallel.
pub struct Tape {
    pub masks: Masks,
    /// Maximum size of all compressed data, in bytes.
    pub limit: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Recorded lists by file name.
    reels: BTreeMap<String, Reel>,
    logs: BTreeMap<String, Packed>,
    /// Number of compressed bytes so far, by file that is being recorded.
    open: BTreeMap<String, u64>,
    left_out: BTreeSet<String>,
}

/// File name prefixes, most important first. The least important file is dropped first.
const ORDER: [&str; 9] = [
    "skyhooks.",
    "nodewrights.",
    "deploymentpolicies.",
    "deployments.",
    "nodes",
    "jobs.",
    "pods",
    "configmaps",
    "events",
];

/// Rank of a file: files with higher ranks are dropped first.
fn rank(file: &str) -> usize {
    let known = ORDER.iter().position(|begin| file.starts_with(begin));
    // Other files rank between pods and ConfigMaps.
    known.map_or(13, |at| if at > 6 { at * 2 } else { at })
}

impl Packed {
    pub fn of(bytes: &[u8]) -> Packed {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        let packed = packer.write_all(bytes).and_then(|()| packer.finish());
        Packed { bytes: packed.expect("writing to memory succeeds"), unpacked: bytes.len() as u64 }
    }
}

impl Tape {
    /// Creates a recording of at most `limit` compressed bytes.
    pub fn new(limit: u64) -> Tape {
        Tape { masks: Masks::default(), limit, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the lock")
    }

    /// Begins a piece of a list, which is recorded once it is [kept](Segment::keep).
    pub fn begin(&self, file: &str) -> Segment<'_> {
        Segment {
            tape: self,
            file: file.to_owned(),
            kind: String::new(),
            api_version: String::new(),
            packer: GzEncoder::new(Vec::new(), Compression::new(5)),
            unpacked: 0,
            counted: 0,
        }
    }

    /// Records a log; returns `false` if there is no room for it.
    pub fn keep_log(&self, file: &str, text: &str) -> bool {
        let packed = Packed::of(text.as_bytes());
        let mut state = self.state();
        if state.size() + packed.bytes.len() as u64 > self.limit {
            return false;
        }
        state.logs.insert(file.to_owned(), packed);
        true
    }

    /// Lists that were dropped to stay within the limit (logs: see `keep_log`).
    pub fn left_out(&self) -> BTreeSet<String> {
        self.state().left_out.clone()
    }

    /// The recorded lists, most important first, and the logs.
    pub fn into_reels(self) -> (Vec<(String, Reel)>, BTreeMap<String, Packed>) {
        let state = self.state.into_inner().expect("no thread panics while it holds the lock");
        let mut reels: Vec<(String, Reel)> = state.reels.into_iter().collect();
        reels.sort_by_key(|(file, _)| rank(file));
        (reels, state.logs)
    }
}

impl State {
    fn size(&self) -> u64 {
        let parts = self.reels.values().flat_map(|reel| &reel.parts);
        let packed = parts.chain(self.logs.values());
        packed.map(|p| p.bytes.len() as u64).sum::<u64>() + self.open.values().sum::<u64>()
    }

    /// Drops the least important lists until at most `most` bytes remain. Logs are never dropped, so more may
    /// remain.
    fn make_room(&mut self, most: u64) {
        while self.size() > most {
            let files = self.reels.keys().chain(self.open.keys());
            let files = files.filter(|file| !self.left_out.contains(*file));
            let Some(file) = files.max_by_key(|file| rank(file)).cloned() else {
                return;
            };
            self.reels.remove(&file);
            self.open.remove(&file);
            self.left_out.insert(file);
        }
    }
}

/// A piece of a list that is being read.
pub struct Segment<'a> {
    tape: &'a Tape,
    file: String,
    kind: String,
    api_version: String,
    packer: GzEncoder<Vec<u8>>,
    unpacked: u64,
    /// Number of compressed bytes that the tape counts for this piece.
    counted: u64,
}

impl Segment<'_> {
    /// Sets the kind of the list.
    pub fn is_of(&mut self, api_version: &str, list: &str) {
        list.clone_into(&mut self.kind);
        api_version.clone_into(&mut self.api_version);
    }

    /// Adds an object with its secrets masked.
    pub fn add(&mut self, mut object: Value) {
        let kind = self.kind.strip_suffix("List").unwrap_or_default();
        self.tape.masks.object(kind, &mut object);
        let mut text = match self.unpacked {
            0 => String::new(),
            _ => ",\n".to_owned(),
        };
        text += &object.to_string();
        self.packer.write_all(text.as_bytes()).expect("writing to memory succeeds");
        self.unpacked += text.len() as u64;
        self.count();
    }

    fn count(&mut self) {
        let size = self.packer.get_ref().len() as u64;
        if size == self.counted {
            return;
        }
        let mut state = self.tape.state();
        if state.left_out.contains(&self.file) {
            *self.packer.get_mut() = Vec::new();
            self.counted = 0;
            return;
        }
        *state.open.entry(self.file.clone()).or_default() += size - self.counted;
        self.counted = size;
        state.make_room(self.tape.limit);
    }

    /// Records the piece, after its list was read to the end.
    pub fn keep(mut self) {
        let packer = std::mem::replace(&mut self.packer, GzEncoder::new(Vec::new(), Compression::none()));
        let bytes = packer.finish().expect("writing to memory succeeds");
        let mut state = self.tape.state();
        if state.left_out.contains(&self.file) {
            return;
        }
        let reel = state.reels.entry(self.file.clone()).or_default();
        reel.kind.clone_from(&self.kind);
        reel.api_version.clone_from(&self.api_version);
        if self.unpacked > 0 {
            let unpacked = self.unpacked;
            reel.parts.push(Packed { bytes, unpacked });
        }
        drop(state);
    }
}

impl Drop for Segment<'_> {
    /// Releases the space counted for the piece while it was read. A kept piece counts as part of its list.
    fn drop(&mut self) {
        let mut state = self.tape.state();
        if let Some(open) = state.open.get_mut(&self.file) {
            *open = open.saturating_sub(self.counted);
        }
        state.make_room(self.tape.limit);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use serde_json::json;

    use super::*;

    fn add(tape: &Tape, file: &str, items: usize) {
        let mut segment = tape.begin(file);
        segment.is_of("v1", "NodeList");
        for n in 0..items {
            segment.add(json!({"metadata": {"name": tape.masks.words(&format!("token={n}"))}}));
        }
        segment.keep();
    }

    #[test]
    fn what_matters_least_makes_room() {
        let tape = Tape::new(2_000);
        add(&tape, "events", 40);
        add(&tape, "nodes", 40);
        assert_eq!(tape.left_out().len(), 0);
        add(&tape, "pods", 200);
        assert_eq!(tape.left_out(), ["events", "pods"].map(str::to_owned).into());
        assert!(tape.keep_log("a.log", "short"));
        let (reels, logs) = tape.into_reels();
        assert_eq!(reels.iter().map(|(file, _)| file).collect::<Vec<_>>(), ["nodes"]);
        assert_eq!(logs.len(), 1);
        let mut text = String::new();
        let mut unpacked = flate2::read::MultiGzDecoder::new(&*reels[0].1.parts[0].bytes);
        unpacked.read_to_string(&mut text).expect("the part decompresses");
        assert_eq!(text.len() as u64, reels[0].1.parts[0].unpacked);
        assert_eq!(text.lines().count(), 40);
    }

    #[test]
    fn what_is_not_read_to_its_end_is_not_kept() {
        let tape = Tape::new(1 << 20);
        let mut segment = tape.begin("nodes");
        segment.is_of("v1", "NodeList");
        segment.add(json!({}));
        drop(segment);
        assert_eq!(tape.into_reels().0.len(), 0);
    }
}
