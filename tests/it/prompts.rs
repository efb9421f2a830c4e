//! The questions before a change, on a terminal.

use std::process::Command;
use std::time::Duration;

use expectrl::process::unix::WaitStatus;
use expectrl::session::OsSession;
use expectrl::{Eof, Expect, Session};

use crate::support::clusters;
use crate::support::fake_api::{FakeApi, Served};

/// `reset` of one node, on a terminal, up to its question.
fn reset(served: &Served) -> OsSession {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-skyhook"));
    command
        .args(["reset", "gpu-tune", "--node", "node-2", "--no-pause"])
        .env_clear()
        .env("HOME", served.dir())
        .env("XDG_STATE_HOME", served.dir())
        .env("TERM", "xterm")
        .env("KUBECONFIG", served.kubeconfig());
    let mut session = Session::spawn(command).expect("the binary starts on a terminal");
    session.set_expect_timeout(Some(Duration::from_secs(60)));
    session
        .expect("To go ahead, type the name and the number of nodes (1): gpu-tune 1")
        .expect("it asks");
    session
}

fn answer(mut session: OsSession, words: &str) -> (String, WaitStatus) {
    session.send_line(words).expect("it listens");
    let rest = session.expect(Eof).expect("it ends");
    let said = String::from_utf8_lossy(rest.as_bytes()).into_owned();
    (said, session.get_process().wait().expect("an exit code"))
}

/// Writes to objects; asking what one may do is none.
fn written(fake: &FakeApi) -> usize {
    fake.writes().iter().filter(|w| w.method == "PATCH").count()
}

#[test]
fn another_answer_changes_nothing() {
    let fake = clusters::named("apply-erroring").served();
    let served = fake.serve();
    let (said, ended) = answer(reset(&served), "gpu-tune 2");
    assert!(
        said.contains("not confirmed; nothing was changed"),
        "{said}"
    );
    assert!(matches!(ended, WaitStatus::Exited(_, 3)), "{ended:?}");
    assert_eq!(written(&fake), 0);
}

#[test]
fn the_words_that_were_asked_for_let_it_go_ahead() {
    let fake = clusters::named("apply-erroring").served();
    let served = fake.serve();
    let (said, ended) = answer(reset(&served), "gpu-tune 1");
    assert!(
        matches!(ended, WaitStatus::Exited(_, 0)),
        "{ended:?} {said}"
    );
    assert_eq!(written(&fake), 1);
}
