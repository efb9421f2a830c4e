//! Why a change is refused before it begins: every reason, with its message and hints, by the moment at which it is
//! checked.

use crate::error::{Error, Exit};

/// When a refusal is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// While the change is planned, before anything is shown.
    Planning,
    /// With the preview, when the question is asked or a limit is checked.
    Question,
    /// After the answer, when the cluster is read again.
    Confirmed,
    /// Before a local file is written.
    LocalFile,
}

impl Moment {
    pub fn words(self) -> &'static str {
        match self {
            Moment::Planning => "while planning",
            Moment::Question => "at the confirmation prompt",
            Moment::Confirmed => "after the confirmation",
            Moment::LocalFile => "before a local file is written",
        }
    }
}

/// Declares [`Refusal`]. Messages and hints name the fields; empty hints are dropped.
macro_rules! refusals {
    ($($moment:ident { $(#[doc = $doc:literal] $name:ident { $($field:ident),* } $message:literal
        [$($hint:literal),*];)+ })+) => {
        /// A reason to refuse a change.
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum Refusal {
            $($(#[doc = $doc] $name { $($field: String),* },)+)+
        }

        impl Refusal {
            /// Every reason, in the order of the moments: the moment, the reason, and the message with its fields.
            pub const ALL: &[(Moment, &str, &str)] = &[$($((Moment::$moment, $doc, $message),)+)+];
        }

        impl From<Refusal> for Error {
            fn from(refusal: Refusal) -> Error {
                match refusal {
                    $($(Refusal::$name { $($field),* } => {
                        refused(Moment::$moment, format!($message), vec![$(format!($hint)),*])
                    })+)+
                }
            }
        }
    };
}

fn refused(moment: Moment, mut message: String, mut hints: Vec<String>) -> Error {
    if moment != Moment::LocalFile {
        message += "; nothing was changed";
    }
    hints.retain(|hint| !hint.is_empty());
    Error { exit: Exit::Refused, message, hints }
}

refusals! {
    Planning {
        /// The custom resource exists only in the older API, so the operator does not act on it.
        Unmigrated { name, old, new }
            "{name} exists only as a {old} object and has not been migrated to {new} yet, so the operator does not act on it"
            ["kubectl skyhook diagnose stuck"];
        /// Unfinished objects of the older API hold the operator.
        HeldByOlderApi { kind, names, remedy }
            "the operator does nothing until these {kind} objects of the older API are finished or gone: {names}"
            ["{remedy}", "kubectl skyhook explain SKY601",
             "use --force to make the change anyway; the change takes effect once nothing blocks the operator"];
        /// A pod of the older operator may still run for the custom resource, but the pods cannot be read.
        OlderPodsUnknown { why, name }
            "pods cannot be read ({why}), so it is unknown whether a pod of the older operator is still running for {name}"
            ["use --force to proceed anyway"];
        /// A pod of the older operator still runs for the custom resource.
        OlderPodsRun { name, which, command }
            "pods of the older operator are still running for {name}: {which}; after `{command}`, a second pod would modify the same host"
            ["wait until these pods end, or delete them; use --force to proceed anyway"];
        /// Stages of a deleted custom resource still run, and would record their outcome again.
        StagesOfDeleted { name, nodes }
            "{name} no longer exists, but its stages still run on {nodes}: the operator would record their outcome there again"
            ["end the stages and remove the state: kubectl skyhook leftovers {name} --clean --purge-state",
             "or use --force to proceed although they run"];
        /// The change needs a pause, after which failed Jobs on other nodes would never be retried.
        PauseHidesFailures { nodes, include }
            "a job has failed permanently on {nodes}: a pause makes the operator set the status there to `waiting`, and it never \
             retries the stage"
            ["use {include} to include the nodes whose job has failed permanently", "use --no-pause to proceed without a pause"];
        /// Another command has paused the custom resource and may still be running.
        PausedByCommand { reference, holder, end, command }
            "{reference} is paused by {holder}"
            ["wait until that command ends; {end}: {command}"];
        /// The package alone would be skipped by this version of the operator.
        WouldBeSkipped { package, nodes, skyhook, node }
            "rerunning {package} alone would leave it unscheduled on {nodes}: this operator version skips \
             packages without dependencies once complete packages outnumber them (SKY209)"
            ["reset all packages there: kubectl skyhook reset {skyhook} --node {node}"];
        /// The operator works on the objects and node keys of the other API.
        OtherApi { version, asked, other }
            "operator {version} acts on {other} objects and ignores {asked} objects, so the effects of this change are unknown"
            ["omit --api"];
        /// The state of a node cannot be read, so whether the package is recorded there is not known.
        UnreadableState { nodes, skyhook }
            "the state of {skyhook} on {nodes} cannot be read"
            ["restore it first, or leave the node out: kubectl skyhook reset {skyhook} --unreadable"];
        /// The status has no copy of an unreadable node state.
        NoCopyOfState { skyhook, node }
            "the status of {skyhook} has no copy of the state of {node}"
            ["kubectl skyhook reset {skyhook} --node {node}"];
        /// A rerun from stage interrupt would interrupt the node before its drain.
        RerunAtInterrupt {}
            "a rerun cannot start at stage interrupt: the operator would interrupt the node before cordoning and draining it"
            [];
        /// A rerun from stage post-interrupt would run apply.
        RerunAtPostInterrupt {}
            "a rerun cannot start at stage post-interrupt: the operator would run apply again"
            [];
        /// A rerun runs no uninstall stages.
        RerunOfUninstall {}
            "a rerun cannot run uninstall stages"
            ["kubectl skyhook uninstall --help"];
        /// The package is at an uninstall stage.
        AtUninstall { package, nodes, skyhook, node }
            "{package} is at an uninstall stage on {nodes}, and a rerun cannot run uninstall stages"
            ["kubectl skyhook package retry {package} --skyhook {skyhook} --node {node}",
             "kubectl skyhook reset {skyhook} --node {node} --package {package}"];
        /// The package is to be uninstalled, and would count as uninstalled without its record.
        WouldCountAsUninstalled { package, skyhook, node }
            "{package} is to be uninstalled: after a rerun, the operator would consider {package} uninstalled and not run it"
            ["kubectl skyhook package retry {package} --skyhook {skyhook} --node {node}",
             "kubectl skyhook reset {skyhook} --node {node} --package {package}"];
        /// The custom resource is being deleted, so the package does not run again.
        NoRerunWhileDeleted { reference, package, skyhook }
            "{reference} is being deleted, so the operator does not run {package} again"
            ["kubectl skyhook status {skyhook}"];
        /// The package is recorded on none of the nodes.
        NotRecorded { package }
            "{package} is not recorded on any of these nodes"
            [];
        /// The pod or Job of the package is not the operator's.
        NotOfTheOperator { run, verdict, why }
            "{run} is {verdict} ({why}); not deleted"
            [];
        /// The operator handles the stage and state differently than their names suggest.
        MisleadingState { why }
            "{why}"
            ["use --force to set this state anyway"];
        /// The finalizers of others block the deletion before which the object cannot be recreated.
        FinalizersOfOthers { finalizers, reference, resource, name }
            "third-party finalizers ({finalizers}) block the deletion of {reference}, which cannot be recreated until it is gone"
            ["kubectl get {resource} {name} -o yaml > {name}.yaml",
             "once the object is gone: kubectl skyhook undelete {name} -f {name}.yaml"];
        /// The custom resource definition is being deleted.
        DefinitionDeleted { definition, reference }
            "the CRD {definition} is being deleted, so {reference} cannot be recreated"
            [];
        /// The CustomResourceDefinitions cannot be read: if one is being deleted, nothing can be recreated.
        DefinitionUnread { why, reference }
            "CustomResourceDefinitions cannot be read ({why}), so it is unknown whether {reference} can be recreated"
            ["kubectl skyhook rbac --for undelete"];
        /// Between deletion and recreation only the journal has the object.
        JournalRequired {}
            "--no-journal cannot be used: between deletion and recreation, only the journal contains the object"
            [];
        /// The custom resource is not being deleted.
        NotDeleted { reference, name }
            "{reference} is not being deleted, so there is nothing to strip: the operator would put the finalizer back"
            ["kubectl skyhook teardown {name} --dry-run"];
        /// A milder remedy exists, or the deletion may still finish.
        MilderThanStrip { why, instead, name }
            "{why}"
            ["{instead}", "kubectl skyhook status {name}",
             "use --force to strip the finalizer anyway: uninstall.sh then does not run on any node"];
        /// A webhook that cannot be reached would reject the change.
        UnreachableWebhook { webhook, configuration, why }
            "webhook {webhook} of {configuration} would reject the change: {why}"
            [];
        /// Two remedies change one field.
        RemediesConflict { one, other, place, instead }
            "the remedies for {one} and {other} conflict: both change {place}"
            ["{instead}"];
        /// The remedies together have a higher grade than `--up-to`.
        AboveLimit { limit, effect, grade, instead }
            "together, the remedies exceed --up-to {limit}: {effect} ({grade})"
            ["{instead}"];
        /// Another version than that of the spec is recorded, and a change of version would strand the package.
        OtherVersion { node, package, recorded, version, first, second }
            "on {node}, {package} is at version {recorded}, but the spec has {version}: an uninstall during a \
             change of version can leave {version} never installed (SKY104)"
            ["{first}", "{second}"];
        /// Other packages depend on the package.
        NeededByOthers { others, package, first, all }
            "{others} on {package}, so {package} cannot be removed from the spec first"
            ["{first}", "{all}"];
        /// The operator does not support explicit uninstall.
        UninstallUnknown {}
            "the operator is older than v0.16.0 and does not support explicit uninstall: it would ignore the request"
            ["kubectl skyhook version"];
        /// The deletion of the custom resource already uninstalls its packages.
        DeletionUninstalls { reference, skyhook }
            "{reference} is being deleted, which already uninstalls its packages"
            ["kubectl skyhook status {skyhook}"];
        /// The custom resource is paused or disabled, so no uninstall starts.
        Stopped { code, reference, state, end, command, anyway }
            "{code}: {reference} is {state}, so no uninstall starts until it is {end}"
            ["{command}", "{anyway}"];
        /// The spec does not enable the uninstall of the package.
        UninstallNotEnabled { reference, package, again }
            "the spec of {reference} does not enable the uninstall of {package}, so the operator would run nothing; if the \
             package has uninstall.sh and uninstall_check.sh, add --enable"
            ["{again}"];
        /// The package is not installed yet, and would never be.
        WouldNeverBeInstalled { nowhere, package, skyhook }
            "SKY103: {nowhere}, so the operator would consider {package} uninstalled and never install it; if {package} is still \
             to be installed, wait until the installation is complete"
            ["kubectl skyhook wait {skyhook}", "to prevent the installation anyway, add --force"];
        /// The package was never installed.
        NeverInstalled { nowhere, package, why, cancel, remove }
            "SKY103: {nowhere}, and {package} was never installed ({why}), so there is nothing to uninstall"
            ["{cancel}", "{remove}"];
        /// The version of the package was changed during its uninstall.
        VersionChanged { nowhere, package, was, version, cancel }
            "SKY104: {nowhere}; the version of {package} was changed from {was} during the uninstall, and {version} will not be \
             installed"
            ["{cancel}"];
        /// Nothing of the command can be restored.
        CannotBeRestored { command, objects }
            "{command:?} cannot be undone: {objects} cannot be restored"
            [];
        /// All objects of the command have changed since.
        AllHaveChanged { command, objects }
            "{command:?} cannot be undone because all of its objects have changed since: {objects}"
            ["to undo an older command, pass its id: kubectl skyhook journal list"];
        /// The file has another plan than `--digest`.
        OtherPlan { file, digest, expected }
            "{file} contains plan {digest}, not {expected}"
            [];
        /// The journal or the plan is from another cluster.
        OtherCluster { what, namespace, there, server_there, here, server }
            "{what} is from another cluster: namespace {namespace} has uid {there} there ({server_there}), \
             but {here} in the current cluster ({server})"
            ["select that cluster with --context or --kubeconfig"];
    }
    Question {
        /// The plan reaches more nodes than `--max-nodes` allows.
        TooManyNodes { does, most }
            "the plan would {does}, but --max-nodes allows {most}"
            [];
        /// The answer is not yes.
        NotConfirmed {}
            "not confirmed"
            [];
        /// There is no terminal for the question.
        NobodyToAsk {}
            "not confirmed, and there is no terminal for the prompt"
            ["add --confirm, or preview the change with --dry-run"];
        /// A `y` on standard input confirms reruns at most.
        NotEnough { effect }
            "y on standard input is not enough to confirm this change ({effect})"
            ["add --confirm, or preview the change with --dry-run"];
    }
    Confirmed {
        /// The effects have grown since the preview, or a precondition no longer holds.
        ChangedSincePreview { change }
            "{change} since the preview"
            ["run the command again for a new preview"];
        /// The effects have grown since the plan was saved, or a precondition no longer holds.
        ChangedSincePlan { change, file }
            "{change} since the plan in {file} was made"
            ["run the planned command again, with --plan-out"];
    }
    LocalFile {
        /// The file exists.
        FileExists { file, overwrite, flag }
            "{file} already exists; nothing was written"
            ["use {overwrite}{flag} FILE to write to another file"];
        /// A file of the completion is not this plugin's.
        NotOurFile { file, what }
            "{file} was not written by this plugin ({what}); left unchanged"
            ["remove the file yourself, or use --dir to specify another directory on the PATH"];
    }
}
