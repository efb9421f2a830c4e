//! How long an uninstall is waited for.

use std::time::Duration;

use crate::args::duration::duration;

#[derive(Debug, clap::Args)]
pub struct Patience {
    /// How long to wait; 0 waits forever [default: 30m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,

    /// How long to tolerate retried failures [default: 2m; 0 with operators from v0.18, whose Jobs count attempts]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub tolerate: Option<Duration>,
}

impl Patience {
    pub fn is_set(&self) -> bool {
        self.timeout.or(self.tolerate).is_some()
    }
}
