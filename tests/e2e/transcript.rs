//! Transcripts in the README and `docs/tasks.md`: run against the real operator, and compared with the pages.
//!
//! `UPDATE=1 cargo test --test e2e -- readme` rewrites them.

use std::{fs, io::Read, sync::Mutex};

use regex::Regex;

use crate::{cluster::Cluster, ours};

/// Pages with transcripts.
const PAGES: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/docs/tasks.md"),
];

/// Serializes access: several scenarios write to one page.
static WRITING: Mutex<()> = Mutex::new(());

/// Commands of one task, with their output.
pub struct Transcript<'a> {
    cluster: &'a Cluster,
    task: &'static str,
    text: String,
}

impl<'a> Transcript<'a> {
    pub fn of(cluster: &'a Cluster, task: &'static str) -> Self {
        let text = String::new();
        Self { cluster, task, text }
    }

    /// Runs one of our commands, and appends it with its output (stdout and stderr) to the transcript.
    #[track_caller]
    pub fn run(&mut self, words: &str, exit: i32) -> &mut Self {
        let (mut reader, stdout) = std::io::pipe().expect("a pipe");
        let stderr = stdout.try_clone().expect("a pipe");
        let args: Vec<&str> = words.split(' ').collect();
        let mut command = ours::command(&self.cluster.kubeconfig("admin"), &args);
        let mut child = command.stdout(stdout).stderr(stderr).spawn().expect("cargo has built it");
        // Close the write ends that `command` holds; otherwise the read below would never end.
        drop(command);
        let mut output = String::new();
        reader.read_to_string(&mut output).expect("the output is UTF-8");
        let code = child.wait().expect("the process can be awaited").code();
        assert_eq!(code, Some(exit), "{words}: {output}");
        self.text += &format!("$ kubectl skyhook {words}\n{output}");
        self
    }

    /// Asserts that a page shows this transcript, ignoring ages and generated names.
    #[track_caller]
    pub fn is_shown(&self) {
        let _writing = WRITING.lock();
        let begin = format!("<!-- transcript: {} -->\n", self.task);
        let mut pages = PAGES.iter().map(|page| (page, fs::read_to_string(page).expect("a page")));
        let (page, text) =
            pages.find(|(_, text)| text.contains(&begin)).unwrap_or_else(|| panic!("no page has {begin}"));
        let (before, rest) = text.split_once(&begin).expect("the page has the marker");
        let (shown, after) = rest.split_once("<!-- /transcript -->").expect("the transcript ends");
        let block = format!("\n```console\n{}```\n\n", self.text);
        if std::env::var_os("UPDATE").is_some() {
            let load_capture = format!("{before}{begin}{block}<!-- /transcript -->{after}");
            fs::write(page, load_capture).expect("the page can be written");
            return;
        }
        assert_eq!(timeless(shown), timeless(&block), "task {}", self.task);
    }
}

/// Replaces ages, generated names and padding by constants.
fn timeless(text: &str) -> String {
    let alike = [
        (r"\b\d{8}-\d{6}\.\d{3}\b", "ID"),
        (r"\b\d+ restarts?\b", "RESTARTS"),
        (r"\b(\d+(\.\d+)?(ms|s|m|h|d))+\b", "AGE"),
        (r"\b[0-9a-f]{8}\b", "HASH"),
        (r"(127\.0\.0\.1|localhost):\d+", "SERVER"),
        (r"[ ]{2,}", "  "),
    ];
    alike.iter().fold(text.to_owned(), |text, (what, by)| {
        let what = Regex::new(what).expect("a regular expression");
        what.replace_all(&text, *by).into_owned()
    })
}
