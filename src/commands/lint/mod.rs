mod report;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::rc::Rc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use tokio::process::Command;

use super::shared::command::command;
use super::shared::mutes::{self, MuteFlags, NewMutes};
use super::shared::rule::FailOn;
use crate::api::{DeploymentPolicy, Skyhook, Version};
use crate::cluster::provenance::{applied as applied_object, changeable};
use crate::cluster::{Certainty, Cluster, Read, Source, decode_leniently, kubernetes};
use crate::ctx::{self, Ctx, unread as unread_sources};
use crate::error::{Error, Exit, Result};
use crate::lint::{
    self, Documents, Existence, Input, LintFinding, LintReport, Manifest, ManifestFile, ReferenceKind,
    References, Schemas, files,
};
use crate::model;
use crate::rules::Severity;
use crate::view::format::yaml;
use crate::view::text::{self, Label, Text};
use report::LintView;

/// Check manifests before they are applied
///
/// An error means that the API server, the webhook or the operator would refuse the object; a warning means
/// that the object would be accepted but does harm. Objects of other kinds are skipped.
///
/// The manifests are checked against the cluster of the kubeconfig, or a capture with --from, and the report
/// shows what the operator will do once they are applied: which stages run on which nodes, how many at once,
/// and what they evict. Without a kubeconfig or with --offline, this and the checks that require a cluster
/// are skipped.
///
/// Secrets and config maps that packages take variables from are looked up in the operator's namespace; of
/// Secrets only the existence is read. If that is not permitted, a warning reports that they were not
/// checked.
///
/// A comment suppresses a finding in the field below or beside it: `# kubectl-skyhook: allow SKY840 reason`.
/// The annotation kubectl-skyhook/mutes and --mutes do the same. The file .skyhook-lint.yaml in a directory
/// above the manifests sets severities, excluded files and the version of the operator. See docs/lint.md.
///
/// Exits with 2 if there is a finding at or above --fail-on, otherwise with 1 if the cluster could not be
/// read.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  kubectl skyhook lint -f gpu-tune.yaml

  # A Helm chart or a kustomization, without a cluster
  helm template CHART | kubectl skyhook lint --offline -f -
  kubectl skyhook lint --offline -k DIRECTORY

  # What changes in the cluster
  kubectl skyhook lint -f gpu-tune.yaml --diff

  # Findings for a script; .severity is Error, Warning or Info
  kubectl skyhook lint --offline -f deploy/ -o json | jq -r '.findings[] | select(.severity==\"Warning\") | .code'

  # In CI: a report for code scanning or of tests, and exit code 2 for warnings, too
  kubectl skyhook lint --offline -f deploy/ --fail-on warning -o sarif > lint.sarif
  kubectl skyhook lint --offline -f deploy/ --fail-on warning -o junit > lint.xml")]
pub struct Args {
    /// Files, directories, or - for standard input; may be repeated
    ///
    /// Directories are read recursively: all .yaml, .yml and .json files. Patches of a kustomization and
    /// documents of other programs are skipped.
    #[arg(short = 'f', long = "filename", value_name = "FILE", required_unless_present = "kustomize", num_args = 1..)]
    files: Vec<PathBuf>,

    /// Kustomization to build with kubectl; may be repeated
    ///
    /// Lines in the report are those of `kubectl kustomize DIR`.
    #[arg(short = 'k', long, value_name = "DIR", num_args = 1..)]
    kustomize: Vec<PathBuf>,

    /// Directory with the manifests of one cluster; may be repeated
    ///
    /// Manifests of different clusters neither collide nor satisfy each other's references. Each
    /// kustomization, with its bases, and each chart counts as a root by default.
    #[arg(long = "root", value_name = "DIR")]
    roots: Vec<PathBuf>,

    /// Do not connect to a cluster
    #[arg(long)]
    offline: bool,

    /// Show how each custom resource in the cluster changes
    #[arg(long)]
    diff: bool,

    /// Also ask the server whether it accepts the objects, without storing them
    ///
    /// Needs the rights to get, create and patch the objects, which the roles of `rbac` for lint do not include.
    #[arg(long, conflicts_with = "offline")]
    server_dry_run: bool,

    /// The version of the operator, such as v0.17.0; default: that of the cluster
    #[arg(long, value_name = "VERSION", value_parser = version)]
    operator_version: Option<Version>,

    /// Minimum severity of findings that cause exit code 2
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = FailOn::Error, ignore_case = true)]
    fail_on: FailOn,

    #[command(flatten)]
    mutes: MuteFlags,

    #[command(flatten)]
    new_mutes: NewMutes,
}

/// The sources that rules may use.
const NEEDS: [Source; 10] = [
    Source::Skyhooks,
    Source::Legacy,
    Source::Policies,
    Source::Nodes,
    Source::Pods,
    Source::Workloads,
    Source::Jobs,
    Source::DisruptionBudgets,
    Source::Operator,
    Source::ConfigMaps,
];

command! {
    "lint": Args => run,
    needs: NEEDS,
    gets: &[("apiextensions.k8s.io", "customresourcedefinitions"), ("", "configmaps")],
    optional_gets: &[("", "secrets")],
    prints: { "Lint": report::Document<'static> },
}

fn version(text: &str) -> std::result::Result<Version, String> {
    Version::parse(text).ok_or_else(|| "expected a version such as v0.17.0".to_owned())
}

async fn run(ctx: &mut Ctx, args: &Args) -> Result<Exit> {
    if args.offline && !ctx.global().reading.from.is_empty() {
        return Err(Error::usage("--offline and --from are mutually exclusive"));
    }
    if args.server_dry_run && !ctx.global().reading.from.is_empty() {
        return Err(Error::usage("--server-dry-run and --from are mutually exclusive"));
    }
    let new_mutes = args.new_mutes.target(ctx)?;
    let mut files = files::read(&args.files, &args.roots)?;
    for directory in &args.kustomize {
        let path = directory.display().to_string();
        let file = ManifestFile { path, text: build(directory).await?, is_part: false };
        files.roots.push(files::of_text(directory, file)?);
    }
    for link in &files.dangling {
        ctx.warn(format!("{link} was skipped: the target of the link does not exist"));
    }
    let mutes = args.mutes.read(ctx)?;
    let parsed: Vec<_> = files.roots.iter().map(|root| Documents::parse(&root.files)).collect();
    let (mut cluster, mut unread) = cluster(ctx, args.offline).await?;
    if let Some(cluster) = &mut cluster {
        if args.operator_version.is_some() {
            cluster.active_api.operator_version.clone_from(&args.operator_version);
            cluster.active_api.other_versions.clear();
        }
        let nodes = interrupted_nodes(&parsed, cluster);
        ctx.read_workloads(cluster, nodes).await;
    }
    if args.diff && cluster.is_none() {
        return Err(Error::failed("--diff requires a cluster, or a capture with --from"));
    }
    if args.server_dry_run && cluster.is_none() {
        return Err(Error::failed("--server-dry-run requires a cluster"));
    }
    let wanted = parsed.iter().flat_map(Documents::referenced).collect();
    let references = match &cluster {
        Some(cluster) => Rc::new(read(ctx, cluster, wanted).await),
        None => Rc::default(),
    };
    let mut schemas = Schemas::default();
    if let Some(cluster) = &cluster {
        for (source, why) in unread_sources(cluster, &NEEDS) {
            ctx.warn(format!("cannot read {source}: {why}; checks that require it were skipped"));
            unread = true;
        }
        let definitions = ctx.definitions(cluster).await;
        schemas = Schemas::of(definitions.items());
        for unchecked in schemas.unchecked(parsed.iter().flat_map(|documents| &documents.manifests)) {
            ctx.warn(unchecked);
        }
        if let Some(why) = definitions.unread() {
            ctx.warn(format!("the CRDs could not be read ({why}); using the built-in schemas"));
            unread = true;
        }
    }
    let now = cluster.as_ref().map_or_else(ctx::now, |cluster| cluster.taken_at);
    let mut checked = Vec::new();
    for (documents, root) in parsed.into_iter().zip(&files.roots) {
        let mut input = Input::new(documents, cluster.as_ref(), args.operator_version.clone(), &schemas)
            .with_settings(&root.config, mutes.clone(), now);
        input.references = Rc::clone(&references);
        let mut report = lint::lint(&input);
        if args.server_dry_run {
            unread |= report::read(ctx, &mut input, &report).await;
            report = lint::lint(&input);
        }
        let applied = applied(&input, &report);
        checked.push((input, report, applied));
    }
    let (mut report, mut effects, mut changes) = (LintReport::default(), Vec::new(), Vec::new());
    for (input, own, applied) in &checked {
        let all = cluster
            .as_ref()
            .zip(applied.as_ref())
            .map(|(live, (applied, names))| model::effects(live, applied, names))
            .unwrap_or_default();
        let (unknown, known): (Vec<_>, Vec<_>) = all.into_iter().partition(|e| e.unread.is_some());
        for (skyhook, source) in unknown.iter().filter_map(|e| Some((e.skyhook, e.unread?))) {
            ctx.warn(format!("the effects of {skyhook} are unknown without {source}"));
        }
        let mut own = own.clone();
        own.add_effects(input, &known);
        report.merge(own);
        effects.extend(known);
        if args.diff {
            changes.extend(object_changes(input));
        }
    }
    let failing: Vec<&LintFinding> =
        report.open().filter(|finding| args.fail_on.includes(finding.severity)).collect();
    let failed = !failing.is_empty();
    if let Some(file) = &new_mutes {
        let mut known: Vec<Value> = failing.iter().map(|finding| finding.mute(now).entry()).collect();
        known.dedup();
        mutes::write(ctx, file, &known)?;
    }
    ctx.show(&LintView {
        report: &report,
        cluster: cluster.as_ref(),
        excluded: files.excluded,
        changes,
        effects,
        fail_on: args.fail_on,
        annotated: ctx.variable("GITHUB_ACTIONS").is_some_and(|value| value == "true"),
    })?;
    Ok(match (failed, unread) {
        (true, _) => Exit::Findings,
        (false, true) => Exit::Failed,
        (false, false) => Exit::Done,
    })
}

/// The cluster to check against, and whether reading it failed.
async fn cluster(ctx: &mut Ctx, offline: bool) -> Result<(Option<Cluster>, bool)> {
    if offline {
        return Ok((None, false));
    }
    match ctx.load_if_configured(&NEEDS).await {
        Ok(cluster) => Ok((cluster, false)),
        // A named capture must be readable.
        Err(error) if !ctx.global().reading.from.is_empty() => Err(error),
        Err(error) => {
            ctx.warn(format!("checking without a cluster, as with --offline: {}", error.message));
            Ok((None, true))
        }
    }
}

/// The nodes that the manifests may drain: nodes of custom resources with interrupts, and of custom resources
/// that use the manifests' policies.
fn interrupted_nodes(documents: &[Documents], cluster: &Cluster) -> BTreeSet<String> {
    let manifests = || documents.iter().flat_map(|documents| &documents.manifests);
    let policies: Vec<&str> = manifests()
        .filter(|manifest| manifest.policy().is_some())
        .map(|manifest| manifest.name.as_str())
        .collect();
    let users = cluster.skyhooks.iter().filter(|s| policies.contains(&s.spec.deployment_policy.as_str()));
    let interrupts = |skyhook: &&Skyhook| {
        skyhook.packages().any(|(_, p)| p.interrupt.is_some() || !p.config_interrupts.is_empty())
    };
    let skyhooks: Vec<&Skyhook> =
        manifests().filter_map(Manifest::skyhook).chain(users).filter(interrupts).collect();
    let selected = cluster.nodes.iter().filter(|node| skyhooks.iter().any(|s| s.selects(node)));
    selected.map(|node| node.name.to_string()).collect()
}

/// The valid manifests of the active API.
struct Accepted<'i> {
    /// The resulting objects: manifests merged into the objects of the cluster.
    skyhooks: Vec<Skyhook>,
    policies: Vec<&'i DeploymentPolicy>,
}

impl<'i> Accepted<'i> {
    fn of(input: &'i Input<'_>, report: &LintReport) -> Accepted<'i> {
        // A capture without custom resources does not show the active API.
        let flavor =
            input.cluster.filter(|c| !c.from_files || !c.skyhooks.items().is_empty()).map(Cluster::flavor);
        let refused = |manifest: &Manifest| {
            let mut errors = report.open().filter(|f| f.severity == Severity::Error);
            let own = |f: &LintFinding| (&f.file, &f.subject.name) == (&manifest.file, &manifest.name);
            flavor.is_some() && manifest.flavor() != flavor || errors.any(own)
        };
        let skyhooks = input.skyhooks().filter(|(manifest, _)| !refused(manifest));
        let policies = input.policies().filter(|(manifest, _)| !refused(manifest));
        Accepted {
            skyhooks: skyhooks.map(|(manifest, skyhook)| merged(input, manifest, skyhook)).collect(),
            policies: policies.map(|(_, policy)| policy).collect(),
        }
    }
}

/// A manifest merged into the live object, if there is one.
fn merged(input: &Input<'_>, manifest: &Manifest, skyhook: &Skyhook) -> Skyhook {
    let object = input.live(manifest).map(|live| applied_object(live, &manifest.value));
    object.and_then(|object| decode_leniently(object).ok()).unwrap_or_else(|| skyhook.clone())
}

/// The cluster after the manifests are applied, and the affected custom resources: they are in the manifests,
/// or use a policy in the manifests. `None` without a cluster, or if its package runs were not read.
pub fn applied(input: &Input<'_>, report: &LintReport) -> Option<(Cluster, Vec<String>)> {
    let cluster = input.cluster?;
    if cluster.certainty_of_no_package_run() == Certainty::Unknown {
        return None;
    }
    let accepted = Accepted::of(input, report);
    let own: Vec<String> = accepted.skyhooks.iter().map(|skyhook| skyhook.name().to_owned()).collect();
    let policies: Vec<&str> = accepted.policies.iter().map(|p| p.metadata.name.as_str()).collect();
    let mut applied =
        cluster.with_applied(accepted.skyhooks, accepted.policies.iter().copied().cloned().collect());
    if applied.config_maps.ok().is_none() {
        // Assume that the operator has created the ConfigMaps of the live spec.
        let of_packages = cluster.skyhooks.iter().flat_map(|skyhook| {
            skyhook
                .packages()
                .filter(|(_, package)| !package.config_map.is_empty())
                .map(|(name, package)| kubernetes::of_package(cluster.flavor(), skyhook, name, package))
        });
        applied.config_maps = Read::Ok(of_packages.collect());
    }
    let concerned = applied.skyhooks.iter().filter(|skyhook| {
        let policy = skyhook.spec.deployment_policy.as_str();
        own.iter().any(|name| name == skyhook.name()) || policies.contains(&policy)
    });
    let concerned = concerned.map(|skyhook| skyhook.name().to_owned()).collect();
    Some((applied, concerned))
}

/// Looks up the objects in the operator's namespace, and warns about those that cannot be checked.
async fn read(ctx: &mut Ctx, cluster: &Cluster, wanted: BTreeSet<(ReferenceKind, String)>) -> References {
    let mut references = References::default();
    let namespaces = cluster.operator().namespaces();
    let namespace = namespaces.first().copied().unwrap_or_default();
    for (kind, name) in wanted {
        let why = if namespaces.len() != 1 {
            "the namespace of the operator is unknown".to_owned()
        } else if cluster.from_files {
            match captured(cluster, kind, namespace, &name) {
                Some(existence) => {
                    references.known.insert((kind, name), existence);
                    continue;
                }
                None => format!("the capture contains no {kind} of namespace {namespace}"),
            }
        } else {
            match existence(ctx, kind, namespace, &name).await {
                Read::Ok(existence) => {
                    references.known.insert((kind, name), existence);
                    continue;
                }
                Read::Incomplete(_, why) | Read::Unreadable(why) => why.to_string(),
                Read::NotRequested => "not read".to_owned(),
            }
        };
        ctx.warn(format!("{kind} {name} was not checked: {why}"));
    }
    namespace.clone_into(&mut references.namespace);
    references
}

/// Whether the object exists in a capture; `None` if the capture has no object of this kind in the namespace.
fn captured(cluster: &Cluster, kind: ReferenceKind, namespace: &str, name: &str) -> Option<Existence> {
    let objects = cluster.installation.key_maps.ok()?.iter();
    let mut same = objects
        .filter(|object| {
            object.kind == kind.to_string() && object.metadata.namespace.as_deref() == Some(namespace)
        })
        .peekable();
    same.peek()?;
    let found = same.find(|object| object.metadata.name == name);
    Some(found.map_or(Existence::Absent, |object| {
        Existence::Present(Some(object.keys().map(str::to_owned).collect()))
    }))
}

async fn existence(ctx: &Ctx, kind: ReferenceKind, namespace: &str, name: &str) -> Read<Existence> {
    match kind {
        ReferenceKind::Secret => {
            let exists = ctx.has_secret(namespace, name).await;
            exists.map(|exists| if exists { Existence::Present(None) } else { Existence::Absent })
        }
        ReferenceKind::ConfigMap => {
            let keys = ctx.config_map_keys(namespace, name).await;
            keys.map(|keys| keys.map_or(Existence::Absent, |keys| Existence::Present(Some(keys))))
        }
    }
}

/// The manifests that `kubectl kustomize DIRECTORY` prints.
///
/// # Errors
///
/// kubectl is not on the PATH, or does not build the kustomization.
async fn build(directory: &Path) -> Result<String> {
    let name = directory.display();
    let mut command = Command::new("kubectl");
    command.arg("kustomize").arg(directory).stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.map_err(|error| {
        let hint =
            format!("-k requires kubectl; or build {name} with kustomize and lint its output with -f -");
        Error::failed(format!("cannot run kubectl: {}", crate::error::plain_reason(&error))).hint(hint)
    })?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        return Err(Error::failed(format!("cannot build {name}: {}", reason.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Labels, annotations and spec of a custom resource before and after its manifest is applied.
#[derive(Debug, Serialize, JsonSchema)]
struct ObjectChange {
    /// The kind of the custom resource.
    kind: String,
    /// The name of the custom resource.
    name: String,
    /// The path of the manifest's file, or `stdin`.
    file: String,
    /// The object in the cluster; absent if it does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Value>,
    /// The object after the manifest is applied.
    after: Value,
}

/// The custom resources that are created or changed.
fn object_changes(input: &Input<'_>) -> Vec<ObjectChange> {
    let changes = input.skyhooks().filter_map(|(manifest, _)| {
        let (before, after) = match input.live(manifest) {
            Some(live) => (Some(changeable(&live.whole)), changeable(&applied_object(live, &manifest.value))),
            None => (None, changeable(&manifest.value)),
        };
        (before.as_ref() != Some(&after)).then(|| ObjectChange {
            kind: manifest.kind.clone(),
            name: manifest.name.clone(),
            file: manifest.file.clone(),
            before,
            after,
        })
    });
    changes.collect()
}

/// The changes as unified diffs.
fn diff_text(changes: &[ObjectChange]) -> Text {
    let mut body = Text::new();
    for change in changes {
        let object = format!("{}/{}", change.kind.to_lowercase(), change.name);
        let lines = |value: &Value| yaml(value).unwrap_or_default();
        let (verb, before) = match &change.before {
            Some(before) => ("changes", lines(before)),
            None => ("is created", String::new()),
        };
        body.blank().line(text::heading(format!("{object} {verb}")));
        let after = lines(&change.after);
        let diff = TextDiff::from_lines(&before, &after);
        for (number, group) in diff.grouped_ops(3).iter().enumerate() {
            if number > 0 {
                body.line(text::dim("  ..."));
            }
            for line in group.iter().flat_map(|op| diff.iter_changes(op)) {
                let (sign, label) = match line.tag() {
                    ChangeTag::Delete => ("-", Label::Error),
                    ChangeTag::Insert => ("+", Label::Good),
                    ChangeTag::Equal => (" ", Label::Plain),
                };
                body.line(label.span(format!("{sign} {}", line.value().trim_end_matches('\n'))));
            }
        }
    }
    body
}
