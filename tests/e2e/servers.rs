//! Server processes that never outlive their test: the script `supervise` ends them.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::atomic::{AtomicU16, AtomicUsize, Ordering},
};

use anyhow::{Context, Result};

use crate::tools::here;

/// The servers of one test and their directory.
pub struct Servers {
    dir: PathBuf,
    supervisor: Child,
    answers: BufReader<ChildStdout>,
    /// The start command of each server, by name.
    orders: BTreeMap<String, Vec<String>>,
}

impl Servers {
    pub fn new() -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name =
            format!("kubectl-skyhook-e2e.{}.{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir(&dir).with_context(|| format!("creating {}", dir.display()))?;
        let mut supervisor = Command::new(here().join("supervise"))
            .arg(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the supervisor")?;
        let answers = BufReader::new(supervisor.stdout.take().expect("stdout is piped"));
        Ok(Self { dir, supervisor, answers, orders: BTreeMap::new() })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn write(&self, name: &str, content: &str) -> Result<PathBuf> {
        let path = self.dir.join(name);
        std::fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    pub fn start(
        &mut self,
        name: &str,
        program: &Path,
        args: &[String],
        env: &BTreeMap<&str, String>,
    ) -> Result<()> {
        let env = env.iter().map(|(key, value)| format!("{key}={value}"));
        // All servers are Go programs: rarer garbage collections trade memory for processor time.
        let words = ["start", name, "env", "GOGC=400"].map(str::to_owned).into_iter().chain(env);
        let command = [program.display().to_string()].into_iter().chain(args.iter().cloned());
        let order: Vec<String> = words.chain(command).collect();
        self.orders.insert(name.to_owned(), order.clone());
        self.order(order)
    }

    /// Starts a stopped server with its original command.
    pub fn start_again(&mut self, name: &str) -> Result<()> {
        let order = self.orders.get(name).cloned();
        self.order(order.context("it was started before")?)
    }

    pub fn stop(&mut self, name: &str) -> Result<()> {
        self.order(["stop", name].map(str::to_owned))
    }

    pub fn files(&self) -> Result<BTreeSet<OsString>> {
        let entries = std::fs::read_dir(&self.dir)?;
        Ok(entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<_, _>>()?)
    }

    /// Removes all files and directories except these.
    pub fn remove_other_files(&self, kept: &BTreeSet<OsString>) -> Result<()> {
        for name in self.files()?.difference(kept) {
            let path = self.dir.join(name);
            if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) }
                .with_context(|| format!("removing {}", path.display()))?;
        }
        Ok(())
    }

    /// Last log lines of a server, for the message of a failed test.
    pub fn log_tail(&self, name: &str, lines: usize) -> String {
        let text = std::fs::read_to_string(self.dir.join(format!("{name}.log"))).unwrap_or_default();
        // Skip stack traces, and rejected events: the released role does not allow the operator to write any.
        let tells = |line: &&str| {
            line.starts_with(|c: char| "IWEF{2".contains(c)) && !line.contains("Server rejected event")
        };
        let all: Vec<_> = text.lines().filter(tells).collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    fn order(&mut self, words: impl IntoIterator<Item = String>) -> Result<()> {
        let quoted = words.into_iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
        let line = quoted.collect::<Vec<_>>().join(" ");
        let stdin = self.supervisor.stdin.as_mut().expect("stdin is open until drop");
        writeln!(stdin, "{line}").context("the supervisor is gone")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).context("the supervisor is gone")?;
        Ok(())
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        // Wait only to leave no load for the next scenario; the supervisor would clean up in any case.
        let _ = self.supervisor.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Returns free ports below those that the kernel gives to clients: a client that connects before the server has bound
/// its port cannot take it.
pub fn free_ports<const N: usize>() -> [u16; N] {
    static COUNT: AtomicU16 = AtomicU16::new(0);
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut ports =
        std::iter::repeat_with(|| 10_000 + COUNT.fetch_add(1, Ordering::Relaxed) % 20_000).filter(free);
    std::array::from_fn(|_| ports.next().expect("the sequence is endless"))
}
