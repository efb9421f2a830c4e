//! Echo of control keys: `^C` would move a drawn screen by a line, so that one line of it is not cleared.

use std::os::fd::AsFd;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// Disables the echo of control keys on a terminal until dropped.
pub struct QuietKeys<T: AsFd> {
    terminal: T,
    before: Option<Termios>,
}

impl<T: AsFd> QuietKeys<T> {
    pub fn new(terminal: T) -> QuietKeys<T> {
        let before = tcgetattr(&terminal).ok();
        let keys = QuietKeys { terminal, before };
        keys.reapply();
        keys
    }

    /// Disables the echo again after the process was stopped: shells reset the modes then.
    pub fn reapply(&self) {
        if let Some(before) = &self.before {
            let mut modes = before.clone();
            modes.local_modes.remove(LocalModes::ECHOCTL);
            self.set(&modes);
        }
    }

    /// Sets the modes, unless the process is in the background: setting them would stop it.
    fn set(&self, modes: &Termios) {
        if tcgetpgrp(&self.terminal) == Ok(rustix::process::getpgrp()) {
            let _ = tcsetattr(&self.terminal, OptionalActions::Now, modes);
        }
    }
}

impl<T: AsFd> Drop for QuietKeys<T> {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            self.set(before);
        }
    }
}
