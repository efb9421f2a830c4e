//! The format that `collect` writes and `--from` reads: the server's lists without secrets, and an index with the
//! result for each source. Nothing here touches files or servers.

pub mod mask;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Result, Write};
use std::sync::{Mutex, MutexGuard};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::ApiFlavor;
use crate::cluster::ClusterBuilder;
use crate::cluster::hold::HolderLiveness;
use crate::cluster::source::{Read, Unread};
use mask::Masks;

pub const API_VERSION: &str = "kubectl-skyhook/v1";
pub const KIND: &str = "Capture";
/// Name of the index file.
pub const FILE: &str = "index.json";
/// Directory of the logs, with subdirectories by namespace and pod.
pub const LOGS: &str = "logs";
/// Suffix of the log files.
pub const LOG: &str = ".log";

/// Metadata of a capture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    pub api_version: String,
    pub kind: String,
    /// When the cluster was read.
    pub taken_at: Timestamp,
    pub versions: ToolVersions,
    /// APIs of the operator that the cluster serves, by group.
    pub served: Vec<String>,
    /// Runs of this program that paused custom resources, by their identity, and whether each was running on
    /// the machine that collected the capture.
    #[serde(default, skip_serializing_if = "HolderLiveness::is_empty")]
    pub holders: HolderLiveness,
    pub sources: Vec<Source>,
    /// Files of objects. A listed file that is missing was lost after the capture was written.
    pub files: Vec<String>,
    #[serde(default)]
    pub logs: Vec<LogEntry>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolVersions {
    pub tool: String,
    pub server: Option<String>,
    pub operator: Option<String>,
}

/// A source of the capture, and the result of reading it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    pub name: String,
    pub outcome: ReadOutcome,
    /// Number of items, if they were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<usize>,
    /// HTTP status of the error, and the reason why the source is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The result of reading a source or a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReadOutcome {
    /// All items were read; there may be none.
    Read,
    /// Items whose identity could not be read are missing.
    Incomplete,
    /// The server refused the request.
    Refused,
    /// The source could not be read for another reason.
    Failed,
    /// The items were dropped to stay within the size limit of the capture.
    LeftOut,
    /// Not requested, because the cluster's API does not have the source.
    NotRequested,
}

/// The result of reading the log of one container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    pub namespace: String,
    pub pod: String,
    pub container: String,
    /// Whether the log is of the container's previous run.
    #[serde(default)]
    pub previous: bool,
    pub outcome: ReadOutcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Path of the log; `None` if the log was read and is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

impl Source {
    pub fn of(name: &str, read: &Read<usize>) -> Source {
        let (outcome, items, why) = match read {
            Read::Ok(items) => (ReadOutcome::Read, Some(*items), None),
            Read::Incomplete(items, why) => (ReadOutcome::Incomplete, Some(*items), Some(why)),
            Read::Unreadable(why) if why.is_forbidden() => (ReadOutcome::Refused, None, Some(why)),
            Read::Unreadable(why) => (ReadOutcome::Failed, None, Some(why)),
            Read::NotRequested => (ReadOutcome::NotRequested, None, None),
        };
        Source {
            name: name.to_owned(),
            outcome,
            items,
            status: why.and_then(|why| why.status),
            message: why.map(|why| why.message.clone()),
        }
    }

    /// The result of the original read.
    pub fn read(&self) -> Read<()> {
        let why = || Unread { status: self.status, message: self.message.clone().unwrap_or_default() };
        match self.outcome {
            ReadOutcome::Read => Read::Ok(()),
            ReadOutcome::Incomplete => Read::Incomplete((), why()),
            ReadOutcome::NotRequested => Read::NotRequested,
            ReadOutcome::Refused | ReadOutcome::Failed | ReadOutcome::LeftOut => Read::Unreadable(why()),
        }
    }

    /// Marks the source as omitted because it did not fit.
    pub fn leave_out(&mut self, why: &str) {
        self.outcome = ReadOutcome::LeftOut;
        self.items = None;
        self.message = Some(why.to_owned());
    }
}

impl ReadOutcome {
    /// Whether the capture contains all items that could be read. `true` for sources that were not requested.
    pub fn has_items(self) -> bool {
        self.is_whole() || self == ReadOutcome::Incomplete
    }

    /// Whether nothing is missing: the source was read completely, or was not requested.
    pub fn is_whole(self) -> bool {
        matches!(self, ReadOutcome::Read | ReadOutcome::NotRequested)
    }
}

impl Index {
    /// Whether every requested source and every requested log is complete.
    pub fn is_whole(&self) -> bool {
        let sources = self.sources.iter().map(|source| source.outcome);
        sources.chain(self.logs.iter().map(|log| log.outcome)).all(ReadOutcome::is_whole)
    }
}

/// The items of one piece, independent of their type.
pub trait SourceContent {
    fn count(&self) -> Read<usize>;
    /// Replaces the read result by the recorded one. Items in the file are kept if the recorded read
    /// succeeded, completely or in part.
    fn become_as(&mut self, was: Read<()>);
}

impl<T> SourceContent for Read<Vec<T>> {
    fn count(&self) -> Read<usize> {
        Read::count(self)
    }

    fn become_as(&mut self, was: Read<()>) {
        match (was, &mut *self) {
            // Items that cannot be decoded stay missing.
            (Read::Ok(()), Read::Ok(_) | Read::Incomplete(..))
            | (Read::Ok(()) | Read::Incomplete(..), Read::Unreadable(_)) => {}
            (Read::Ok(()), Read::NotRequested) => *self = Read::Ok(Vec::new()),
            (Read::Incomplete((), why), found) => {
                let items = found.available_mut().map(std::mem::take).unwrap_or_default();
                *self = Read::Incomplete(items, why);
            }
            (Read::Unreadable(why), _) => *self = Read::Unreadable(why),
            (Read::NotRequested, _) => *self = Read::NotRequested,
        }
    }
}

/// Name of the source with the pods on nodes that are to be drained. Read last.
pub const WORKLOADS: &str = "drained-pods";

pub const NAMESPACES: &str = "namespaces";
pub const LIMIT_RANGES: &str = "limit-ranges";
pub const QUOTAS: &str = "resource-quotas";
pub const ROLES: &str = "roles";

impl ClusterBuilder {
    /// Every piece, with its name and its files in a capture.
    pub fn pieces(&mut self) -> Vec<(&'static str, Vec<String>, &mut dyn SourceContent)> {
        let [old, new] = ApiFlavor::ALL;
        let policies = |flavor: ApiFlavor| format!("deploymentpolicies.{}", flavor.group());
        let [skyhooks, nodewrights] = &mut self.skyhooks;
        let [old_policies, new_policies] = &mut self.policies;
        let sources = &mut self.sources;
        let (admission, installation) = (&mut sources.admission, &mut sources.installation);
        let plain = |name: &str| vec![name.to_owned()];
        let webhooks = ["validating", "mutating"]
            .map(|kind| format!("{kind}webhookconfigurations.admissionregistration.k8s.io"));
        let rbac = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"]
            .map(|plural| format!("{plural}.rbac.authorization.k8s.io"));
        vec![
            (old.plural(), vec![old.resource()], skyhooks),
            (new.plural(), vec![new.resource()], nodewrights),
            ("skyhook-policies", vec![policies(old)], old_policies),
            ("nodewright-policies", vec![policies(new)], new_policies),
            ("operators", plain("deployments.apps"), &mut self.deployments),
            ("operator-pods", plain("pods"), &mut sources.operator_pods),
            ("leases", plain("leases.coordination.k8s.io"), &mut installation.leases),
            (NAMESPACES, plain("namespaces"), &mut installation.namespaces),
            (LIMIT_RANGES, plain("limitranges"), &mut installation.limit_ranges),
            (QUOTAS, plain("resourcequotas"), &mut installation.quotas),
            (ROLES, rbac.to_vec(), &mut installation.roles),
            ("nodes", plain("nodes"), &mut sources.nodes),
            ("package-pods", plain("pods"), &mut sources.pods),
            (WORKLOADS, plain("pods"), &mut sources.workloads),
            ("jobs", plain("jobs.batch"), &mut sources.jobs),
            ("webhooks", webhooks.to_vec(), &mut admission.webhooks),
            ("services", plain("services"), &mut admission.services),
            ("endpoint-slices", plain("endpointslices.discovery.k8s.io"), &mut admission.endpoints),
            ("disruption-budgets", plain("poddisruptionbudgets.policy"), &mut sources.disruption_budgets),
            ("config-maps", plain("configmaps"), &mut sources.config_maps),
            ("node-metadata", plain("configmaps"), &mut sources.node_metadata),
            ("events", plain("events"), &mut sources.events),
        ]
    }

    /// The result for each piece.
    pub fn outcomes(&mut self) -> Vec<Source> {
        self.pieces().into_iter().map(|(name, _, piece)| Source::of(name, &piece.count())).collect()
    }

    /// Applies the recorded results. `lost` lists files missing from the capture.
    pub fn take_over(&mut self, sources: &[Source], lost: &[String]) {
        for (name, files, piece) in self.pieces() {
            let Some(source) = sources.iter().find(|source| source.name == name) else {
                continue;
            };
            let was = source.read();
            let gone = files.iter().find(|file| lost.contains(file));
            piece.become_as(match (was, gone) {
                (Read::Ok(()) | Read::Incomplete(..), Some(file)) => {
                    let why = format!("{file}.json is missing from the capture");
                    Read::Unreadable(why.into())
                }
                (was, _) => was,
            });
        }
    }
}

/// Top-level directory of the archive.
pub const DIRECTORY: &str = "skyhook-capture";
/// Block size of a tar archive in bytes; files are padded to a multiple.
const BLOCK: u64 = 512;

/// Writes the archive and returns its size in bytes.
///
/// # Errors
///
/// Fails if `out` cannot be written.
pub fn write(
    out: &mut dyn Write,
    index: &Index,
    reels: Vec<(String, Reel)>,
    logs: &BTreeMap<String, Packed>,
) -> Result<u64> {
    let text = serde_json::to_string_pretty(index).expect("an index is plain data") + "\n";
    let mut tar = Tar { out, at: index.taken_at, size: 0 };
    tar.file(FILE, &[&Packed::of(text.as_bytes())])?;
    for (file, reel) in reels {
        let (api, kind) = (&reel.api_version, &reel.kind);
        let head = format!("{{\"apiVersion\":\"{api}\",\"kind\":\"{kind}\",\"items\":[\n");
        let (head, comma, tail) = (Packed::of(head.as_bytes()), Packed::of(b",\n"), Packed::of(b"\n]}\n"));
        let mut parts = vec![&head];
        for (at, part) in reel.parts.iter().enumerate() {
            if at > 0 {
                parts.push(&comma);
            }
            parts.push(part);
        }
        parts.push(&tail);
        tar.file(&format!("{file}.json"), &parts)?;
    }
    for (file, log) in logs {
        tar.file(file, &[log])?;
    }
    tar.end()
}

struct Tar<'a> {
    out: &'a mut dyn Write,
    at: Timestamp,
    size: u64,
}

impl Tar<'_> {
    fn file(&mut self, name: &str, parts: &[&Packed]) -> Result<()> {
        let size = parts.iter().map(|part| part.unpacked).sum();
        let mut header = tar::Header::new_ustar();
        header.set_path(format!("{DIRECTORY}/{name}"))?;
        header.set_size(size);
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(self.at.as_second()).unwrap_or_default());
        header.set_cksum();
        self.put(&Packed::of(header.as_bytes()))?;
        parts.iter().try_for_each(|part| self.put(part))?;
        let rest = usize::try_from(size.next_multiple_of(BLOCK) - size).unwrap_or_default();
        match rest {
            0 => Ok(()),
            rest => self.put(&Packed::of(&vec![0; rest])),
        }
    }

    fn put(&mut self, packed: &Packed) -> Result<()> {
        self.size += packed.bytes.len() as u64;
        self.out.write_all(&packed.bytes)
    }

    /// Writes the two empty blocks that end an archive.
    fn end(mut self) -> Result<u64> {
        self.put(&Packed::of(&[0; 2 * BLOCK as usize]))?;
        self.out.flush()?;
        Ok(self.size)
    }
}

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
        let packed = self.reels.values().flat_map(|reel| &reel.parts).chain(self.logs.values());
        packed.map(|p| p.bytes.len() as u64).sum()
    }

    /// Drops the least important lists until at most `most` bytes remain. Logs are never dropped, so more may
    /// remain.
    fn make_room(&mut self, most: u64) {
        while self.size() > most {
            let Some(file) = self.reels.keys().max_by_key(|file| rank(file)).cloned() else {
                return;
            };
            self.reels.remove(&file);
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
    }

    /// Records the piece, after its list was read to the end.
    pub fn keep(self) {
        let bytes = self.packer.finish().expect("writing to memory succeeds");
        let mut state = self.tape.state();
        if state.left_out.contains(&self.file) {
            return;
        }
        let reel = state.reels.entry(self.file).or_default();
        reel.kind = self.kind;
        reel.api_version = self.api_version;
        if self.unpacked > 0 {
            reel.parts.push(Packed { bytes, unpacked: self.unpacked });
        }
        state.make_room(self.tape.limit);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use serde_json::json;

    use super::*;
    use crate::cluster::Source as Kind;

    #[test]
    fn every_source_is_in_a_capture() {
        let mut builder = ClusterBuilder { served: ApiFlavor::ALL.to_vec(), ..ClusterBuilder::default() };
        let none = crate::cluster::Read::Ok(0);
        let pieces = builder.pieces().into_iter().map(|(name, ..)| name);
        let empty: Vec<Source> = pieces.map(|name| Source::of(name, &none)).collect();
        builder.take_over(&empty, &[]);
        let active_api = builder.active_api().expect("both APIs are served");
        let cluster = builder.assemble(active_api);
        for source in Kind::ALL {
            assert_eq!(cluster.source(source), none, "{source}");
        }
    }

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
