//! The flags that say which cluster to talk to and as whom: those of `kubectl`, all of them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};

/// Which cluster to talk to, and as whom.
///
/// Flags go before the kubeconfig. Where a flag that takes one value is given twice, the last wins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Connection options")]
pub struct Connection {
    /// Kubeconfig file to use, instead of those in KUBECONFIG or ~/.kube/config
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        overrides_with = "kubeconfig"
    )]
    pub kubeconfig: Option<PathBuf>,

    /// Kubeconfig context to use
    #[arg(long, global = true, value_name = "NAME", overrides_with = "context")]
    pub context: Option<String>,

    /// Kubeconfig cluster to use
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "NAME",
        overrides_with = "cluster"
    )]
    pub cluster: Option<String>,

    /// Kubeconfig user to use
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "NAME",
        overrides_with = "user"
    )]
    pub user: Option<String>,

    /// Namespace the operator runs in; normally found without it
    #[arg(
        short,
        long,
        global = true,
        value_name = "NAME",
        overrides_with = "namespace"
    )]
    pub namespace: Option<String>,

    /// Address and port of the Kubernetes API server
    #[arg(
        short,
        long,
        global = true,
        hide_short_help = true,
        value_name = "URL",
        overrides_with = "server"
    )]
    pub server: Option<String>,

    /// Bearer token to authenticate with
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "TOKEN",
        overrides_with = "token"
    )]
    pub token: Option<Token>,

    /// Username to impersonate
    #[arg(
        long = "as",
        global = true,
        hide_short_help = true,
        value_name = "USER",
        overrides_with = "impersonate"
    )]
    pub impersonate: Option<String>,

    /// Group to impersonate; may be repeated
    #[arg(long = "as-group", global = true, hide_short_help = true, value_name = "GROUP", action = ArgAction::Append)]
    pub impersonate_groups: Vec<String>,

    /// UID to impersonate
    #[arg(
        long = "as-uid",
        global = true,
        hide_short_help = true,
        value_name = "UID",
        overrides_with = "impersonate_uid"
    )]
    pub impersonate_uid: Option<String>,

    /// Extra of the user to impersonate, as KEY=VALUE; may be repeated
    #[arg(
        long = "as-user-extra",
        global = true, hide_short_help = true,
        value_name = "KEY=VALUE",
        action = ArgAction::Append,
        value_parser = key_value
    )]
    pub impersonate_extra: Vec<(String, String)>,

    /// Certificate authority file to check the server's certificate against
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "FILE",
        overrides_with = "certificate_authority"
    )]
    pub certificate_authority: Option<PathBuf>,

    /// Client certificate file for TLS
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "FILE",
        overrides_with = "client_certificate"
    )]
    pub client_certificate: Option<PathBuf>,

    /// Client key file for TLS
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "FILE",
        overrides_with = "client_key"
    )]
    pub client_key: Option<PathBuf>,

    /// Do not check the server's certificate; the connection is then open to interception
    #[arg(
        long,
        global = true, hide_short_help = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL",
        value_parser = go_bool,
        overrides_with = "insecure_skip_tls_verify"
    )]
    pub insecure_skip_tls_verify: Option<bool>,

    /// Name to expect in the server's certificate, instead of the host in its address
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "NAME",
        overrides_with = "tls_server_name"
    )]
    pub tls_server_name: Option<String>,

    /// How long one request may take, such as 5s, 2m or 1h; a bare number is seconds, 0 is for ever
    #[arg(
        long,
        global = true, hide_short_help = true,
        value_name = "DURATION",
        value_parser = duration,
        overrides_with = "request_timeout"
    )]
    pub request_timeout: Option<Duration>,

    /// Do not ask the server to compress what it sends
    #[arg(
        long,
        global = true, hide_short_help = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL",
        value_parser = go_bool,
        overrides_with = "disable_compression"
    )]
    pub disable_compression: Option<bool>,

    /// Taken for the sake of kubectl's users; nothing is cached
    #[arg(
        long,
        global = true,
        hide_short_help = true,
        value_name = "DIR",
        overrides_with = "cache_dir"
    )]
    pub cache_dir: Option<PathBuf>,
}

impl Connection {
    /// The time one request may take; `None` is for ever.
    pub fn timeout(&self) -> Option<Duration> {
        self.request_timeout.filter(|t| !t.is_zero())
    }
}

/// A bearer token. It shows itself in no output, not even in a debug one.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The token itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Token {
    fn from(text: String) -> Token {
        Token(text)
    }
}

impl From<&str> for Token {
    fn from(text: &str) -> Token {
        Token(text.to_owned())
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// Booleans as kubectl's flag library takes them.
fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

/// Durations as kubectl takes them: whole seconds, or Go's `1h2m3.5s`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a duration such as 5s, 2m or 1h, or a number of seconds".to_owned();
    if let Ok(seconds) = text.parse() {
        return Ok(Duration::from_secs(seconds));
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let (unit, scale) = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)]
            .into_iter()
            .find(|(unit, _)| tail.starts_with(unit))
            .ok_or_else(wrong)?;
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let part = Duration::try_from_secs_f64(number * scale).map_err(|_| wrong())?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = &tail[unit.len()..];
    }
    if text.is_empty() {
        Err(wrong())
    } else {
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
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
        assert_eq!(parse(&args), expected);
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
    fn durations_are_seconds_or_spelled_as_in_go() {
        let ms = |text| duration(text).map(|d| d.as_millis());
        assert_eq!(ms("0"), Ok(0));
        assert_eq!(ms("5"), Ok(5_000));
        assert_eq!(ms("1m30s"), Ok(90_000));
        assert_eq!(ms("250ms"), Ok(250));
        assert_eq!(ms("1.5h"), Ok(5_400_000));
        for wrong in ["", "-1", "5x", "s", "1..5s", "5s3", "1e400h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_token_never_shows() {
        let connection = parse(&["--token=hunter2"]);
        assert!(!format!("{connection:?}").contains("hunter2"));
    }
}
