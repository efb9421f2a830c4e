use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::cluster::{Cluster, Source};
use crate::commands::shared::command::command;
use crate::commands::shared::progress;
use crate::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::view::text::Text;
use crate::view::{View, document};

/// Show the versions of this plugin and of the operator
///
/// If the operator cannot be found, its version is shown as unknown, with the reason; this is not an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook version
  kubectl skyhook version --client-only")]
pub struct Args {
    /// Do not contact the cluster
    #[arg(long)]
    client_only: bool,

    /// How long to wait for the cluster; 0 waits forever
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = crate::args::connection::duration)]
    timeout: Duration,
}

command! {
    "version": Args => run,
    needs: [Source::Operator],
    prints: { "Version": Version },
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    let operator = if args.client_only { None } else { Some(ask(ctx, args.timeout).await) };
    ctx.show(&Version { plugin: Plugin { version: concat!("v", env!("CARGO_PKG_VERSION")) }, operator })?;
    Ok(Exit::Done)
}

async fn ask(ctx: &mut Ctx, timeout: Duration) -> Operator {
    match progress::load_within(ctx, &[Source::Operator], timeout).await {
        Ok(cluster) => Operator::of(&cluster),
        Err(error) => Operator { reason: Some(error.message), ..Operator::default() },
    }
}

/// The operator of the cluster.
#[derive(Default, Serialize, JsonSchema)]
struct Operator {
    /// The version of the operator; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// The namespace of the operator; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    /// The API group and version that the operator acts on; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    api: Option<String>,
    /// Why the version is unknown; absent if it is known.
    #[serde(rename = "unknownReason", skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The versions of this program and of the operator.
#[derive(Serialize, JsonSchema)]
pub struct Version {
    /// The plugin.
    plugin: Plugin,
    /// The operator; absent with `--client-only`.
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<Operator>,
}

/// The plugin.
#[derive(Serialize, JsonSchema)]
struct Plugin {
    /// The version of the plugin.
    version: &'static str,
}

impl Operator {
    fn of(cluster: &Cluster) -> Operator {
        let version = cluster.active_api.operator_version.as_ref().map(ToString::to_string);
        let deployment = cluster.operator().deployment();
        Operator {
            version,
            namespace: deployment.map(|d| d.namespace().to_owned()),
            api: Some(cluster.flavor().api_version()),
            reason: cluster.operator().why_no_version(),
        }
    }
}

impl View for Version {
    fn blocks(&self, _wide: bool) -> Text {
        let mut text = Text::new();
        text.line(format!("Skyhook plugin:   {}", self.plugin.version));
        if let Some(operator) = &self.operator {
            let unknown = || format!("unknown ({})", operator.reason.as_deref().unwrap_or_default());
            let version = operator.version.clone().unwrap_or_else(unknown);
            text.line(format!("Skyhook operator: {version}"));
            if let Some(api) = &operator.api {
                text.line(format!("API:              {api}"));
            }
        }
        text
    }

    fn names(&self) -> Vec<String> {
        vec![format!("version/{}", self.plugin.version)]
    }

    fn document(&self) -> Value {
        document("Version", self)
    }
}
