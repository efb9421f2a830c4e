//! The progress screen on a terminal, which is redrawn during the wait.

use std::process::Command;
use std::time::Duration;

use expectrl::process::unix::WaitStatus;
use expectrl::{Eof, Expect, Session};

use super::{SKYHOOK, UNDER_WAY, installed, nodes, uninstalled};

#[test]
fn progress_screen_shows_stages() {
    let fake = installed(SKYHOOK);
    fake.on("WATCH nodes").nth(1).after(nodes(SKYHOOK, [&[UNDER_WAY], &[]]));
    fake.on("LIST events").nth(4).after(uninstalled(SKYHOOK));
    let served = fake.serve();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-skyhook"));
    command
        .args(["uninstall", "gpu", "driver", "--wait", "--confirm"])
        .env_clear()
        .env("HOME", served.dir())
        .env("XDG_STATE_HOME", served.dir())
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .env("KUBECONFIG", served.kubeconfig());
    let mut session = Session::spawn(command).expect("the binary starts on a terminal");
    session.set_expect_timeout(Some(Duration::from_secs(60)));
    for drawn in
        ["driver 1.0.0: 1 of 2 nodes done", "STAGE", "uninstall, not started", "so far; Ctrl-C stops waiting"]
    {
        session.expect(drawn).expect("the screen contains the text");
    }
    let rest = session.expect(Eof).expect("the command ends");
    let output = String::from_utf8_lossy(rest.as_bytes()).into_owned();
    assert!(output.contains("driver 1.0.0 is gone from all nodes"), "{output}");
    let ended = session.get_process().wait().expect("an exit code");
    assert!(matches!(ended, WaitStatus::Exited(_, 0)), "{ended:?} {output}");
}
