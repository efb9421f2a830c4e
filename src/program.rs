//! The names that this program answers to.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value;

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
