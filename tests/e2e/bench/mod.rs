//! Benchmarks: the cost of our binary compared with upstream's CLI and a minimal client, on one real API
//! server. `tests/bench/run` starts them and describes the measurements.

mod bare;
mod contenders;
mod load;
mod measure;
mod nodes;
mod results;
mod table;

use std::{
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{control_plane::ControlPlane, kubelet::logs::Logs, operator, tools::Tools};

/// Runs the bench mode that the first argument names; returns `None` if it names none.
pub fn asked() -> Option<ExitCode> {
    let mut args = std::env::args().skip(1);
    let mode = args.next()?;
    let args: Vec<String> = args.collect();
    let done = match mode.as_str() {
        "bench" => Asked::read(&args).and_then(|asked| asked.run()),
        measure::MODE => measure::this(&args),
        bare::MODE => bare::client(&args),
        _ => return None,
    };
    Some(match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    })
}

struct Asked {
    /// Our binary, built in release mode.
    ours: PathBuf,
    /// A program that does nothing.
    empty: PathBuf,
    out: PathBuf,
    rounds: usize,
    /// Measure only groups whose title contains this text.
    only: String,
    counts: Vec<usize>,
}

impl Asked {
    fn read(args: &[String]) -> Result<Self> {
        let mut asked = Self {
            ours: PathBuf::new(),
            empty: PathBuf::new(),
            out: PathBuf::new(),
            rounds: 5,
            only: String::new(),
            counts: Vec::new(),
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("{arg} wants a value"));
            match arg.as_str() {
                "--binary" => asked.ours = value()?.into(),
                "--empty" => asked.empty = value()?.into(),
                "--out" => asked.out = value()?.into(),
                "--rounds" => asked.rounds = value()?.parse()?,
                "--only" => value()?.clone_into(&mut asked.only),
                count => asked
                    .counts
                    .push(count.parse().with_context(|| format!("{count} is no number of nodes"))?),
            }
        }
        if !asked.ours.is_file() || !asked.empty.is_file() || asked.out.as_os_str().is_empty() {
            bail!("this is started by tests/bench/run");
        }
        if asked.counts.is_empty() {
            asked.counts = vec![1_000, 5_000, 15_000];
        }
        if asked.rounds == 0 || asked.counts.contains(&0) {
            bail!("there must be a round and a node");
        }
        Ok(asked)
    }

    fn run(&self) -> Result<()> {
        let tools = Tools::provide()?;
        std::fs::create_dir_all(&self.out)?;
        let mut all = results::Results::begin(&self.ours, self.rounds)?;
        for &count in &self.counts {
            all.clusters.push(self.measure(&tools, count)?);
            // Write after each cluster, so that an interrupted run has results.
            let json = serde_json::to_string_pretty(&all)? + "\n";
            let table = table::markdown(&all);
            std::fs::write(self.out.join("bench.json"), json)?;
            std::fs::write(self.out.join("bench.md"), &table)?;
        }
        eprint!("\n{}", table::markdown(&all));
        Ok(())
    }

    fn measure(&self, tools: &Tools, count: usize) -> Result<results::Measured> {
        let mut plane = ControlPlane::start(tools)?;
        let api = plane.user("admin")?;
        api.await_ready(Duration::from_secs(60))?;
        operator::install(tools, &api)?;
        operator::announce(&api, operator::NAMESPACE, operator::VERSION, operator::IMAGE)?;
        // The requests of a controller that watches all objects would be counted, too.
        plane.servers.stop("kube-controller-manager")?;
        let logs = Logs::serve(&plane.access("admin"))?;
        let begun = Instant::now();
        let cluster = load::load(&plane, count, logs.port)?;
        eprintln!(
            "{count} nodes of {} B, {} custom resources and {} pods written in {:.0} s",
            cluster.node_bytes,
            cluster.skyhooks,
            cluster.pods,
            begun.elapsed().as_secs_f64()
        );
        let capture = plane.servers.dir().join("capture.json");
        let capture_bytes = load::capture(&api, &capture)?;
        let groups = contenders::of(&contenders::Setting {
            ours: &self.ours,
            empty: &self.empty,
            upstream: &tools.program(&format!("cli-{}", operator::VERSION)),
            plane: &plane,
            capture: &capture,
            capture_bytes,
            count,
        })?;
        let mut measured = results::Measured::of(&cluster);
        for group in groups.iter().filter(|it| it.title.contains(&self.only)) {
            measured.groups.push(group.measure(&api, self.rounds)?);
        }
        measured.load_after = results::load_average();
        Ok(measured)
    }
}
