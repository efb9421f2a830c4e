//! Explanations of a container's exit code and reason.

/// The meaning of an exit code with its Kubernetes reason; `None` if each program defines its own.
pub fn meaning(code: Option<i64>, reason: &str) -> Option<&'static str> {
    match reason {
        "OOMKilled" => return Some("killed: it exceeded its memory limit"),
        "DeadlineExceeded" => return Some("terminated: it exceeded its deadline"),
        "ContainerCannotRun" | "StartError" => return Some("the container could not be started"),
        "Evicted" => {
            return Some("evicted: the node was low on resources, or the pod exceeded a storage limit");
        }
        _ => {}
    }
    Some(match code? {
        126 => "the command cannot be executed: permission denied, or not an executable",
        127 => "command not found",
        130 => "interrupted (SIGINT)",
        132 => "crashed: illegal instruction (SIGILL)",
        134 => "aborted (SIGABRT)",
        135 => "crashed: bus error (SIGBUS)",
        136 => "crashed: arithmetic error (SIGFPE)",
        137 => {
            "killed (SIGKILL): it did not stop within the grace period (pod deleted, evicted or past its deadline), \
             the node ran out of memory, or someone killed the process"
        }
        139 => "crashed: segmentation fault (SIGSEGV)",
        141 => "broken pipe (SIGPIPE)",
        143 => {
            "terminated (SIGTERM): its pod was deleted, evicted or past its deadline, the node was shut down, or \
             someone terminated the process"
        }
        _ => return None,
    })
}

/// `exit code 127 (command not found)`.
pub fn with_meaning(code: i64, reason: &str) -> String {
    match meaning(Some(code), reason) {
        Some(meaning) => format!("exit code {code} ({meaning})"),
        None => format!("exit code {code}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kubernetes_says_goes_before_the_number() {
        assert_eq!(with_meaning(127, "Error"), "exit code 127 (command not found)");
        assert_eq!(with_meaning(3, "Error"), "exit code 3");
        assert_eq!(with_meaning(137, "OOMKilled"), "exit code 137 (killed: it exceeded its memory limit)");
    }
}
