//! The measurements, as stored in `bench.json`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use super::{
    load::Loaded,
    measure::{Cost, Invocation},
};
use crate::api::Api;

/// Commands that take only a few milliseconds are repeated this many times more often.
const QUICK: usize = 4;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Results {
    pub taken_at: String,
    pub machine: String,
    pub rounds: usize,
    pub binary_bytes: u64,
    pub clusters: Vec<Measured>,
}

/// Results of one cluster.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    pub nodes: usize,
    pub skyhooks: usize,
    pub pods: usize,
    pub node_bytes: usize,
    /// Load averages of one, five and fifteen minutes, including the bench itself.
    pub load_before: String,
    pub load_after: String,
    pub groups: Vec<Done>,
}

/// Commands that are measured alternately and compared.
pub struct Group {
    pub title: String,
    pub contenders: Vec<Contender>,
    /// Size of the input file, if all commands of the group read a file instead of a server.
    pub input_bytes: Option<u64>,
    pub quick: bool,
}

pub struct Contender {
    pub name: String,
    /// Whether this is a baseline, such as a bare client. The others are compared with the fastest baseline.
    pub floor: bool,
    /// Slow: runs only once, in the round that counts requests.
    pub once: bool,
    /// The output file of the command.
    pub writes: Option<PathBuf>,
    pub invocation: Invocation,
    /// A program that runs at the same time. The requests of both are counted.
    pub beside: Option<Invocation>,
}

impl Contender {
    fn cost(&self) -> Result<Cost> {
        let Some(beside) = &self.beside else {
            return self.invocation.cost();
        };
        std::thread::scope(|scope| {
            let beside = scope.spawn(|| beside.cost());
            let cost = self.invocation.cost();
            beside.join().expect("the thread does not panic")?;
            cost
        })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    pub title: String,
    pub input_bytes: Option<u64>,
    pub rows: Vec<Row>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub name: String,
    pub floor: bool,
    pub wall_seconds: f64,
    pub cpu_seconds: f64,
    pub peak_bytes: f64,
    /// Requests and bytes according to the server's metrics.
    pub requests: u64,
    pub received_bytes: u64,
    /// Size of the output file.
    pub written_bytes: Option<u64>,
    /// Ratio to the fastest baseline of the group.
    pub wall_ratio: f64,
    pub cpu_ratio: f64,
    pub samples: Vec<Cost>,
}

impl Results {
    pub fn begin(binary: &Path, rounds: usize) -> Result<Self> {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
        Ok(Self {
            taken_at: now.to_string(),
            machine: machine(),
            rounds,
            binary_bytes: std::fs::metadata(binary)?.len(),
            clusters: Vec::new(),
        })
    }
}

impl Measured {
    pub fn of(cluster: &Loaded) -> Self {
        Self {
            nodes: cluster.nodes,
            skyhooks: cluster.skyhooks,
            pods: cluster.pods,
            node_bytes: cluster.node_bytes,
            load_before: load_average(),
            load_after: String::new(),
            groups: Vec::new(),
        }
    }
}

impl Group {
    pub fn of(title: &str, contenders: Vec<Contender>) -> Self {
        Self { title: title.to_owned(), contenders, input_bytes: None, quick: false }
    }

    /// Runs each command once to count its requests, then all alternately, so that other load affects all of
    /// them.
    pub fn measure(&self, api: &Api, rounds: usize) -> Result<Done> {
        let rounds = if self.quick { QUICK * rounds } else { rounds };
        let idle = Served::between(api, || Ok(()))?;
        let mut counts = Vec::new();
        let mut samples: Vec<Vec<Cost>> = Vec::new();
        for contender in &self.contenders {
            let mut first = Vec::new();
            let served = Served::between(api, || {
                first.push(contender.cost()?);
                Ok(())
            })?;
            counts.push(served.without(&idle));
            // Discard the first sample: it ran with cold caches. Slow commands have no other sample.
            first.retain(|_| contender.once);
            samples.push(first);
        }
        for _ in 0..rounds {
            for (contender, samples) in self.contenders.iter().zip(&mut samples) {
                if !contender.once {
                    samples.push(contender.cost()?);
                }
            }
        }
        let rows = self.contenders.iter().zip(counts).zip(samples);
        let mut rows: Vec<Row> = rows
            .map(|((contender, served), samples)| Row::of(contender, &served, samples))
            .collect::<Result<_>>()?;
        let floors = rows.iter().filter(|row| row.floor);
        let floor = floors
            .min_by(|one, other| one.wall_seconds.total_cmp(&other.wall_seconds))
            .context("every group has a bare one")?;
        let (wall, cpu) = (floor.wall_seconds, floor.cpu_seconds);
        for row in &mut rows {
            row.wall_ratio = row.wall_seconds / wall;
            row.cpu_ratio = row.cpu_seconds / cpu;
            eprintln!("{}: {:.3} s", row.name, row.wall_seconds);
        }
        Ok(Done { title: self.title.clone(), input_bytes: self.input_bytes, rows })
    }
}

impl Row {
    fn of(contender: &Contender, served: &Served, samples: Vec<Cost>) -> Result<Self> {
        Ok(Self {
            name: contender.name.clone(),
            floor: contender.floor,
            wall_seconds: median(samples.iter().map(|cost| cost.wall_seconds)),
            cpu_seconds: median(samples.iter().map(|cost| cost.cpu_seconds)),
            peak_bytes: median(samples.iter().map(|cost| cost.peak_bytes as f64)),
            requests: served.requests,
            received_bytes: served.bytes,
            written_bytes: contender.writes.as_deref().map(size).transpose()?,
            wall_ratio: 0.0,
            cpu_ratio: 0.0,
            samples,
        })
    }
}

fn size(file: &Path) -> Result<u64> {
    let metadata = std::fs::metadata(file).with_context(|| format!("{}", file.display()))?;
    Ok(metadata.len())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

/// The server's metrics of served requests.
struct Served {
    requests: u64,
    bytes: u64,
}

impl Served {
    fn so_far(api: &Api) -> Result<Self> {
        let text = api.text("/metrics")?;
        let sum = |metric: &str| -> f64 {
            let lines = text.lines().filter_map(|line| line.strip_prefix(metric));
            // Ignore the servers' own lease renewals.
            let lines = lines.filter(|line| !line.contains("resource=\"leases\""));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
        };
        Ok(Self {
            requests: sum("apiserver_request_total{") as u64,
            bytes: sum("apiserver_response_sizes_sum{") as u64,
        })
    }

    fn between(api: &Api, work: impl FnOnce() -> Result<()>) -> Result<Self> {
        let before = Self::so_far(api)?;
        work()?;
        Ok(Self::so_far(api)?.without(&before))
    }

    fn without(&self, other: &Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(other.requests),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

pub fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model);
    format!("{cores} cores, {model}")
}
