//! The flags that select the input: cluster or files, API, time of ages, verbosity.

use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use jiff::Timestamp;

use super::boolean::boolean;
use crate::api::ApiFlavor;

/// Flags for the source to read, and for verbosity.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Reading options")]
pub struct Reading {
    /// Read files instead of a cluster; may be repeated
    ///
    /// The output of `kubectl skyhook collect`, of `kubectl get nodes,pods,jobs,events,… -A -o json` or
    /// `-o yaml`, of `oc adm must-gather` or of `kubectl cluster-info dump`: a file, a directory tree of such
    /// files, a .tar.gz of one, or - for standard input. Only a file written by `collect` records which reads
    /// were refused.
    #[arg(long, global = true, value_name = "PATH", action = clap::ArgAction::Append)]
    pub from: Vec<PathBuf>,

    /// With --from, the time at which ages are calculated, such as 2026-11-20T10:00:00Z
    ///
    /// Default: the time in the capture (`collect`, or the file `timestamp` of a must-gather), else when the
    /// files were written (unless they are copies), else the newest time in them.
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "TIME",
        value_parser = time,
        requires = "from"
    )]
    pub now: Option<Timestamp>,

    /// Use this API if both are served
    ///
    /// By default, the operator's version determines the API.
    #[arg(
        long,
        global = true,
        value_name = "skyhook|nodewright",
        value_parser = api(),
        ignore_case = true,
        hide_possible_values = true
    )]
    pub api: Option<ApiFlavor>,

    /// Print the selected API and the reason to standard error; with a level, also each request
    ///
    /// The levels are kubectl's: 6 shows method, URL, status and duration of each request, 7 headers, 8 and
    /// above bodies. Credentials are never shown.
    #[arg(short, long, alias = "v", global = true, num_args = 0..=1, require_equals = true, value_name = "LEVEL",
        default_missing_value = "1", default_value = "0", hide_default_value = true,
        action = clap::ArgAction::Set)]
    pub verbose: Verbosity,
}

/// Parses the word for an API.
fn api() -> impl TypedValueParser<Value = ApiFlavor> {
    let skyhook = PossibleValue::new("skyhook").help("Operators up to v0.17: `Skyhook`, raw Pods");
    let nodewright = PossibleValue::new("nodewright").help("Operators from v0.18 on: `NodeWright`, Jobs");
    PossibleValuesParser::new([skyhook, nodewright]).map(|word| {
        if word.eq_ignore_ascii_case("skyhook") { ApiFlavor::Skyhook } else { ApiFlavor::NodeWright }
    })
}

/// Parses a time in RFC 3339.
fn time(text: &str) -> Result<Timestamp, String> {
    let expected = |_| "expected a time such as 2026-11-20T10:00:00Z".to_owned();
    text.parse().map_err(expected)
}

/// The verbosity on stderr; kubectl's levels, 0 to 10.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verbosity(pub u8);

impl Verbosity {
    /// Whether anything beyond errors and warnings is printed.
    pub fn talks(self) -> bool {
        self.0 > 0
    }
}

impl FromStr for Verbosity {
    type Err = String;

    /// Parses a level, or a Boolean as earlier versions did.
    fn from_str(text: &str) -> Result<Verbosity, String> {
        match (text.parse(), boolean(text)) {
            (Ok(level), _) => Ok(Verbosity(level)),
            (Err(_), Ok(detailed)) => Ok(Verbosity(u8::from(detailed))),
            (Err(_), Err(_)) => Err("expected a level from 0 to 10, true or false".to_owned()),
        }
    }
}
