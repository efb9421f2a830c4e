//! The flags that every command takes.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use jiff::Timestamp;

use super::connection::{Connection, boolean};
use super::safety::DryRun;
use crate::api::ApiFlavor;
use crate::view::{FormatError, OutputFormat};

/// Flags of every command.
#[derive(Debug, Clone, Default, Args)]
pub struct Global {
    #[command(flatten)]
    pub reading: Reading,
    #[command(flatten)]
    pub output: Output,
    #[command(flatten)]
    pub connection: Connection,

    /// Accepted as by kubectl, and ignored: custom resources have no namespace
    #[arg(short = 'A', long = "all-namespaces", global = true, hide = true)]
    pub all_namespaces: bool,

    /// Also accepted before the command; ignored by commands that change nothing
    ///
    /// Commands that change something define this flag themselves, and clap passes on the value given here.
    #[arg(long = "dry-run", id = "dry_run", global = true, hide = true, num_args = 0..=1, require_equals = true,
        value_name = "client|server|none", value_parser = DryRun::parse, default_missing_value = "client", default_value = "none")]
    pub dry_run: DryRun,
}

const HEADING: &str = "Output options";

// The output flags. No doc comment: clap would use it as the description of commands that have none. No
// next_help_heading: it would apply to all flags that follow.
#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct Output {
    /// Print as table, wide, json, yaml, name, jsonpath=… or custom-columns=…
    ///
    /// The formats are those of kubectl, without Go templates. jsonpath=TEMPLATE takes kubectl's templates
    /// ('{range .items[*]}{.name}{"\n"}{end}') or a bare path (.kind), jsonpath-as-json=TEMPLATE prints the
    /// results as JSON lists, and custom-columns=HEADING:PATH,… a custom table. jsonpath-file=FILE and
    /// custom-columns-file=FILE read the template from a file; a columns file has one line of headings and
    /// one of paths. `kubectl skyhook schema` describes the fields of each document. `diagnose stuck`,
    /// `diagnose check` and `lint` also print junit for continuous integration; the first two print
    /// openmetrics for monitoring, and openmetrics=FILE replaces that file for a textfile collector. `lint`
    /// also prints sarif for code scanning.
    #[arg(
        short = 'o',
        long = "output",
        value_name = "FORMAT",
        value_parser = format,
        help_heading = HEADING,
        default_value = "table",
        hide_default_value = true,
        global = true
    )]
    pub format: OutputFormat,

    /// Print documents in the shape of upstream's CLI
    ///
    /// Affects -o json and -o yaml of `node list`, `node status` and `package status`: they have no
    /// `apiVersion`, `kind` and `items`, and use upstream's field names (`nodeName`, `skyhookName`).
    /// Upstream's CLI has no other documents. The environment variable KUBECTL_SKYHOOK_COMPAT=1 has the same
    /// effect.
    #[arg(long, env = "KUBECTL_SKYHOOK_COMPAT", hide_env = true, help_heading = HEADING, global = true)]
    pub compat: bool,

    /// Do not print table headings
    #[arg(long, help_heading = HEADING, global = true)]
    pub no_headers: bool,

    /// Color the output: auto, always or never
    ///
    /// With auto, terminal output is colored unless NO_COLOR is set or TERM is dumb; CLICOLOR_FORCE and
    /// FORCE_COLOR also color piped output. No information is conveyed by color alone.
    #[arg(
        long,
        value_name = "WHEN",
        help_heading = HEADING,
        value_enum,
        default_value_t,
        ignore_case = true,
        hide_default_value = true,
        hide_possible_values = true,
        global = true
    )]
    pub color: ColorChoice,
}

/// Parses the format, and reads its template file.
fn format(text: &str) -> Result<OutputFormat, FormatError> {
    match OutputFormat::file(text) {
        None => text.parse(),
        Some(file) => {
            let content = std::fs::read_to_string(file)
                .map_err(|error| FormatError(format!("cannot read {file}: {error}")))?;
            OutputFormat::of_file(text, &content)
        }
    }
}

/// When to color the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum ColorChoice {
    /// Color terminal output, unless an environment variable disables or forces color.
    #[default]
    Auto,
    Always,
    Never,
}

/// Flags for the source to read, and for verbosity.
#[derive(Debug, Clone, Default, Args)]
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
    /// Default: the time that `collect` or a must-gather (file `timestamp`) recorded; otherwise the modification
    /// time of the files, unless they are copies; otherwise the newest time in them.
    #[arg(
        long,
        global = true,
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
    /// The levels are kubectl's: 6 shows method, URL, status and duration of each request, 7 and above headers.
    /// Bodies and credentials are never shown.
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

/// The verbosity on stderr; kubectl's levels, 0 to 10. 0 prints only errors and warnings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verbosity(pub u8);

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

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches, Parser};

    use super::*;
    use crate::args::connection::with_boolean_values;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        output: Output,
        #[command(subcommand)]
        command: Command,
    }

    #[derive(Debug, clap::Subcommand)]
    enum Command {
        List { names: Vec<String> },
    }

    #[test]
    fn help_groups_the_flags_and_nothing_else() {
        #[derive(Debug, Parser)]
        struct Cli {
            #[command(flatten)]
            output: Output,
            /// Unrelated
            #[arg(long)]
            other: Option<String>,
        }
        let help = with_boolean_values(Cli::command()).term_width(80).render_help();
        assert_eq!(
            help.to_string(),
            "\
Usage: kubectl-skyhook [OPTIONS]

Options:
      --other <OTHER>  Unrelated
  -h, --help           Print help (see more with '--help')

Output options:
  -o, --output <FORMAT>
          Print as table, wide, json, yaml, name, jsonpath=… or custom-columns=…
      --compat[=<true|false>]
          Print documents in the shape of upstream's CLI
      --no-headers[=<true|false>]
          Do not print table headings
      --color <WHEN>
          Color the output: auto, always or never
"
        );
    }

    fn parse(args: &str) -> Result<Output, String> {
        let args = ["kubectl-skyhook"].into_iter().chain(args.split(' '));
        let matches = with_boolean_values(Cli::command()).try_get_matches_from(args);
        let matches = matches.map_err(|e| e.to_string())?;
        let cli = Cli::from_arg_matches(&matches).map_err(|e| e.to_string())?;
        let Command::List { names } = cli.command;
        assert!(names.iter().all(|name| name == "n"), "{names:?}");
        Ok(cli.output)
    }

    fn output(format: OutputFormat) -> Output {
        Output { format, ..Output::default() }
    }

    #[test]
    fn takes_the_spellings_of_kubectl() {
        assert_eq!(parse("list"), Ok(output(OutputFormat::Table)));
        for args in [
            "list -o yaml",
            "list -oyaml",
            "list -o=yaml n",
            "list --output yaml n",
            "list --output=YAML",
            "-o yaml list",
            "-o=Yaml list",
            "list -o json -o yaml",
            "-o json list -o yaml",
            "list -o json n --output=yaml",
            "list -o=jsonpath={.x} -oyaml",
        ] {
            assert_eq!(parse(args), Ok(output(OutputFormat::Yaml)), "{args}");
        }
    }

    #[test]
    fn the_last_one_wins() {
        let expected =
            Output { format: OutputFormat::Name, compat: true, no_headers: true, color: ColorChoice::Never };
        for args in [
            "list -oname --compat --no-headers --color never n",
            "list -oname --compat --no-headers=false --no-headers n --color=always --color=NEVER",
            "--no-headers --compat=false list n -ojson --compat -oname --no-headers=true --color=never",
        ] {
            assert_eq!(parse(args), Ok(expected.clone()), "{args}");
        }
    }

    #[test]
    fn says_what_is_allowed() {
        let error = parse("list -o xml").expect_err("no such format");
        assert_eq!(
            error.lines().next(),
            Some(
                "error: invalid value 'xml' for '--output <FORMAT>': allowed formats are table, wide, json, yaml, name, jsonpath=TEMPLATE, jsonpath-file=FILE, jsonpath-as-json=TEMPLATE, custom-columns=HEADING:PATH,…, custom-columns-file=FILE, and for some commands junit, sarif, openmetrics"
            )
        );
        let error = parse("list --color=red").expect_err("no such choice");
        assert_eq!(error.lines().next(), Some("error: invalid value 'red' for '--color <WHEN>'"));
    }
}
