//! Runs a program on a terminal up to a prompt, and answers it.

use std::process::Command;
use std::time::Duration;

use expectrl::process::unix::WaitStatus;
use expectrl::session::OsSession;
use expectrl::{Eof, Expect, Session};

use super::test_cluster::TestCluster;

pub struct Terminal {
    session: OsSession,
    /// The output so far.
    output: String,
}

impl Terminal {
    /// Runs the binary until it prints this prompt.
    pub fn of(cluster: &TestCluster, words: &str, question: &str) -> Terminal {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-skyhook"));
        command
            .args(words.split_whitespace())
            .env_clear()
            .env("HOME", cluster.state.path())
            .env("XDG_STATE_HOME", cluster.state.path())
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .env("KUBECONFIG", cluster.served.kubeconfig());
        Terminal::running(command, question)
    }

    /// Runs a command until it prints this prompt.
    pub fn running(command: Command, question: &str) -> Terminal {
        let mut session = Session::spawn(command).expect("the program starts on a terminal");
        session.set_expect_timeout(Some(Duration::from_secs(180)));
        let mut terminal = Terminal { session, output: String::new() };
        terminal.expect(question);
        terminal
    }

    /// The output up to the text that was expected last.
    pub fn output(&self) -> &str {
        &self.output
    }

    /// Waits until the program prints this text; returns the output up to the text.
    pub fn expect(&mut self, text: &str) -> &str {
        let found = self.session.expect(text).expect("the program prints the text");
        for part in [found.before(), found.get(0).unwrap_or_default()] {
            self.output += &String::from_utf8_lossy(part);
        }
        &self.output
    }

    /// Waits for the end of the program; returns the whole output.
    pub fn end(mut self) -> String {
        let rest = self.session.expect(Eof).expect("the program ends");
        self.output + &String::from_utf8_lossy(rest.as_bytes())
    }

    /// Types these keys; returns the rest of the output and the exit code.
    pub fn answer(mut self, keys: &[u8]) -> (String, i32) {
        self.session.send(keys).expect("the program reads input");
        let rest = self.session.expect(Eof).expect("the program ends");
        let output = String::from_utf8_lossy(rest.as_bytes()).into_owned();
        match self.session.get_process().wait().expect("the exit status of the program") {
            WaitStatus::Exited(_, code) => (output, code),
            other => panic!("{other:?}: {output}"),
        }
    }
}
