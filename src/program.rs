//! How the program was started: its name, arguments, environment and standard streams.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::Value;

/// The arguments, environment variables and standard streams of a call: those of this process, or of a call within it
/// without a terminal and without standard input.
#[derive(Debug, Clone)]
pub struct Process {
    /// The arguments; the first is the name of the program.
    pub args: Vec<OsString>,
    variables: HashMap<OsString, OsString>,
    /// Stdout and stderr of a call within the process; `None` for the streams of the process.
    output: Option<[Arc<Mutex<Vec<u8>>>; 2]>,
}

impl Process {
    /// The call of this process.
    pub fn own() -> Process {
        Process::of(std::env::args_os().collect())
    }

    /// A call with these arguments, and the environment and streams of this process.
    pub fn of(args: Vec<OsString>) -> Process {
        Process { args, variables: std::env::vars_os().collect(), output: None }
    }

    /// A call within this process, whose output is kept in memory.
    pub fn within(args: Vec<OsString>, variables: HashMap<OsString, OsString>) -> Process {
        Process { args, variables, output: Some(Default::default()) }
    }

    /// Whether signals, standard input and the terminal of this process belong to the call.
    pub fn is_own(&self) -> bool {
        self.output.is_none()
    }

    /// The value of an environment variable; `None` if it is empty or no Unicode.
    pub fn variable(&self, name: &str) -> Option<String> {
        self.variable_os(name)?.into_string().ok().filter(|value| !value.is_empty())
    }

    /// The value of an environment variable. Windows does not distinguish case in names.
    pub fn variable_os(&self, name: &str) -> Option<OsString> {
        let is_same = |known: &OsStr| known == name || cfg!(windows) && known.eq_ignore_ascii_case(name);
        self.variables.iter().find(|(known, _)| is_same(known)).map(|(_, value)| value.clone())
    }

    /// Whether standard input is a terminal.
    pub fn reads_terminal(&self) -> bool {
        self.is_own() && io::stdin().is_terminal()
    }

    /// Where the output goes.
    pub fn stdout(&self) -> Stream {
        self.output
            .as_ref()
            .map_or_else(|| Stream::Stdout(io::stdout()), |[out, _]| Stream::Memory(out.clone()))
    }

    /// Where everything but the output goes.
    pub fn stderr(&self) -> Stream {
        self.output
            .as_ref()
            .map_or_else(|| Stream::Stderr(io::stderr()), |[_, err]| Stream::Memory(err.clone()))
    }

    /// The bytes that a call within this process has written to stdout and to stderr.
    pub fn written(&self) -> [Vec<u8>; 2] {
        let taken = |kept: &Arc<Mutex<Vec<u8>>>| kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.output.as_ref().map(|output| output.each_ref().map(taken)).unwrap_or_default()
    }
}

/// Stdout or stderr of a call.
pub enum Stream {
    Stdout(io::Stdout),
    Stderr(io::Stderr),
    Memory(Arc<Mutex<Vec<u8>>>),
}

impl Stream {
    pub fn is_terminal(&self) -> bool {
        match self {
            Stream::Stdout(out) => out.is_terminal(),
            Stream::Stderr(err) => err.is_terminal(),
            Stream::Memory(_) => false,
        }
    }

    /// The columns of the terminal, if it is one.
    pub fn width(&self) -> Option<usize> {
        let size = match self {
            Stream::Stdout(out) => terminal_size::terminal_size_of(out),
            Stream::Stderr(err) => terminal_size::terminal_size_of(err),
            Stream::Memory(_) => None,
        };
        size.map(|(width, _)| usize::from(width.0))
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Stdout(out) => out.write(bytes),
            Stream::Stderr(err) => err.write(bytes),
            Stream::Memory(kept) => kept.lock().unwrap_or_else(PoisonError::into_inner).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Stdout(out) => out.flush(),
            Stream::Stderr(err) => err.flush(),
            Stream::Memory(_) => Ok(()),
        }
    }
}

/// The name under which the program was called. Links with other names let one binary serve as several
/// plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// The words after `kubectl`: `skyhook`, `nodewright` or `node-rollout`.
    pub plugin: &'static str,
    /// Called by kubectl to complete a command line, as `kubectl_complete-NAME`.
    pub completes: bool,
}

impl Program {
    /// The plugin under its own name.
    pub const SKYHOOK: Program = Program { plugin: "skyhook", completes: false };

    /// Derives the program from the first word of the command line.
    ///
    /// A name without `kubectl-`, such as `skyhook-cli`, is the plugin under its own name.
    pub fn of(argv0: &OsStr) -> Program {
        let name = Path::new(argv0).file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_suffix(".exe").unwrap_or(&name);
        let completed = name.strip_prefix("kubectl_complete-");
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        let plugin = match completed.or(name.strip_prefix("kubectl-")) {
            None | Some("" | "skyhook") => "skyhook",
            Some(name) if !name.chars().all(letters) => "skyhook",
            // kubectl finds `kubectl node-rollout` under a name with an underscore, and `kubectl a b` under `a-b`.
            // A process has one name, so the memory is never freed.
            Some(name) => name.replace('-', " ").replace('_', "-").leak(),
        };
        Program { plugin, completes: completed.is_some() }
    }

    /// The words to type: `kubectl skyhook`.
    pub fn words(self) -> String {
        format!("kubectl {}", self.plugin)
    }

    /// Makes all output name commands by these words.
    pub fn name_commands(self) {
        if self.plugin != Program::SKYHOOK.plugin {
            // A process has one name: later calls have no effect.
            let _ = OTHER_NAME.set(self);
        }
    }
}

/// The program, if it was called by another name than its own.
static OTHER_NAME: OnceLock<Program> = OnceLock::new();
const OWN: &str = "kubectl skyhook";

/// Replaces the words of this program's commands by those that were typed.
pub fn as_typed(text: Cow<'_, str>) -> Cow<'_, str> {
    match OTHER_NAME.get() {
        Some(program) if text.contains(OWN) => Cow::Owned(text.replace(OWN, &program.words())),
        _ => text,
    }
}

/// [`as_typed`] for all strings and command lines of a document.
pub fn document_as_typed(document: &mut Value) {
    if let Some(program) = OTHER_NAME.get() {
        rename(document, *program);
    }
}

fn rename(value: &mut Value, program: Program) {
    match value {
        Value::String(text) if text.contains(OWN) => *text = text.replace(OWN, &program.words()),
        Value::Array(items) => {
            if let [first, second, ..] = items.as_slice()
                && first == "kubectl"
                && second == Program::SKYHOOK.plugin
            {
                items.splice(1..2, program.plugin.split(' ').map(Value::from));
            }
            items.iter_mut().for_each(|item| rename(item, program));
        }
        Value::Object(fields) => fields.values_mut().for_each(|field| rename(field, program)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_makes_the_plugin() {
        for (name, plugin, completes) in [
            ("kubectl-skyhook", "skyhook", false),
            ("/usr/local/bin/kubectl-nodewright", "nodewright", false),
            ("kubectl-nodewright.exe", "nodewright", false),
            ("kubectl_complete-nodewright", "nodewright", true),
            ("kubectl-node_rollout", "node-rollout", false),
            ("kubectl_complete-node_rollout.exe", "node-rollout", true),
            ("kubectl-packages", "packages", false),
            ("kubectl-skyhook-cli", "skyhook cli", false),
            ("kubectl-$(reboot)", "skyhook", false),
            ("/bin/kubectl_complete-skyhook", "skyhook", true),
            ("skyhook", "skyhook", false),
            ("nodewright", "skyhook", false),
            ("", "skyhook", false),
        ] {
            let expected = Program { plugin, completes };
            assert_eq!(Program::of(OsStr::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn documents_name_commands_as_typed() {
        let mut document = serde_json::json!({
            "argv": ["kubectl", "skyhook", "undo"],
            "kubectl": ["kubectl", "get", "skyhook"],
            "hint": "see: kubectl skyhook status",
            "skyhook": "skyhook",
        });
        rename(&mut document, Program { plugin: "node-rollout", completes: false });
        assert_eq!(
            document,
            serde_json::json!({
                "argv": ["kubectl", "node-rollout", "undo"],
                "kubectl": ["kubectl", "get", "skyhook"],
                "hint": "see: kubectl node-rollout status",
                "skyhook": "skyhook",
            })
        );
    }
}
