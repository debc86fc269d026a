//! Arguments that cannot be used: one line says what to do.

use super::*;

/// Each command line, and the message about it.
const MISTYPED: &str = "
lock => the following required arguments were not provided: <NAME>; usage: shearline lock <NAME>; see
lock report --ttl soon => invalid value 'soon' for '--ttl <TIME>': write it as 30s, 500ms, 2m, 1h or 1d, or as a number of seconds: 30, 0.5; see
lock report --wait -1s => unexpected argument '-1' found; usage: shearline lock [OPTIONS] <NAME>; see
lock report -n -w 3 => the argument '--no-wait' cannot be used with '--wait <TIME>'; see
lock report -qv => the argument '--quiet' cannot be used with '--verbose'; see
lock report -E 256 => invalid value '256' for '--conflict-status <N>': 256 is not in 0..=255; see
lock report --guard none => invalid value 'none' for '--guard <GUARD>' [possible values: off, observed, strict]; see
lock report once => unexpected argument 'once' found; usage: shearline lock [OPTIONS] <NAME>; see
show report => unrecognized subcommand 'show'; see `shearline --help`
statsu report => unrecognized subcommand 'statsu'; tip: a similar subcommand exists: 'status'; see `shearline --help`
run report --wiat 3 -- true => unexpected argument '--wiat' found; tip: a similar argument exists: '--wait'; usage:
--what => unexpected argument '--what' found; usage: shearline
break => the following required arguments were not provided: <NAME>; usage: shearline break
status => the following required arguments were not provided: <NAME>; usage:
watch report --count 0 => 0 is not in 1..
watch report --nodes redis://me:secret@127.0.0.1:1 => unexpected argument '--nodes' found; 
watch report redis://me:secret@127.0.0.1:1 => (hidden: it may hold a password)
watch report --node redis://me:se cret ss@127.0.0.1:1 => (hidden: it may hold a password)
completions tcsh => invalid value 'tcsh' for '<SHELL>' [possible values: bash, elvish, fish, powershell, zsh]; tip: a similar value exists: 'zsh'; see
nodes --node 127.0.0.1:1 --max-ttl - => invalid value '-'
run => not provided: <NAME>... <COMMAND>...; usage: shearline run <NAME>... -- <COMMAND>...; see
run report => not provided: <COMMAND>...; usage: shearline run <NAME>... -- <COMMAND>...; see
run report -- => not provided: <COMMAND>...; usage:
run report echo started => not provided: <COMMAND>...; usage: shearline run <NAME>... -- <COMMAND>...; see
run --xyzzy report -- echo started => unexpected argument '--xyzzy' found; usage: shearline run [OPTIONS] <NAME>... -- <COMMAND>...; see
run report --at-least soon -- echo started => invalid value 'soon' for '--at-least <TIME>': write it as 30s
run report --permits 0 -- echo started => invalid value '0' for '--permits <K>': 0 is not in 1..=1024; see
run report --permits 1025 -- echo started => 1025 is not in 1..=1024; see
run report --permits abc -- echo started => invalid value 'abc' for '--permits <K>': invalid digit found in string; see
run report --permits 2 --shared -- echo started => the argument '--permits <K>' cannot be used with '--shared'; see
run report -n -w 1s -- echo started => the argument '--no-wait' cannot be used with '--wait <TIME>'; see
demo --seconds 0 => '--seconds <N>': 0 is not in 1..=86400; see
demo --workers 0 => '--workers <N>': 0 is not in 1..=256; see
demo --ttl 2m => the time must be between 50ms and 60s; see
extend 53484c4b01 --ttl 53484c4b01 => (hidden: it may hold a lock)
";

#[test]
fn each_mistake_is_said_in_one_line() {
    for row in MISTYPED.lines().skip(1) {
        let (line, said) = row.split_once(" => ").expect("two parts");
        let failure = typed(line).map(drop).expect_err(line);
        let text = failure.message;
        assert_eq!(failure.status, Status::Usage, "{line}");
        assert!(text.contains(said), "{line}: {text}");
        let word = line.split(' ').next().unwrap_or_default();
        let page = match Cli::command().find_subcommand(word) {
            Some(_) => format!("; see `shearline {word} --help`"),
            None => "; see `shearline --help`".to_owned(),
        };
        assert!(text.ends_with(&page), "{line}: {text}");
        assert!(!text.contains('\n') && !text.contains("secret"), "{text}");
        assert!(!text.contains("cret"), "{text}");
        assert!(!text.contains("53484c4b"), "{text}");
    }
}

/// Arguments that are well formed but ask for too much. The messages are in the words of the command.
#[test]
fn what_cannot_be_asked_for_is_said_before_any_node_is_asked() {
    let long = "x".repeat(1_025);
    for (line, said) in [
        (
            format!("lock {long}"),
            "1025 bytes, but at most 1024 are allowed",
        ),
        (
            format!("status {long}"),
            "1025 bytes, but at most 1024 are allowed",
        ),
        (
            format!("watch {long}"),
            "1025 bytes, but at most 1024 are allowed",
        ),
        ("list shearline:".into(), "are reserved"),
        ("break --yes shearline:marker".into(), "are reserved"),
        ("lock shearline:marker".into(), "are reserved"),
        ("lock report --ttl 2ms".into(), "its drift alone is"),
        ("lock report --ttl 61s".into(), "raise `--max-ttl`"),
        (
            "lock report --ttl 59s --lock-delay 9s".into(),
            "shorten `--lock-delay`",
        ),
        ("unlock lock".into(), "this is not a lock"),
        ("unlock 0".into(), "this is not a lock"),
        (
            "extend 534c".into(),
            "pass the unchanged line that `shearline lock` printed",
        ),
    ] {
        let failure = failure(&format!("{line} --node {NOWHERE}"));
        let text = failure.message;
        assert_eq!(failure.status, Status::Usage, "{line}: {text}");
        assert!(text.contains(said), "{line}: {text}");
        assert!(!text.contains("Builder"), "{line}: {text}");
    }
}
