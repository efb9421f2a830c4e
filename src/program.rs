//! The names that this program answers to.

use std::ffi::OsStr;
use std::path::Path;

/// The name under which the program was called. Links with other names let one binary serve as several
/// plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// The plugin's name after `kubectl`: `skyhook`, `nodewright` or `node-rollout`.
    pub plugin: &'static str,
    /// Called by kubectl to complete a command line, as `kubectl_complete-NAME`.
    pub completes: bool,
}

impl Program {
    /// The plugin under its own name.
    pub const SKYHOOK: Program = Program { plugin: "skyhook", completes: false };

    /// Derives the program from the first word of the command line.
    ///
    /// A name chosen by the user, such as `skyhook` or `skyhook-cli`, is the plugin too.
    pub fn of(argv0: &OsStr) -> Program {
        let name = Path::new(argv0).file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_suffix(".exe").unwrap_or(&name);
        let completed = name.strip_prefix("kubectl_complete-");
        let plugin = match completed.or(name.strip_prefix("kubectl-")) {
            Some("nodewright") => "nodewright",
            // kubectl finds `kubectl node-rollout` under a name with an underscore.
            Some("node_rollout") => "node-rollout",
            _ => "skyhook",
        };
        Program { plugin, completes: completed.is_some() }
    }

    /// The words to type: `kubectl skyhook`.
    pub fn words(self) -> String {
        format!("kubectl {}", self.plugin)
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
            ("/bin/kubectl_complete-skyhook", "skyhook", true),
            ("skyhook", "skyhook", false),
            ("nodewright", "skyhook", false),
            ("", "skyhook", false),
        ] {
            let expected = Program { plugin, completes };
            assert_eq!(Program::of(OsStr::new(name)), expected, "{name}");
        }
    }
}
