//! The flags that select the cluster and the user, the same as in kubectl, and how booleans and durations are written.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, Args, Command};
use jiff::SignedDuration;
use secrecy::SecretString;

/// Flags that select the cluster and the user.
///
/// Flags take precedence over the kubeconfig. If a flag that takes one value is repeated, the last one
/// applies.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection options")]
pub struct Connection {
    /// Kubeconfig file to use, instead of those in KUBECONFIG or ~/.kube/config
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Kubeconfig context to use
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,

    /// Kubeconfig contexts to read at once: names or globs such as prod-*, separated by commas
    ///
    /// Tables get a column CONTEXT; JSON lists get the field `context` in each item, and `contexts` with the
    /// exit code and error of each. A context that fails is reported on standard error and does not hide the
    /// others. Commands that change something take exactly one context.
    ///
    /// The exit code is the first of these that any context has: 130, 64, 2, 1, 5, 4, 3, 0.
    #[arg(long, global = true, value_name = "NAME,...", value_delimiter = ',')]
    pub contexts: Vec<String>,

    /// Kubeconfig cluster to use
    #[arg(long, global = true, value_name = "NAME")]
    pub cluster: Option<String>,

    /// Kubeconfig user to use
    #[arg(long, global = true, value_name = "NAME")]
    pub user: Option<String>,

    /// Namespace of the operator; detected automatically by default
    #[arg(short, long, global = true, value_name = "NAME")]
    pub namespace: Option<String>,

    /// Address and port of the Kubernetes API server
    #[arg(short, long, global = true, value_name = "URL")]
    pub server: Option<String>,

    /// Bearer token to authenticate with
    #[arg(long, global = true, value_name = "TOKEN")]
    pub token: Option<SecretString>,

    /// Username to impersonate
    #[arg(long = "as", global = true, value_name = "USER")]
    pub impersonate: Option<String>,

    /// Group to impersonate; may be repeated
    #[arg(long = "as-group", global = true, value_name = "GROUP", action = ArgAction::Append)]
    pub impersonate_groups: Vec<String>,

    /// UID to impersonate
    #[arg(long = "as-uid", global = true, value_name = "UID")]
    pub impersonate_uid: Option<String>,

    /// User extra to impersonate, as KEY=VALUE; may be repeated
    #[arg(
        long = "as-user-extra",
        global = true,
        value_name = "KEY=VALUE",
        action = ArgAction::Append,
        value_parser = key_value
    )]
    pub impersonate_extra: Vec<(String, String)>,

    /// Certificate authority file to verify the server's certificate
    #[arg(long, global = true, value_name = "FILE")]
    pub certificate_authority: Option<PathBuf>,

    /// Client certificate file for TLS
    #[arg(long, global = true, value_name = "FILE")]
    pub client_certificate: Option<PathBuf>,

    /// Client key file for TLS
    #[arg(long, global = true, value_name = "FILE")]
    pub client_key: Option<PathBuf>,

    /// Do not verify the server's certificate; the connection is then insecure
    #[arg(
        long,
        global = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL",
        value_parser = boolean
    )]
    pub insecure_skip_tls_verify: Option<bool>,

    /// Name to expect in the server's certificate, instead of the host in its address
    #[arg(long, global = true, value_name = "NAME")]
    pub tls_server_name: Option<String>,

    /// Timeout of a single request, such as 5s, 2m or 1h; 0 means no timeout
    ///
    /// A bare number means seconds. By default, a write times out after 30s, and a read after 70s
    /// without data.
    #[arg(
        long,
        global = true,
        value_name = "DURATION",
        value_parser = duration
    )]
    pub request_timeout: Option<Duration>,

    /// Do not request compressed responses from the server
    #[arg(
        long,
        global = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL",
        value_parser = boolean
    )]
    pub disable_compression: Option<bool>,

    /// Accepted for compatibility with kubectl and ignored; nothing is cached
    #[arg(long, global = true, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
}

/// Maximum silence of a server during a read, unless `--request-timeout` is set. By default, the API server
/// itself ends a request after a minute.
const SILENCE: Duration = Duration::from_secs(70);

impl Connection {
    /// Maximum silence of a server during a read; `None` if `--request-timeout` is set.
    pub fn silence(&self) -> Option<Duration> {
        Some(SILENCE).filter(|_| self.request_timeout.is_none())
    }

    /// Whether flags provide the credentials.
    pub fn authenticates(&self) -> bool {
        self.token.is_some() || self.client_certificate.is_some()
    }

    /// Maximum duration of one request; `None` means no limit.
    pub fn timeout(&self) -> Option<Duration> {
        self.request_timeout.filter(|t| !t.is_zero())
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// Parses the spellings of a Boolean that Go accepts.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// [`boolean`] for a flag that an environment variable can set as well: an empty variable counts as unset.
fn boolean_or_empty(text: &str) -> Result<bool, String> {
    if text.is_empty() { Ok(false) } else { boolean(text) }
}

/// Makes every plain flag also accept `=true` and `=false`, as in kubectl. If a flag that takes one value is
/// repeated, the last value counts.
pub fn with_boolean_values(tree: Command) -> Command {
    let spell = |flag: Arg| match (flag.get_action(), flag.get_env().is_some()) {
        (ArgAction::SetTrue, has_variable) => flag
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .value_name("true|false")
            .value_parser(if has_variable { boolean_or_empty } else { boolean })
            .default_value("false")
            .default_missing_value("true")
            .hide_default_value(true),
        _ => flag,
    };
    tree.args_override_self(true).mut_args(spell).mut_subcommands(with_boolean_values)
}

/// Parses a number of seconds, or a duration in Go's notation: `90s`, `5m`, `1h30m`, `250ms`.
pub fn duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    text.parse::<SignedDuration>()
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| "expected a duration such as 5s, 2m or 1h, or a number of seconds".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    #[command(args_override_self = true)]
    struct Cli {
        #[command(flatten)]
        connection: Connection,
    }

    fn parse(args: &[&str]) -> Connection {
        Cli::try_parse_from(std::iter::once(&"test").chain(args))
            .expect("flags that kubectl takes")
            .connection
    }

    #[test]
    fn the_last_of_a_repeated_flag_wins_and_lists_grow() {
        let args = [
            "--context=a",
            "--context",
            "b",
            "-n",
            "x",
            "-ny",
            "--as-group=p",
            "--as-group=q",
            "--as-user-extra=k=v=w",
        ];
        let expected = Connection {
            context: Some("b".into()),
            namespace: Some("y".into()),
            impersonate_groups: vec!["p".into(), "q".into()],
            impersonate_extra: vec![("k".into(), "v=w".into())],
            ..Connection::default()
        };
        assert_eq!(format!("{:?}", parse(&args)), format!("{expected:?}"));
    }

    #[test]
    fn booleans_are_spelled_as_in_kubectl() {
        let insecure = |args: &[&str]| parse(args).insecure_skip_tls_verify;
        assert_eq!(insecure(&[]), None);
        assert_eq!(insecure(&["--insecure-skip-tls-verify"]), Some(true));
        assert_eq!(insecure(&["--insecure-skip-tls-verify=false"]), Some(false));
        assert_eq!(insecure(&["--insecure-skip-tls-verify=T"]), Some(true));
    }

    #[test]
    fn a_token_never_shows() {
        let connection = parse(&["--token=hunter2"]);
        assert!(!format!("{connection:?}").contains("hunter2"));
    }

    #[derive(Debug, Parser)]
    struct Flags {
        #[arg(short, long)]
        force: bool,
        #[arg(long, conflicts_with = "force")]
        gently: bool,
        name: Option<String>,
    }

    fn flags(words: &str) -> Option<Flags> {
        let words = ["x"].into_iter().chain(words.split_whitespace());
        let matches = with_boolean_values(Flags::command()).try_get_matches_from(words);
        matches.ok().map(|m| Flags::from_arg_matches(&m).expect("it fits"))
    }

    #[test]
    fn a_plain_flag_is_spelled_in_all_ways() {
        for (words, force) in [
            ("", false),
            ("--force", true),
            ("-f", true),
            ("--force=true", true),
            ("--force=0", false),
            ("-f=F", false),
            ("--force --force=false", false),
            ("--force=false --force", true),
        ] {
            let cli = flags(words).unwrap_or_else(|| panic!("{words} does not parse"));
            assert_eq!((cli.force, cli.gently), (force, false), "{words}");
        }
        let cli = flags("--force name").expect("a name behind it is a name");
        assert_eq!((cli.force, cli.name.as_deref()), (true, Some("name")));
        for words in ["--force=yes", "--force=", "--force --gently"] {
            assert!(flags(words).is_none(), "{words}");
        }
    }

    #[test]
    fn durations_are_seconds_or_spelled_as_in_go() {
        let ms = |text| duration(text).map(|d| d.as_millis());
        assert_eq!(ms("0"), Ok(0));
        assert_eq!(ms("45"), Ok(45_000));
        assert_eq!(ms("90s"), Ok(90_000));
        assert_eq!(ms("1m30s"), Ok(90_000));
        assert_eq!(ms("1h2m3.5s"), Ok(3_723_500));
        assert_eq!(ms("250ms"), Ok(250));
        assert_eq!(ms("1.5h"), Ok(5_400_000));
        for wrong in ["", "-1", "-5s", "5x", "s", "soon", "1..5s", "5s3", "1e400h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
