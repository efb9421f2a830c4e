use super::{Input, LintFindings};

lint_rule! {
    /// A package sets a variable that the operator sets.
    ///
    /// # What it means
    ///
    /// The operator adds its variables after those of the package, so its value replaces that of the package.
    ///
    /// # How to fix
    ///
    /// Use another name.
    SKY885 "env-reserved" Warning
}

/// The variables of the operator (`getAgentConfigEnvVars`).
const RESERVED: [&str; 5] =
    ["SKYHOOK_LOG_DIR", "SKYHOOK_ROOT_DIR", "COPY_RESOLV", "SKYHOOK_RESOURCE_ID", "SKYHOOK_NODE_ORDER"];

fn check(input: &Input<'_>, findings: &mut LintFindings) {
    for (manifest, skyhook) in input.skyhooks() {
        for (package, spec) in skyhook.packages() {
            for (index, variable) in spec.whole["env"].as_array().into_iter().flatten().enumerate() {
                let name = variable["name"].as_str().unwrap_or_default();
                if RESERVED.contains(&name) {
                    let path = ["spec", "packages", package, "env", &index.to_string(), "name"];
                    let message = format!("the operator replaces the value of {name}");
                    findings.report(manifest, &path, message).fix("Use another name");
                }
            }
        }
    }
}
