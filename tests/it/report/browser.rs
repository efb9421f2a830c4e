//! The page in Chromium, opened from disk.

use std::path::Path;
use std::process::{Command, Output};

use super::{hostile, report};
use crate::screens::Fleet;
use crate::support::programs::is_installed;
use crate::support::run::run;

const CHROMIUM: &str = "chromium";

/// Runs Chromium without a window.
fn chromium(profile: &Path, words: &[&str], page: &str) -> Output {
    let output = Command::new(CHROMIUM)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=3000"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(words)
        .arg(page)
        .output()
        .expect("Chromium starts");
    let messages = String::from_utf8_lossy(&output.stderr);
    let console: Vec<&str> = messages.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "{}", console.join("\n"));
    output
}

/// The document after its script has run.
fn dom(directory: &Path, page: &str, fragment: &str) -> String {
    let file = directory.join("page.html");
    std::fs::write(&file, page).expect("a write");
    let address = format!("file://{}{fragment}", file.display());
    let output = chromium(&directory.join("profile"), &["--dump-dom"], &address);
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn search_finds_nodes_without_policy_errors() {
    if !is_installed(CHROMIUM) {
        return;
    }
    let fleet = Fleet::of(130);
    let page = report(fleet.directory.path()).stdout;
    let dom = dom(fleet.directory.path(), &page, "#find=node-0010");
    assert!(dom.contains("10 of 130 match<ul><li>node-00100: "), "{dom}");
    assert_eq!(dom.matches(" off\"").count(), 120);
}

#[test]
fn hostile_names_run_no_script() {
    if !is_installed(CHROMIUM) {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let page = run("report --output-file - --from -").stdin(hostile().to_string()).output();
    let dom = dom(directory.path(), &page.stdout, "#find=img");
    assert!(dom.contains("<title>Node rollout report</title>"), "{dom}");
    assert!(dom.contains("1 of 1 match<ul><li>&lt;/title&gt;"), "{dom}");
}

/// The page draws at each width, and no content is wider than the window.
#[test]
fn the_page_fits_every_width() {
    if !is_installed(CHROMIUM) {
        return;
    }
    let fleet = Fleet::of(130);
    let directory = fleet.directory.path();
    let page = report(directory).stdout;
    // The policy forbids a measuring script, so this page has none.
    let policy = page.find("<meta http-equiv").expect("a policy");
    let end = policy + page[policy..].find('>').expect("its end") + 1;
    let measured = format!("{}{}", &page[..policy], &page[end..]).replace(
        "</body>",
        "<script>onload=()=>parent.postMessage(document.documentElement.scrollWidth+' of '+innerWidth,'*')</script></body>",
    );
    std::fs::write(directory.join("measured.html"), measured).expect("a write");
    // A window of Chromium is at least 500 pixels wide; a frame is not.
    for width in [400, 1000, 1600] {
        let frame = format!(
            "<script>onmessage=e=>document.title=e.data</script>\
             <iframe src=measured.html style=\"border:0;width:{width}px;height:900px\"></iframe>"
        );
        let dom = dom(directory, &frame, "");
        let expected = format!("<title>{width} of {width}</title>");
        assert!(dom.contains(&expected), "{width}: {dom}");
    }
}

#[test]
#[ignore = "slow: `tests/run --all` and --include-ignored run it"]
fn the_page_of_15000_nodes_opens() {
    if !is_installed(CHROMIUM) {
        return;
    }
    let fleet = Fleet::of(15_000);
    let page = report(fleet.directory.path()).stdout;
    let dom = dom(fleet.directory.path(), &page, "#find=node-14999");
    assert!(dom.contains("1 of 15000 match"));
}
