//! The binary, run as a user runs it.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock, OnceLock};

use regex::Regex;

/// A call of the binary. It starts in the root of the repository with an empty environment, a home
/// that does not exist and no standard input.
pub struct Run {
    command: Command,
    shown: String,
    stdin: Option<Vec<u8>>,
    child: Child,
}

/// A call while it runs, for what happens in the cluster to act upon.
#[derive(Clone, Default)]
pub struct Child(Arc<OnceLock<u32>>);

impl Child {
    /// Interrupts the call, as Ctrl-C does.
    pub fn interrupt<T>(&self) -> impl Fn(&mut T) + Send + Sync + 'static + use<T> {
        self.signal("INT")
    }

    /// Tells the call that its terminal is closed.
    pub fn hang_up<T>(&self) -> impl Fn(&mut T) + Send + Sync + 'static + use<T> {
        self.signal("HUP")
    }

    /// Kills the call, which hears nothing of it.
    pub fn kill<T>(&self) -> impl Fn(&mut T) + Send + Sync + 'static + use<T> {
        self.signal("KILL")
    }

    fn signal<T>(&self, name: &'static str) -> impl Fn(&mut T) + Send + Sync + 'static + use<T> {
        let child = self.clone();
        move |_| {
            let id = child.0.get().expect("it asks, so it runs");
            let kill = Command::new("sh")
                .args(["-c", &format!("kill -{name} {id}")])
                .status();
            assert!(kill.expect("a shell").success());
        }
    }
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "assert on all of it: stdout, stderr and the exit code"]
pub struct Ran {
    shown: String,
    pub stdout: String,
    pub stderr: String,
    /// `None` if a signal ended it.
    pub code: Option<i32>,
}

/// The binary of a release, where one is tested.
pub fn released() -> Option<OsString> {
    std::env::var_os("RELEASED_BINARY")
}

pub fn binary() -> OsString {
    released().unwrap_or_else(|| env!("CARGO_BIN_EXE_kubectl-skyhook").into())
}

/// Calls the binary with these words.
pub fn run(words: &str) -> Run {
    Run::new(words.split_whitespace())
}

impl Run {
    pub fn new<S: Into<OsString>>(words: impl IntoIterator<Item = S>) -> Run {
        Run::of(binary(), words)
    }

    /// Calls another program, which is to call the binary.
    pub fn of<S: Into<OsString>>(
        program: impl Into<OsString>,
        words: impl IntoIterator<Item = S>,
    ) -> Run {
        let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
        let mut command = Command::new(program.into());
        command
            .args(&words)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_clear()
            .env("HOME", "/nonexistent")
            .env("PATH", "/usr/bin:/bin");
        let words: Vec<String> = words
            .iter()
            .map(|w| w.to_string_lossy().into_owned())
            .collect();
        Run {
            command,
            shown: words.join(" "),
            stdin: None,
            child: Child::default(),
        }
    }

    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Run {
        self.command.env(name, value.into());
        self
    }

    /// Talks to the cluster of this kubeconfig.
    pub fn kubeconfig(self, path: &Path) -> Run {
        self.env("KUBECONFIG", path)
    }

    /// Tells when it runs.
    pub fn child(mut self, child: &Child) -> Run {
        self.child = child.clone();
        self
    }

    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Run {
        self.stdin = Some(bytes.into());
        self
    }

    pub fn go(mut self) -> Ran {
        let stdin = if self.stdin.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        };
        let mut child = self
            .command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let _ = self.child.0.set(child.id());
        if let Some(bytes) = self.stdin {
            // It may end before it has read everything.
            let _ = child.stdin.take().expect("a pipe").write_all(&bytes);
        }
        let output = child.wait_with_output().expect("the binary ends");
        Ran {
            shown: self.shown,
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: String::from_utf8(output.stderr).expect("text"),
            code: output.status.code(),
        }
    }
}

impl Ran {
    /// The whole of it, as a terminal would show it, for a snapshot.
    pub fn transcript(&self) -> String {
        let stderr = match without_port(&self.stderr).as_str() {
            "" => String::new(),
            text => format!("------- stderr -------\n{text}"),
        };
        let code = self.code.map_or("signal".to_owned(), |c| c.to_string());
        let stdout = without_rules(&without_port(&self.stdout));
        format!(
            "$ kubectl skyhook {}\n{stdout}{stderr}[exit status: {code}]\n",
            self.shown
        )
    }

    /// What is said beside the answer, for a snapshot.
    pub fn said(&self) -> String {
        without_port(&self.stderr)
    }

    /// The document on stdout.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).expect("JSON on stdout")
    }
}

/// Leaves out how many rules there are, and which of them could not be checked: a new rule changes no snapshot.
fn without_rules(text: &str) -> String {
    static COUNT: LazyLock<Regex> =
        LazyLock::new(|| regex(r"(?m)^\d+ rules?( could not be checked)"));
    static CODES: LazyLock<Regex> = LazyLock::new(|| regex(r"(?m)^  SKY\d{3}( SKY\d{3})*:"));
    let counted = COUNT.replace_all(text, "[n] rules$1");
    CODES.replace_all(&counted, "  [codes]:").into_owned()
}

/// A server of the tests listens wherever there is room, and a journal is named by the time.
fn without_port(text: &str) -> String {
    static PORT: LazyLock<Regex> = LazyLock::new(|| regex(r"(https?://127\.0\.0\.1):\d+"));
    static JOURNAL: LazyLock<Regex> = LazyLock::new(|| regex(r"(undo )\d{8}-\d{6}\.\d{3}"));
    let text = PORT.replace_all(text, "$1:[port]");
    JOURNAL.replace_all(&text, "$1[time]").into_owned()
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern")
}
