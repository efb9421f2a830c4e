//! Wrong input gives one line that names the problem, its place and what to do.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::support::fake_api::FakeApi;
use crate::support::run::{Run, run};

use insta::assert_snapshot;

/// The transcript without the temporary directory and ports.
fn transcript(run: Run, dir: &Path, url: &str) -> String {
    let text = run.output().transcript().replace(&dir.display().to_string(), "DIR");
    match url {
        "" => text,
        // The transcript contains no port.
        _ => text.replace("http://127.0.0.1:[port]", "http://SERVER"),
    }
}

fn dump(content: &[u8]) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("dump.json");
    std::fs::write(&path, content).expect("a file");
    // A file without timestamps counts as read at its modification time.
    let written = UNIX_EPOCH + Duration::from_secs(1_795_176_000);
    let file = File::options().write(true).open(&path);
    let set = file.and_then(|file| file.set_modified(written));
    set.expect("a file of this time");
    transcript(Run::new([Path::new("diagnose"), Path::new("--from"), &path]), dir.path(), "")
}

/// PowerShell's `>` writes UTF-16.
#[test]
fn utf16_files_are_read_as_utf8_ones() {
    let text = std::fs::read_to_string("tests/clusters/apply-erroring/cluster.json");
    let text = text.expect("a capture");
    let marked = || format!("\u{feff}{text}");
    let little: Vec<u8> = marked().encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = marked().encode_utf16().flat_map(u16::to_be_bytes).collect();
    let expected = dump(text.as_bytes());
    assert!(expected.contains("SKY201"), "{expected}");
    assert_eq!(dump(&little), expected);
    assert_eq!(dump(&big), expected);
    let yaml = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n";
    let utf16: Vec<u8> = format!("\u{feff}{yaml}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(dump(&utf16), dump(yaml.as_bytes()));
    let cut = dump(&little[..little.len() - 1]);
    assert!(cut.contains("it is not valid UTF-16"), "{cut}");
}

#[test]
fn zip_archives_and_invalid_times_are_named() {
    let zip = dump(b"PK\x03\x04\x14\x00\x00\x00\x08\x00cluster.json");
    let says =
        "DIR/dump.json: neither JSON nor YAML: a zip archive; unpack it, and pass the directory to --from";
    assert!(zip.contains(says), "{zip}");
    let ran = run("status --from tests/clusters/complete --now yesterday").output();
    ran.expect_code(64);
    ran.expect_stderr(
        "invalid value 'yesterday' for '--now <TIME>': expected a time such as 2026-11-20T10:00:00Z",
    );
}

#[test]
fn two_contexts_are_an_error() {
    assert_snapshot!(run("--context a reset gpu --context=b -y").output().transcript());
    // The same context twice, and an argument after `--` that looks like another one.
    assert_snapshot!(
        run("status --context a --context=a --kubeconfig /none -- --context=b").output().transcript()
    );
}

#[test]
fn missing_dump_is_reported() {
    assert_snapshot!(run("diagnose stuck --from tests/no-such-file.json").output().transcript());
}

#[test]
fn empty_dump_is_reported() {
    assert_snapshot!(dump(b""));
    assert_snapshot!(dump(b"  \n"));
}

#[test]
fn truncated_dump_is_reported() {
    assert_snapshot!(dump(br#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kin"#));
}

#[test]
fn plain_text_dump_is_reported() {
    assert_snapshot!(dump(b"error: the server doesn't have a resource type \"skyhooks\"\n"));
    assert_snapshot!(dump(b"No resources found\n"));
    assert_snapshot!(dump(&[0xff, 0xfe, 0x00]));
}

#[test]
fn dump_without_operator_objects_is_reported() {
    assert_snapshot!(dump(br#"{"a": 1}"#));
    assert_snapshot!(dump(br#"[{"kind":"Node"}]"#));
    assert_snapshot!(dump(br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#));
    assert_snapshot!(dump(br#"{"apiVersion":"v1","kind":"List","items":{"a":1}}"#));
}

#[test]
fn damaged_capture_index_is_reported() {
    assert_snapshot!(dump(
        br#"{"apiVersion":"kubectl-skyhook/v1","kind":"Capture","takenAt":"2026-11-20T10:00:00Z"}"#
    ));
}

#[test]
fn directory_without_objects_is_reported() {
    assert_snapshot!(run("diagnose stuck --from src/view").output().transcript());
}

#[test]
fn rejected_value_makes_its_field_unknown() {
    assert_snapshot!(dump(br#"{"apiVersion":"v1","kind":"List","items":[
        {"apiVersion":"skyhook.nvidia.com/v1alpha1","kind":"Skyhook","metadata":{"name":"gpu"},"spec":{"packages":[]}},
        {"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}]}"#));
}

#[test]
fn oversized_node_state_and_escape_sequences_are_sanitized() {
    let mut state = String::from("{");
    for i in 0..100_000 {
        state.push_str(&format!("{}\"p{i}|1\":{{}}", if i == 0 { "" } else { "," }));
    }
    state.push('}');
    let node = |name: &str, state: &str| serde_json::json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "annotations": {"skyhook.nvidia.com/nodeState_gpu": state}}});
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "skyhook.nvidia.com/v1alpha1", "kind": "Skyhook", "metadata": {"name": "gpu", "generation": 2}},
        node("big", &state),
        node("evil", "{\"\u{1b}[2J\u{1b}]0;owned\u{7}|1\": 1}"),
    ]});
    assert_snapshot!(dump(list.to_string().as_bytes()));
}

#[test]
fn diagnose_reads_stdin() {
    let bytes = std::fs::read("tests/clusters/apply-erroring/cluster.json").expect("a capture");
    let ran = run("diagnose stuck -o name --from -").stdin(bytes).output();
    assert_snapshot!(ran.transcript());
}

#[test]
fn missing_kubeconfig_is_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    assert_snapshot!(run("diagnose stuck").output().transcript());
    let path = dir.path().join("none");
    assert_snapshot!(transcript(run("node status").kubeconfig(&path), dir.path(), ""));
    let run = Run::new([Path::new("node"), Path::new("status"), Path::new("--kubeconfig"), &path]);
    assert_snapshot!(transcript(run, dir.path(), ""));
}

#[test]
fn invalid_kubeconfig_is_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("config");
    std::fs::write(&path, "users: [{name: a, user: {token: s3cret-token, \n").expect("a file");
    let text = transcript(run("diagnose stuck").kubeconfig(&path), dir.path(), "");
    assert!(!text.contains("s3cret"), "{text}");
    assert_snapshot!(text);
}

#[test]
fn unknown_context_is_reported() {
    let served = FakeApi::new().serve();
    let run = run("diagnose stuck --context faek").kubeconfig(&served.kubeconfig());
    assert_snapshot!(transcript(run, served.dir(), &served.url));
}

#[test]
fn refused_connection_is_reported() {
    let served = FakeApi::new().serve();
    let dir = tempfile::tempdir().expect("a directory");
    let config = dir.path().join("config");
    std::fs::copy(served.kubeconfig(), &config).expect("a copy");
    let url = served.url.clone();
    drop(served);
    assert_snapshot!(transcript(run("diagnose stuck").kubeconfig(&config), dir.path(), &url));
}

#[test]
fn expired_token_is_reported() {
    let fake = FakeApi::new().require_token("fresh");
    let served = fake.serve();
    let run = run("diagnose stuck --token s3cret-token").kubeconfig(&served.kubeconfig());
    let text = transcript(run, served.dir(), &served.url);
    assert!(!text.replacen("--token s3cret-token", "", 1).contains("s3cret"), "{text}");
    assert_snapshot!(text);
}

#[test]
fn cluster_without_the_operator_is_reported() {
    let served = FakeApi::new().serve();
    let run = run("diagnose stuck").kubeconfig(&served.kubeconfig());
    assert_snapshot!(transcript(run, served.dir(), &served.url));
}

#[test]
fn unknown_names_are_errors() {
    for words in [
        "diagnose stuck gpu-tun --from tests/clusters/complete",
        "diagnose stuck --node node-11 --from tests/clusters/complete",
        "diagnose stuck --rule SKY999 --from tests/clusters/complete",
        "node status nod-1 --from tests/clusters/complete",
        "node status x*y --from tests/clusters/complete",
        "node status ( --from tests/clusters/complete",
        "node list --skyhook other --from tests/clusters/complete",
        "explain SKY10",
    ] {
        insta::assert_snapshot!(
            format!("unknown_{}", words.split(" --from").next().expect("a part").replace(' ', "_")),
            run(words).output().transcript()
        );
    }
}

#[test]
fn unknown_commands_and_flags_are_usage_errors() {
    for words in
        ["", "frobnicate", "node bogus", "node list", "diagnose --fail-on maybe", "explain -o xml", "rules"]
    {
        insta::assert_snapshot!(
            format!("usage_{}", words.replace(' ', "_")),
            run(words).output().transcript()
        );
    }
}

/// Control characters are removed from cluster text; our own layout must not contain any.
#[test]
fn version_output_has_no_control_characters() {
    let ran = run("version --client-only").output();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(ran.stdout, format!("Skyhook plugin:   v{version}\n"));
}
