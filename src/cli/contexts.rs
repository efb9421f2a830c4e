//! `--contexts`: one command for several contexts at once.

use futures::future::join_all;
use glob::Pattern;

use super::finish;
use crate::args::connection::Connection;
use crate::args::global::Global;
use crate::commands::Command;
use crate::commands::shared::command::Run;
use crate::connect;
use crate::ctx::Ctx;
use crate::error::{Error, Exit, Result};
use crate::view::contexts::{ContextAnswer, Contexts};

/// Runs the command for every context that `--contexts` matches, all at the same time, and shows the results
/// as one.
pub async fn run(command: &Command, global: &Global, ctx: &mut Ctx) -> Result<Exit> {
    let info = command.info();
    if !info.only_reads() {
        return Err(Error::usage(format!(
            "{} changes a cluster, and takes exactly one context; use --context NAME",
            info.words
        )));
    }
    if !info.is_online() {
        return Err(Error::usage(format!("{} does not support --contexts; use --context NAME", info.words)));
    }
    refuse_other_selection(global)?;
    let names = chosen(&global.connection)?;
    let answers = names.into_iter().map(|name| answer(command, global, name));
    let answers = join_all(answers).await;
    let (exits, answers): (Vec<Exit>, Vec<ContextAnswer>) = answers.into_iter().unzip();
    ctx.show(&Contexts(answers))?;
    Ok(Exit::of_several(exits))
}

async fn answer(command: &Command, global: &Global, context: String) -> (Exit, ContextAnswer) {
    let mut global = global.clone();
    global.connection.contexts.clear();
    global.connection.context = Some(context.clone());
    let info = command.info();
    let verb = info.words;
    let mut ctx = Ctx::of_context(global, verb, &context);
    ctx.node_fields(info.node_fields);
    let result = command.run(&mut ctx).await;
    let error = result.as_ref().err().map(|error| error.message.clone());
    let exit = finish(&mut ctx, verb, result);
    let answer = ContextAnswer { exit_code: exit.code(), error, captured: ctx.into_captured() };
    (exit, answer)
}

/// Refuses other flags that select a cluster.
fn refuse_other_selection(global: &Global) -> Result<()> {
    let connection = &global.connection;
    let flags = [
        ("--context", connection.context.is_some()),
        ("--cluster", connection.cluster.is_some()),
        ("--server", connection.server.is_some()),
        ("--from", !global.reading.from.is_empty()),
    ];
    match flags.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Error::usage(format!("--contexts cannot be used with {flag}"))),
        None => Ok(()),
    }
}

/// The contexts of the kubeconfig that match the names and globs: each once, in the order of the flag.
/// Matches of one glob are sorted.
fn chosen(connection: &Connection) -> Result<Vec<String>> {
    let known = connect::names(connection)?.contexts;
    let mut chosen: Vec<String> = Vec::new();
    for pattern in &connection.contexts {
        let glob =
            Pattern::new(pattern).map_err(|error| Error::usage(format!("--contexts: {pattern}: {error}")))?;
        let mut matches: Vec<&String> =
            known.iter().filter(|name| *name == pattern || glob.matches(name)).collect();
        if matches.is_empty() {
            let known = known.iter().map(String::as_str);
            return Err(Error::unknown("context", pattern, known));
        }
        matches.sort();
        for name in matches {
            if !chosen.contains(name) {
                chosen.push(name.clone());
            }
        }
    }
    Ok(chosen)
}
