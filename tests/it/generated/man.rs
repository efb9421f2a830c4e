//! Manual pages: one for the program, one for each command, and one for exit codes, files, variables and
//! terms.

use std::collections::BTreeMap;

use clap::Command;
use clap_mangen::Man;
use kubectl_skyhook::cli::by_task;
use kubectl_skyhook::error::Exit;
use kubectl_skyhook::lint;
use kubectl_skyhook::program::Program;
use kubectl_skyhook::rules;

const NAME: &str = "kubectl-skyhook";
/// The page of exit codes, files, variables and terms.
const REFERENCE_PAGE: &str = "kubectl-skyhook(7)";
/// Defines the apostrophe for old and new formatters; the renderer relies on it.
const PREAMBLE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

/// All pages, by the names of their files.
pub fn pages() -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    let tree = Program::SKYHOOK.tree();
    let top = command(tree.clone(), &[]);
    let commands: Vec<String> = leaves(&tree, NAME);
    let text = page(top) + &exit_status() + &see_also(&[vec![REFERENCE_PAGE.to_owned()], commands].concat());
    pages.insert(format!("{NAME}.1"), text);
    pages.insert(format!("{NAME}.7"), reference_page());
    // The tree is not built yet, so commands lack the global flags, which
    // are on the page of the program.
    below(&tree, &[], &mut pages);
    pages.values_mut().for_each(|page| *page = ascii(page));
    pages
}

/// Not every formatter reads UTF-8, but all read numeric character escapes.
fn ascii(page: &str) -> String {
    let spelled = |c: char| {
        if c.is_ascii() { c.to_string() } else { format!("\\[u{:04X}]", u32::from(c)) }
    };
    page.chars().map(spelled).collect()
}

fn below(parent: &Command, words: &[&str], pages: &mut BTreeMap<String, String>) {
    for sub in parent.get_subcommands() {
        let words: Vec<&str> = words.iter().copied().chain([sub.get_name()]).collect();
        let mut text = page(command(sub.clone(), &words));
        if words == ["explain"] {
            text.push_str(&rules());
        }
        if words == ["diagnose", "stuck"] {
            text.push_str(&exit_status());
            text.push_str(&see_also(&[NAME.to_owned(), format!("{NAME}-explain")]));
        } else {
            text.push_str(&see_also(&[NAME.to_owned(), REFERENCE_PAGE.to_owned()]));
        }
        pages.insert(format!("{NAME}-{}.1", words.join("-")), text);
        below(sub, &words, pages);
    }
}

/// A command with its full name, and its subcommands.
fn command(command: Command, words: &[&str]) -> Command {
    let named = |command: Command, words: &[&str]| {
        let dashed = [&[NAME], words].concat().join("-");
        let typed = [&["kubectl", "skyhook"], words].concat().join(" ");
        command.display_name(dashed).bin_name(typed)
    };
    let subs: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    subs.iter().fold(named(command, words).disable_help_subcommand(true), |command, sub| {
        let words: Vec<&str> = words.iter().copied().chain([sub.as_str()]).collect();
        command.mut_subcommand(sub, |c| named(c, &words))
    })
}

fn leaves(command: &Command, name: &str) -> Vec<String> {
    let names = command.get_subcommands().flat_map(|sub| {
        let name = format!("{name}-{}", sub.get_name());
        let below = leaves(sub, &name);
        std::iter::once(name).chain(below)
    });
    names.collect()
}

fn page(command: Command) -> String {
    let top = command.get_display_name() == Some(NAME);
    let examples = command
        .get_after_help()
        .map(ToString::to_string)
        .and_then(|text| Some(text.strip_prefix("Examples:\n")?.to_owned()));
    let subcommands = command.has_subcommands();
    let title = command.get_display_name().unwrap_or(NAME).to_uppercase();
    let version = env!("CARGO_PKG_VERSION");
    let tasks = if top { tasks(&command) } else { String::new() };
    let synopsis = synopsis(&command);
    let man = Man::new(command);
    let mut text = PREAMBLE.to_owned();
    // The renderer would omit the date and shift the arguments after it.
    text.push_str(&format!(".TH {} 1 \"\" \"{NAME} {version}\" kubectl\n", escaped(&title)));
    text.push_str(&without_preamble(&rendered(|bytes| {
        man.render_name_section(bytes)?;
        bytes.extend_from_slice(synopsis.as_bytes());
        man.render_description_section(bytes)?;
        man.render_options_section(bytes)?;
        if subcommands && !top { man.render_subcommands_section(bytes) } else { Ok(()) }
    })));
    text.push_str(&tasks);
    if !top {
        text.push_str(&paragraph(&format!(
            "The options of {NAME}(1) for input, output and the connection to the cluster \
             are also accepted."
        )));
    }
    if let Some(examples) = examples {
        text.push_str(".SH EXAMPLES\n.nf\n");
        for line in examples.lines() {
            text.push_str(&format!("{}\n", escaped(line.strip_prefix("  ").unwrap_or(line))));
        }
        text.push_str(".fi\n");
    }
    text
}

/// The synopsis with the values of options, which the renderer leaves out.
fn synopsis(command: &Command) -> String {
    let mut command = command.clone();
    command.build();
    let bold = |text: &str| format!("\\fB{}\\fR", escaped(text));
    let italic = |text: &str| format!("\\fI{}\\fR", escaped(text));
    let mut words = vec![bold(command.get_bin_name().expect("a name"))];
    let visible = || command.get_arguments().filter(|argument| !argument.is_hide_set());
    for option in visible().filter(|argument| !argument.is_positional()) {
        let short = option.get_short().map(|short| bold(&format!("-{short}")));
        let long = option.get_long().map(|long| bold(&format!("--{long}")));
        let mut word = short.into_iter().chain(long).collect::<Vec<_>>().join("|");
        let values = option.get_num_args().unwrap_or_default();
        if values.min_values() > 0 && option.get_action().takes_values() {
            let names = option.get_value_names().unwrap_or_default();
            word.extend(names.iter().map(|name| format!(" {}", italic(name))));
        }
        words.push(bracketed(word, option));
    }
    for positional in visible().filter(|argument| argument.is_positional()) {
        let names = positional.get_value_names().unwrap_or_default();
        let name = names.first().map_or(positional.get_id().as_str(), |name| name.as_str());
        words.push(bracketed(italic(name), positional));
    }
    if command.has_subcommands() {
        let word = italic("COMMAND");
        let required = command.is_subcommand_required_set() || command.is_arg_required_else_help_set();
        words.push(if required { word } else { format!("[{word}]") });
    }
    format!(".SH SYNOPSIS\n{}\n", words.join(" "))
}

/// A word of a synopsis, in brackets unless it is required, with an ellipsis if it may be repeated.
fn bracketed(word: String, argument: &clap::Arg) -> String {
    let word = if argument.is_required_set() { word } else { format!("[{word}]") };
    let values = argument.get_num_args().unwrap_or_default();
    let repeats = matches!(argument.get_action(), clap::ArgAction::Append) || values.max_values() > 1;
    if repeats { format!("{word}...") } else { word }
}

fn rendered(render: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Vec<u8> {
    let mut bytes = Vec::new();
    render(&mut bytes).expect("a write to memory succeeds");
    bytes
}

/// The renderer starts every section with a page preamble.
fn without_preamble(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    // Formatters warn of two breaks around an empty line.
    let text = text.replace(".br\n\n.br\n", ".sp\n");
    let lines = text.lines();
    lines.filter(|line| !line.contains(".ds Aq ")).map(|line| format!("{line}\n")).collect()
}

fn exit_status() -> String {
    let codes = Exit::ALL.map(|(exit, meaning)| item(&exit.code().to_string(), "", meaning));
    format!(".SH \"EXIT STATUS\"\n{}", codes.concat())
}

/// The page of everything that belongs to no single command.
fn reference_page() -> String {
    let title = escaped(&NAME.to_uppercase());
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "{PREAMBLE}.TH {title} 7 \"\" \"{NAME} {version}\" kubectl\n\
         .SH NAME\n{} \\- exit codes, files, environment variables and terms\n{}{}{}{}{}",
        escaped(NAME),
        exit_status(),
        files(),
        environment(),
        glossary(),
        see_also(&[NAME.to_owned()]),
    )
}

fn files() -> String {
    let files = [
        (
            "~/.kube/config",
            "Which cluster to connect to, and as which user. KUBECONFIG and --kubeconfig specify other files.",
        ),
        (
            "~/.local/state/kubectl-skyhook/journal/ID.jsonl",
            "The changes of one command, one per line, with the previous values; written before the first change, readable \
             by its owner only. `kubectl skyhook journal` shows them and `kubectl skyhook undo` reverts them. In \
             XDG_STATE_HOME if that is set; in LOCALAPPDATA on Windows.",
        ),
        (
            "kubectl_complete-skyhook",
            "Next to the plugin: the program that kubectl calls for completion. `kubectl skyhook completion install` installs it, \
             and `kubectl skyhook completion uninstall` removes it.",
        ),
        (
            "FILE of --plan-out",
            "A plan, as JSON, that `kubectl skyhook apply-plan` applies. It contains values of the objects to \
             change.",
        ),
        (
            "PATH of --from",
            "Objects as kubectl prints them with -o json or -o yaml: a file, a directory of files, or a .tar.gz of one. \
             It is never written to.",
        ),
    ];
    let files = files.map(|(name, meaning)| item(name, "", meaning));
    format!(".SH FILES\n{}", files.concat())
}

/// The commands grouped by task.
fn tasks(tree: &Command) -> String {
    let tasks = by_task(tree).into_iter().map(|(task, commands)| {
        let commands = commands.iter().map(|command| {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            item(&format!("{NAME}-{}(1)", command.get_name()), "", &about)
        });
        format!(".SS \"{}\"\n{}", escaped(task), commands.collect::<String>())
    });
    format!(".SH COMMANDS\n{}", tasks.collect::<String>())
}

fn rules() -> String {
    let rules = rules::ALL.iter().map(|rule| {
        let name = format!(" {} ({})", rule.name, rule.severity);
        item(rule.code, &name, rule.summary())
    });
    let of_lint = lint::ALL.iter().map(|rule| {
        let name = format!(" {} ({})", rule.name, rule.severity);
        item(rule.code, &name, rule.summary())
    });
    format!(".SH RULES\n{}.SS \"Rules of lint\"\n{}", rules.collect::<String>(), of_lint.collect::<String>())
}

fn environment() -> String {
    let variables = [
        ("KUBECONFIG", "list of kubeconfig files, instead of ~/.kube/config"),
        ("HTTPS_PROXY, HTTP_PROXY, NO_PROXY", "proxy settings for the connection to the server"),
        ("XDG_STATE_HOME", "where journals are kept, instead of ~/.local/state"),
        ("NO_COLOR", "turns off color, whatever its value"),
        ("CLICOLOR_FORCE, FORCE_COLOR", "turn on color even if the output is not a terminal"),
    ];
    let variables = variables.map(|(name, meaning)| item(name, "", meaning));
    format!(".SH ENVIRONMENT\n{}", variables.concat())
}

/// The list of `docs/glossary.md`.
fn glossary() -> String {
    let text = include_str!("../../../docs/glossary.md");
    let terms = text.split("\n- **").skip(1).map(|entry| {
        let (name, meaning) = entry.split_once("**: ").expect("a term and what it means");
        item(name, "", &meaning.split_whitespace().collect::<Vec<_>>().join(" "))
    });
    format!(".SH GLOSSARY\n{}", terms.collect::<String>())
}

fn see_also(names: &[String]) -> String {
    let names: Vec<String> = names
        .iter()
        .map(|name| match name.strip_suffix("(7)") {
            Some(name) => format!("\\fB{}\\fR(7)", escaped(name)),
            None => format!("\\fB{}\\fR(1)", escaped(name)),
        })
        .collect();
    format!(".SH \"SEE ALSO\"\n{}\n", names.join(",\n"))
}

fn item(bold: &str, roman: &str, text: &str) -> String {
    format!(".TP\n\\fB{}\\fR{}\n{}\n", escaped(bold), escaped(roman), escaped(text))
}

fn paragraph(text: &str) -> String {
    format!(".PP\n{}\n", escaped(text))
}

/// Text with all formatter commands escaped.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}
