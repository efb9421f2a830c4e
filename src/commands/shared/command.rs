//! The properties of a command beyond its arguments, and the macros that declare commands and groups of commands.

use futures::future::LocalBoxFuture;

use crate::args::safety::Safety;
use crate::cluster::{Cluster, NamedNodes, NodeFields, Source};
use crate::ctx::{Ctx, OutcomeDocument};
use crate::error::{Exit, Result};
use crate::plan::Plan;
use crate::view::preview::Document as PlanDocument;
use crate::view::schema::Published;

/// One command: its words, sources, writes and documents.
#[derive(Debug)]
pub struct CommandInfo {
    /// The words after `kubectl skyhook`, such as `node status`.
    pub words: &'static str,
    /// The sources that the command may read; a single run may need fewer, depending on its arguments.
    pub needs: fn() -> Vec<Source>,
    /// The node fields that the command may need; a single run may need fewer, depending on its arguments.
    pub node_fields: NodeFields,
    /// Further resources that the command gets: API group, and plural with the subresource.
    pub gets: &'static [(&'static str, &'static str)],
    /// Sensitive resources that the command gets if permitted: only `rbac --for COMMAND` grants them, not the general
    /// roles.
    pub optional_gets: &'static [(&'static str, &'static str)],
    /// Further resources that the command lists.
    pub lists: &'static [(&'static str, &'static str)],
    /// The sources that the command also watches.
    pub watches: &'static [Source],
    /// The kinds of changes in the command's plans.
    pub writes: &'static [Write],
    /// Whether the command writes only with a flag.
    pub writes_only_with_flag: bool,
    /// The documents of the command, except those of plans; see [`CommandInfo::documents`].
    pub prints: &'static [Published],
}

/// A kind of change that the plans of a command may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Annotations, labels and cordons of nodes.
    Nodes,
    NodeConditions,
    /// Annotations, spec and finalizers of custom resources.
    Skyhooks,
    SkyhookStatus,
    DeleteSkyhooks,
    CreateSkyhooks,
    DeletePolicies,
    CreatePolicies,
    DeletePods,
    DeleteJobs,
    DeleteConfigMaps,
    CreateConfigMaps,
}

impl Write {
    pub const ALL: &[Write] = &[
        Write::Nodes,
        Write::NodeConditions,
        Write::Skyhooks,
        Write::SkyhookStatus,
        Write::DeleteSkyhooks,
        Write::CreateSkyhooks,
        Write::DeletePolicies,
        Write::CreatePolicies,
        Write::DeletePods,
        Write::DeleteJobs,
        Write::DeleteConfigMaps,
        Write::CreateConfigMaps,
    ];
}

/// The kinds of changes of a reset. A reset also restarts batches, clears the conditions of deleted custom resources,
/// and deletes failing pods that would record their state again.
pub const WRITES_OF_RESET: &[Write] =
    &[Write::Nodes, Write::NodeConditions, Write::Skyhooks, Write::SkyhookStatus, Write::DeletePods];

/// The preview of a plan.
const PLAN: Published = Published::of::<PlanDocument>("Plan");
/// The result of a plan.
const OUTCOME: Published = Published::of::<OutcomeDocument>("Outcome");

impl CommandInfo {
    /// A command without a cluster and without documents.
    pub const fn offline(words: &'static str) -> CommandInfo {
        CommandInfo {
            words,
            needs: Vec::new,
            node_fields: NodeFields::All,
            gets: &[],
            optional_gets: &[],
            lists: &[],
            watches: &[],
            writes: &[],
            writes_only_with_flag: false,
            prints: &[],
        }
    }

    /// Whether the command changes nothing.
    pub fn only_reads(&self) -> bool {
        self.writes.is_empty()
    }

    /// Whether the command connects to a cluster.
    pub fn is_online(&self) -> bool {
        !(self.only_reads() && (self.needs)().is_empty())
    }

    /// The documents that the command prints with `-o json`.
    pub fn documents(&self) -> impl Iterator<Item = Published> {
        self.prints.iter().copied().chain([PLAN, OUTCOME].into_iter().filter(|_| !self.only_reads()))
    }
}

/// The arguments of a command or of a group of commands.
pub trait Run {
    /// The command, or all commands of the group.
    fn all() -> Vec<&'static CommandInfo>;

    /// The selected command.
    fn info(&self) -> &'static CommandInfo;

    /// The command's plan for a cluster, for `fix`, which merges several plans, and for the grades of remedies; `None` for
    /// commands that are no remedies.
    fn plan(&self, _cluster: &Cluster) -> Option<Result<Plan>> {
        None
    }

    /// Runs the command. The future is on the heap: on the stack it would have the size of the largest command.
    fn run<'a>(&'a self, ctx: &'a mut Ctx) -> LocalBoxFuture<'a, Result<Exit>>;
}

/// Runs a command that loads its sources, plans a change and executes it. `named`: the only nodes to read, if they are few;
/// `required`: the sources without which nothing can be planned.
///
/// # Errors
///
/// A required source cannot be read, or the change is refused.
pub async fn change(
    ctx: &mut Ctx,
    args: &impl Run,
    named: Option<NamedNodes>,
    required: &[Source],
    safety: &Safety,
) -> Result<Exit> {
    let needs = (args.info().needs)();
    let cluster = ctx.limit_to(named).load_to_change(&needs, required).await?;
    let plan = args.plan(&cluster).expect("the command has a plan")?;
    ctx.execute(&cluster, plan, safety).await
}

/// Declares a command: its words, its arguments and the function that runs it; then the fields of [`CommandInfo`] that
/// differ from [`CommandInfo::offline`].
macro_rules! command {
    ($words:literal: $args:ty => $run:expr
     $(, needs: $needs:expr)?
     $(, node_fields: $node_fields:expr)?
     $(, gets: $gets:expr)?
     $(, optional_gets: $optional_gets:expr)?
     $(, lists: $lists:expr)?
     $(, watches: $watches:expr)?
     $(, writes: $writes:expr)?
     $(, writes_only_with_flag: $writes_only_with_flag:expr)?
     $(, plans: $plans:expr)?
     $(, prints: { $($kind:literal: $document:ty),+ })?
     $(,)?) => {
        const _: () = {
            use $crate::commands::shared::command::declared::*;

            impl Run for $args {
                fn all() -> Vec<&'static CommandInfo> {
                    static INFO: CommandInfo = CommandInfo {
                        $(needs: || $needs.to_vec(),)?
                        $(node_fields: $node_fields,)?
                        $(gets: $gets,)?
                        $(optional_gets: $optional_gets,)?
                        $(lists: $lists,)?
                        $(watches: $watches,)?
                        $(writes: $writes,)?
                        $(writes_only_with_flag: $writes_only_with_flag,)?
                        $(prints: &[$(Published::of::<$document>($kind)),+],)?
                        ..CommandInfo::offline($words)
                    };
                    vec![&INFO]
                }

                fn info(&self) -> &'static CommandInfo {
                    <$args>::all()[0]
                }

                $(
                    fn plan(&self, cluster: &Cluster) -> Option<Result<Plan>> {
                        Some(($plans)(cluster, self))
                    }
                )?

                fn run<'a>(&'a self, ctx: &'a mut Ctx) -> LocalBoxFuture<'a, Result<Exit>> {
                    Box::pin(($run)(ctx, self))
                }
            }
        };
    };
}

/// Declares a group of commands, as the enum that clap parses.
macro_rules! group {
    ($(#[$about:meta])* $group:ident { $($(#[$attribute:meta])* $name:ident($args:ty),)+ }) => {
        $(#[$about])*
        #[derive(Debug, clap::Subcommand)]
        pub enum $group {
            $($(#[$attribute])* $name($args)),+
        }

        const _: () = {
            use $crate::commands::shared::command::declared::*;

            impl Run for $group {
                fn all() -> Vec<&'static CommandInfo> {
                    [$(<$args>::all()),+].concat()
                }

                fn info(&self) -> &'static CommandInfo {
                    match self {
                        $($group::$name(args) => args.info()),+
                    }
                }

                fn plan(&self, cluster: &Cluster) -> Option<Result<Plan>> {
                    match self {
                        $($group::$name(args) => args.plan(cluster)),+
                    }
                }

                fn run<'a>(&'a self, ctx: &'a mut Ctx) -> LocalBoxFuture<'a, Result<Exit>> {
                    match self {
                        $($group::$name(args) => args.run(ctx)),+
                    }
                }
            }
        };
    };
}

/// The names in the code of the macros.
pub mod declared {
    pub use super::{CommandInfo, Run};
    pub use crate::cluster::Cluster;
    pub use crate::ctx::Ctx;
    pub use crate::error::{Exit, Result};
    pub use crate::plan::Plan;
    pub use crate::view::schema::Published;
    pub use futures::future::LocalBoxFuture;
}

pub(crate) use {command, group};
