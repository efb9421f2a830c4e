use std::collections::HashMap;

use serde_json::{Value, json};

use super::*;
use crate::view::{OutputFormat, Table, cells};

struct Status;

impl View for Status {
    fn blocks(&self, _wide: bool) -> Text {
        let mut table = Table::new(["node", "status"]);
        table.row(cells!["gpu-1", text::error("erroring\x1b[2J")]);
        table.into()
    }

    fn names(&self) -> Vec<String> {
        vec!["node/gpu-1".to_owned()]
    }

    fn document(&self) -> Value {
        json!({"text": "\u{9b}31m"})
    }
}

/// Two pipes into memory.
fn in_memory() -> (Screen, Process) {
    let process = Process::within(Vec::new(), HashMap::new());
    (Screen::new(ColorChoice::Never, &process), process)
}

/// The text written to stdout and to stderr.
fn texts(process: &Process) -> (String, String) {
    let [out, err] = process.written().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (out, err)
}

fn terminal() -> (Screen, Process) {
    let (mut screen, process) = in_memory();
    screen.out.terminal = true;
    screen.out.colour = true;
    screen.out.width = Some(80);
    screen.err.colour = true;
    screen.err.width = Some(40);
    (screen, process)
}

#[test]
fn shows_a_view_on_stdout() {
    let (mut screen, process) = in_memory();
    let shown = screen.show(&Status, &Output::default());
    assert_eq!(shown.expect("it is shown"), Shown::Whole);
    let output = Output { no_headers: true, ..Output::default() };
    let _ = screen.show(&Status, &output).expect("it is shown");
    let output = Output { format: OutputFormat::Json, ..Output::default() };
    let _ = screen.show(&Status, &output).expect("it is shown");
    assert_eq!(
        texts(&process),
        (
            "NODE   STATUS\ngpu-1  erroring^[[2J\n\
             gpu-1  erroring^[[2J\n\
             {\n    \"text\": \"\\u009b31m\"\n}\n"
                .to_owned(),
            String::new()
        )
    );
}

#[test]
fn colours_meanings_only() {
    let (mut screen, process) = terminal();
    let _ = screen.show(&Status, &Output::default()).expect("it is shown");
    screen.warn("the API server says: " + text::name("x"));
    assert_eq!(
        texts(&process),
        (
            "\x1b[1mNODE\x1b[0m   \x1b[1mSTATUS\x1b[0m\n\
             gpu-1  \x1b[31;1merroring^[[2J\x1b[0m\n"
                .to_owned(),
            "\x1b[33mwarning:\x1b[0m the API server says: \x1b[36mx\x1b[0m\n".to_owned()
        )
    );
}

#[test]
fn data_is_harmless_on_a_terminal_and_untouched_in_a_pipe() {
    let data = "a\tb\n\x1b[31m";
    let (mut screen, process) = terminal();
    let _ = screen.print(data).expect("it is shown");
    assert_eq!(texts(&process).0, "a\tb\n^[[31m");
    let (mut screen, process) = in_memory();
    let _ = screen.print(data).expect("it is shown");
    assert_eq!(texts(&process).0, data);
}

#[test]
fn talk_goes_to_stderr() {
    let (mut screen, process) = in_memory();
    screen.err.width = Some(44);
    screen.note("No resources found.");
    screen.error(
        "the server could not find the requested resource, as it seems\nhint: rm -rf /",
        &["kubectl skyhook version", "or look elsewhere"],
    );
    assert_eq!(
        texts(&process),
        (
            String::new(),
            "No resources found.\n\
             error: the server could not find the\n\
             requested resource, as it seems\n\
            \x20 hint: rm -rf /\n\
             hint: kubectl skyhook version\n\
             hint: or look elsewhere\n"
                .to_owned()
        )
    );
}

struct Broken(io::ErrorKind);

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let screen =
        |kind| Screen { out: OutputStream::pipe(Broken(kind)), err: OutputStream::pipe(Broken(kind)) };
    let mut gone = screen(io::ErrorKind::BrokenPipe);
    gone.note("nobody hears this");
    assert_eq!(gone.print("x").expect("no error"), Shown::ReaderGone);
    let full = screen(io::ErrorKind::StorageFull).print("x");
    assert_eq!(
        format!("{:#}", full.expect_err("the disk is full")),
        "cannot write the output: no storage space"
    );
}

#[test]
fn the_environment_decides_on_colours_where_the_flag_does_not() {
    let settings = |variables: &[(&str, &str)]| {
        ColourSettings::of(|name| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        })
    };
    // Environment variables, whether a terminal gets colors, and whether a pipe does.
    type Case = (&'static [(&'static str, &'static str)], bool, bool);
    let cases: [Case; 9] = [
        (&[], true, false),
        (&[("NO_COLOR", "1")], false, false),
        (&[("NO_COLOR", "")], true, false),
        (&[("TERM", "dumb")], false, false),
        (&[("CLICOLOR_FORCE", "1")], true, true),
        (&[("FORCE_COLOR", "true"), ("TERM", "dumb")], true, true),
        (&[("FORCE_COLOR", "0")], true, false),
        (&[("FORCE_COLOR", "")], true, false),
        (&[("FORCE_COLOR", "1"), ("NO_COLOR", "1")], false, false),
    ];
    for (variables, terminal, pipe) in cases {
        let settings = settings(variables);
        let auto = |on| settings.colour(ColorChoice::Auto, on);
        assert_eq!((auto(true), auto(false)), (terminal, pipe), "{variables:?}");
        assert!(settings.colour(ColorChoice::Always, false));
        assert!(!settings.colour(ColorChoice::Never, true));
    }
}

#[test]
fn logs_are_exact_in_pipes_and_harmless_on_terminals() {
    let prefix = text::Label::Tint(1).span("node-1 apply") + " │ ";
    let line = b"\xffred \x1b[31m\x1b[2J\r\n";
    let (mut pipe, process) = in_memory();
    let _ = pipe.log(&prefix, line).expect("it is shown");
    assert_eq!(process.written()[0], ["node-1 apply │ ".as_bytes(), line].concat());
    let (mut screen, process) = terminal();
    let _ = screen.log(&prefix, line).expect("it is shown");
    assert_eq!(texts(&process).0, "\x1b[32mnode-1 apply\x1b[0m │ \u{fffd}red ^[[31m^[[2J\n");
}

#[test]
fn each_line_of_a_prefixed_screen_begins_with_its_name() {
    let process = Process::within(Vec::new(), HashMap::new());
    Screen::prefixed("prod", &process).error("a\nb", &["c"]);
    assert_eq!(texts(&process).1, "prod: error: a\nprod:   b\nprod: hint: c\n");
}
