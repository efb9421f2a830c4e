//! The page: what could not be read, verdict and causes, map, rollouts, packages, cordons.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use ring::digest::{SHA256, digest};

use super::fleet::Fleet;
use super::{cordons, rollouts};
use crate::cluster::{Cluster, Source};
use crate::commands::shared::diagnosis::Diagnosis;
use crate::commands::shared::diagnosis::group::Detail;
use crate::commands::shared::status::StatusReport;
use crate::ctx::unread;
use crate::view::text::{Label, Line};
use crate::view::{Table, sanitize};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

pub struct Page<'c, 'a> {
    pub title: &'c str,
    pub cluster: &'a Cluster,
    pub needs: &'c [Source],
    pub diagnosis: &'c Diagnosis<'a>,
    pub status: &'c StatusReport<'a>,
}

impl Page<'_, '_> {
    pub fn html(&self) -> String {
        let title = sanitize(self.title);
        let sections = self.sections();
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta http-equiv="Content-Security-Policy" content=(policy());
                    meta name="viewport" content="width=device-width,initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="referrer" content="no-referrer";
                    title { (title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    a.skip href="#main" { "Skip to content" }
                    header {
                        h1 { (title) }
                        p {
                            "State of " time datetime=(self.cluster.taken_at) { (self.cluster.taken_at.strftime("%Y-%m-%d %H:%M:%S UTC")) }
                            ". " (self.status.document.operator.line().html()) "."
                        }
                        nav aria-label="Sections" {
                            @for (id, name, _) in &sections { a href=(format!("#{id}")) { (name) } " " }
                        }
                    }
                    main #main {
                        (self.not_read())
                        @for (id, name, content) in &sections {
                            section id=(id) aria-labelledby=(format!("{id}-title")) {
                                h2 id=(format!("{id}-title")) { (name) }
                                (content)
                            }
                        }
                    }
                    footer {
                        p { (self.diagnosis.checked()) " Written by kubectl-skyhook " (env!("CARGO_PKG_VERSION")) "." }
                    }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        };
        page.into_string()
    }

    fn sections(&self) -> [(&'static str, &'static str, Markup); 5] {
        [
            ("diagnosis", "Diagnosis", self.diagnosis()),
            ("fleet", "Fleet", Fleet::of(self.status).html()),
            ("rollouts", "Rollouts", rollouts::html(self.status)),
            (
                "packages",
                "Packages",
                or_none(&rollouts::packages(self.status), "No packages."),
            ),
            (
                "cordons",
                "Cordons",
                or_none(&cordons::table(self.cluster), "No node is cordoned."),
            ),
        ]
    }

    /// Sources, rules and logs that the page lacks.
    fn not_read(&self) -> Markup {
        let sources: Vec<_> = unread(self.cluster, self.needs).collect();
        let empty = Source::ESSENTIAL.into_iter().filter(|source| {
            self.cluster.missing(*source).is_some() && sources.iter().all(|(s, _)| s != source)
        });
        let empty: Vec<Source> = empty.collect();
        let (rules, logs) = (self.diagnosis.not_checked(), self.diagnosis.logs_not_read());
        html! {
            @if !sources.is_empty() || !empty.is_empty() || rules.is_some() || logs.is_some() {
                aside.missing aria-label="What could not be read" {
                    h2 { "This page is incomplete" }
                    @for (source, why) in &sources {
                        p { "Cannot read " (source) ": " (sanitize(&why.to_string())) }
                    }
                    @for source in &empty {
                        p { "Cannot read " (source) ": none in the input" }
                    }
                    @if let Some(rules) = &rules { (rules.html()) }
                    @if let Some(logs) = &logs { p { (logs.html()) } }
                }
            }
        }
    }

    fn diagnosis(&self) -> Markup {
        let verdict = self.diagnosis.verdict();
        html! {
            p class=(format!("verdict {}", label(&verdict))) { (verdict.html()) }
            @for (at, cause) in self.diagnosis.causes().iter().enumerate() {
                article.cause id=(format!("cause-{}", at + 1)) {
                    h3 { span.dim { (at + 1) ". " } (cause.title(self.cluster, false).html()) }
                    (cause.body(self.cluster, false, Detail::Full).html())
                }
            }
        }
    }
}

/// The policy allows nothing but the style and the script of the page.
fn policy() -> String {
    let hash = |text: &str| {
        let hash = BASE64_STANDARD.encode(digest(&SHA256, text.as_bytes()));
        format!("'sha256-{hash}'")
    };
    format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}

fn label(line: &Line) -> String {
    let first = line.spans.first().map_or(Label::Plain, |span| span.label);
    format!("{first:?}").to_lowercase()
}

fn or_none(table: &Table, none: &str) -> Markup {
    html! {
        (table.html())
        @if table.is_empty() { p { (none) } }
    }
}
