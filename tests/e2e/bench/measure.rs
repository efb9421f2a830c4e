//! Measures the cost of one run of a program.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, bail};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeValLike,
};
use serde::{Deserialize, Serialize};

/// First argument that starts this program to measure another one.
pub const MODE: &str = "bench-measure";

/// A program with its arguments.
#[derive(Clone, Debug)]
pub struct Invocation {
    pub program: PathBuf,
    pub args: Vec<String>,
    pub env: Vec<(&'static str, String)>,
    /// Exit codes that count as success.
    pub exits: &'static [i32],
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cost {
    pub wall_seconds: f64,
    /// User and system time of all threads.
    pub cpu_seconds: f64,
    /// Maximum resident set size.
    pub peak_bytes: u64,
    pub exit: i32,
}

impl Invocation {
    /// Runs the program once, under a small intermediate process without other children: the kernel sums up
    /// the usage of all children, and a new process inherits the peak memory of its parent.
    pub fn cost(&self) -> Result<Cost> {
        let out = Command::new(std::env::current_exe()?)
            .arg(MODE)
            .arg(&self.program)
            .args(&self.args)
            .envs(self.env.iter().map(|(key, value)| (key, value)))
            .output()?;
        let stderr = String::from_utf8_lossy(&out.stderr);
        let called = || format!("{} {}: {stderr}", self.program.display(), self.args.join(" "));
        let cost: Cost = serde_json::from_slice(&out.stdout).with_context(called)?;
        if !self.exits.contains(&cost.exit) {
            bail!("{}: exit code {}", called(), cost.exit);
        }
        Ok(cost)
    }
}

/// Runs a program, discards its output, and prints its cost as JSON.
pub fn this(args: &[String]) -> Result<()> {
    let (program, args) = args.split_first().context("a program to measure")?;
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null());
    let begun = Instant::now();
    let status = command.status().with_context(|| format!("running {program}"))?;
    let wall = begun.elapsed();
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = (usage.user_time() + usage.system_time()).num_microseconds();
    let cost = Cost {
        wall_seconds: wall.as_secs_f64(),
        cpu_seconds: micros as f64 / 1e6,
        // Linux reports KiB.
        peak_bytes: u64::try_from(usage.max_rss())? * 1024,
        exit: status.code().unwrap_or(-1),
    };
    serde_json::to_writer(std::io::stdout(), &cost)?;
    Ok(())
}
