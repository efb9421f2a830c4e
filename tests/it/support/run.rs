//! Calls the program as a user does.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read, Write};
use std::panic::resume_unwind;
use std::path::Path;
use std::process::{self, ChildStderr, Command, Stdio};
use std::sync::{Arc, LazyLock, OnceLock};
use std::thread;

use kubectl_skyhook::cli;
use kubectl_skyhook::program::Process;
use regex::Regex;

/// A call of the program. It starts in the root of the repository with an empty environment, a home directory
/// that does not exist and no standard input. A call whose own process makes no difference runs in this process.
pub struct Run {
    command: Command,
    command_line: String,
    stdin: Option<Vec<u8>>,
    child: Child,
    /// Whether the call has its own process.
    apart: bool,
}

/// The process of a running call, which events in the cluster can send signals to.
#[derive(Clone, Default)]
pub struct Child(Arc<OnceLock<u32>>);

impl Child {
    /// Interrupts the call, as Ctrl-C does.
    pub fn interrupt<T>(&self) -> impl Fn(&mut T) + Send + Sync + 'static + use<T> {
        self.signal("INT")
    }

    /// Sends SIGHUP, as when the terminal of the call is closed.
    pub fn hang_up<T>(&self) -> impl Fn(&mut T) + Send + Sync + 'static + use<T> {
        self.signal("HUP")
    }

    /// Kills the call with SIGKILL.
    pub fn kill<T>(&self) -> impl Fn(&mut T) + Send + Sync + 'static + use<T> {
        self.signal("KILL")
    }

    fn signal<T>(&self, name: &'static str) -> impl Fn(&mut T) + Send + Sync + 'static + use<T> {
        let child = self.clone();
        move |_| {
            let id = child.0.wait();
            let kill = Command::new("sh").args(["-c", &format!("kill -{name} {id}")]).status();
            assert!(kill.expect("a shell").success());
            if name != "KILL" {
                until_taken(*id);
            }
        }
    }
}

/// Waits until the process has received its signal: on a busy machine, it may run on for a long time before.
fn until_taken(id: u32) {
    let is_pending = || {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let shared = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
        shared.is_some_and(|mask| mask.trim().contains(|digit| digit != '0'))
    };
    while is_pending() {
        thread::yield_now();
    }
}

/// The output of a call, and its exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "assert on all of it: stdout, stderr and the exit code"]
pub struct RunOutput {
    command_line: String,
    pub stdout: String,
    pub stderr: String,
    /// `None` if a signal ended the process.
    pub code: Option<i32>,
}

/// The binary of a release, if `RELEASED_BINARY` names one to test.
pub fn released() -> Option<OsString> {
    std::env::var_os("RELEASED_BINARY")
}

pub fn binary() -> OsString {
    released().unwrap_or_else(|| env!("CARGO_BIN_EXE_kubectl-skyhook").into())
}

const PATH: &str = "/usr/bin:/bin";
/// Variables that only the program itself reads.
const VARIABLES: [&str; 4] = ["HOME", "KUBECONFIG", "NO_COLOR", "XDG_STATE_HOME"];

/// Calls the program with these words.
pub fn run(words: &str) -> Run {
    Run::new(words.split_whitespace())
}

impl Run {
    pub fn new<S: Into<OsString>>(words: impl IntoIterator<Item = S>) -> Run {
        Run::program(binary(), words)
    }

    /// Calls another program instead of the binary, such as a shell that calls it.
    pub fn program<S: Into<OsString>>(
        program: impl Into<OsString>,
        words: impl IntoIterator<Item = S>,
    ) -> Run {
        let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
        let program = program.into();
        let apart = program != env!("CARGO_BIN_EXE_kubectl-skyhook") || words.iter().any(|word| word == "-");
        let mut command = Command::new(program);
        command
            .args(&words)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_clear()
            .env("HOME", "/nonexistent")
            .env("PATH", PATH);
        let words: Vec<String> = words.iter().map(|w| w.to_string_lossy().into_owned()).collect();
        Run { command, command_line: words.join(" "), stdin: None, child: Child::default(), apart }
    }

    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Run {
        self.command.env(name, value.into());
        self
    }

    /// Sets `KUBECONFIG`.
    pub fn kubeconfig(self, path: &Path) -> Run {
        self.env("KUBECONFIG", path)
    }

    /// Publishes the process in `child` once it runs.
    pub fn child(mut self, child: &Child) -> Run {
        self.child = child.clone();
        self.apart()
    }

    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Run {
        self.stdin = Some(bytes.into());
        self.apart()
    }

    /// Gives the call its own process.
    pub fn apart(mut self) -> Run {
        self.apart = true;
        self
    }

    /// Starts the binary without waiting for its end. Only for calls with little output: stdout is not read.
    pub fn start(mut self) -> Running {
        let pipes = self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().expect("the binary starts");
        let _ = self.child.0.set(child.id());
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        Running { child, stderr, read: String::new(), command_line: self.command_line }
    }

    pub fn output(mut self) -> RunOutput {
        // Others are also read by libraries, from the environment of this process.
        let is_own = |(name, value): (&OsStr, Option<&OsStr>)| {
            VARIABLES.iter().any(|known| name == *known) || name == "PATH" && value == Some(OsStr::new(PATH))
        };
        if !self.apart && self.command.get_envs().all(is_own) {
            return self.output_within();
        }
        let stdin = if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() };
        let mut child = self
            .command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let _ = self.child.0.set(child.id());
        if let Some(bytes) = self.stdin {
            // The process may exit before it has read all of stdin.
            let _ = child.stdin.take().expect("a pipe").write_all(&bytes);
        }
        let output = child.wait_with_output().expect("the binary ends");
        RunOutput {
            command_line: self.command_line,
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: String::from_utf8(output.stderr).expect("text"),
            code: output.status.code(),
        }
    }
}

impl Run {
    fn output_within(self) -> RunOutput {
        let words = std::iter::once(self.command.get_program()).chain(self.command.get_args());
        let variables =
            self.command.get_envs().filter_map(|(name, value)| Some((name.into(), value?.into())));
        let process = Process::within(words.map(OsStr::to_owned).collect(), variables.collect());
        let called = process.clone();
        let call = thread::Builder::new().stack_size(8 << 20).spawn(move || cli::main(&called));
        let exit = call.expect("a thread").join().unwrap_or_else(|panic| resume_unwind(panic));
        let [stdout, stderr] = process.written().map(|bytes| String::from_utf8(bytes).expect("text"));
        RunOutput { command_line: self.command_line, stdout, stderr, code: Some(exit.code().into()) }
    }
}

/// A running call.
pub struct Running {
    child: process::Child,
    stderr: BufReader<ChildStderr>,
    read: String,
    command_line: String,
}

impl Running {
    /// Waits for a line on stderr that contains this.
    pub fn expect_stderr(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            let read = self.stderr.read_line(&mut line).expect("text");
            assert!(read > 0, "stderr lacks {text:?}: {}", self.read);
            self.read += &line;
        }
    }

    pub fn output(mut self) -> RunOutput {
        self.stderr.read_to_string(&mut self.read).expect("text");
        let output = self.child.wait_with_output().expect("the binary ends");
        RunOutput {
            command_line: self.command_line,
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: self.read,
            code: output.status.code(),
        }
    }
}

/// A document without the time of the read.
pub fn without_time(document: &str) -> String {
    document
        .lines()
        .filter(|line| !line.starts_with("    \"takenAt\": "))
        .map(|line| format!("{line}\n"))
        .collect()
}

impl RunOutput {
    /// The command line, stdout, stderr and the exit code, for a snapshot.
    pub fn transcript(&self) -> String {
        let stderr = match without_ports_and_times(&self.stderr).as_str() {
            "" => String::new(),
            text => format!("------- stderr -------\n{text}"),
        };
        let code = self.code.map_or("signal".to_owned(), |c| c.to_string());
        let stdout = without_rule_counts(&without_ports_and_times(&self.stdout));
        format!("$ kubectl skyhook {}\n{stdout}{stderr}[exit status: {code}]\n", self.command_line)
    }

    /// Stdout, stderr and the exit code, to compare in one assertion.
    pub fn parts(&self) -> (&str, &str, Option<i32>) {
        (&self.stdout, &self.stderr, self.code)
    }

    /// Fails with the transcript unless the exit code is this.
    #[track_caller]
    pub fn expect_code(&self, code: i32) {
        assert_eq!(self.code, Some(code), "{}", self.transcript());
    }

    /// Fails with the transcript unless stdout contains this.
    #[track_caller]
    pub fn expect_stdout(&self, text: impl AsRef<str>) {
        let text = text.as_ref();
        assert!(self.stdout.contains(text), "stdout lacks {text:?}\n{}", self.transcript());
    }

    /// Fails with the transcript if stdout contains this.
    #[track_caller]
    pub fn expect_no_stdout(&self, text: impl AsRef<str>) {
        let text = text.as_ref();
        assert!(!self.stdout.contains(text), "stdout contains {text:?}\n{}", self.transcript());
    }

    /// Fails with the transcript unless stderr contains this.
    #[track_caller]
    pub fn expect_stderr(&self, text: impl AsRef<str>) {
        let text = text.as_ref();
        assert!(self.stderr.contains(text), "stderr lacks {text:?}\n{}", self.transcript());
    }

    /// Fails with the transcript if stderr contains this.
    #[track_caller]
    pub fn expect_no_stderr(&self, text: impl AsRef<str>) {
        let text = text.as_ref();
        assert!(!self.stderr.contains(text), "stderr contains {text:?}\n{}", self.transcript());
    }

    /// Stderr without ports and journal times, for a snapshot.
    pub fn stderr_text(&self) -> String {
        without_ports_and_times(&self.stderr)
    }

    /// The document on stdout; a diagnosis with one finding for each node.
    pub fn json(&self) -> serde_json::Value {
        super::unfolded::on_each_node(self.document())
    }

    /// The document on stdout.
    pub fn document(&self) -> serde_json::Value {
        let document = serde_json::from_str(&self.stdout);
        document.unwrap_or_else(|error| panic!("{error}: {}", self.transcript()))
    }
}

/// Replaces the number of rules, and the codes of those not checked, so that a new rule changes no snapshot.
pub fn without_rule_counts(text: &str) -> String {
    static COUNT: LazyLock<Regex> =
        LazyLock::new(|| regex(r"(?m)^(Incomplete diagnosis: |)\d+ rules?( could not run)"));
    static METRIC: LazyLock<Regex> =
        LazyLock::new(|| regex(r"(?m)^(kubectl_skyhook_rules_not_checked\S*) \d+$"));
    static CODES: LazyLock<Regex> =
        LazyLock::new(|| regex(r"(?m)^  SKY\d{3}( SKY\d{3})*( and \d+ more \(-o wide\))?:"));
    let counted = COUNT.replace_all(text, "$1[n] rules$2");
    let counted = METRIC.replace_all(&counted, "$1 [n]");
    CODES.replace_all(&counted, "  [codes]:").into_owned()
}

/// Replaces ports, which test servers choose at random, and journal ids, which contain the time.
fn without_ports_and_times(text: &str) -> String {
    static PORT: LazyLock<Regex> = LazyLock::new(|| regex(r"(https?://127\.0\.0\.1):\d+"));
    static JOURNAL: LazyLock<Regex> = LazyLock::new(|| regex(r"((?:undo|journal) )\d{8}-\d{6}\.\d{3}"));
    static AGE: LazyLock<Regex> = LazyLock::new(|| regex(r"(journal \[time\]\S*) \(\d+s ago\)"));
    let text = PORT.replace_all(text, "$1:[port]");
    let text = JOURNAL.replace_all(&text, "$1[time]");
    AGE.replace_all(&text, "$1 ([age])").into_owned()
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern")
}
