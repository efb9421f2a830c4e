//! How long an uninstall is waited for.

use std::time::Duration;

use crate::args::duration::duration;

#[derive(Debug, clap::Args)]
pub struct Patience {
    /// How long to wait; 0 waits for ever [default: 30m]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub timeout: Option<Duration>,

    /// How long something that is retried may fail before the wait ends [default: 2m; 0 where Jobs count their attempts]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub tolerate: Option<Duration>,
}

impl Patience {
    pub fn is_set(&self) -> bool {
        self.timeout.or(self.tolerate).is_some()
    }
}
