//! `shearline run` with several names: one lock on all of them.

use std::fs;
use std::io::{BufRead as _, BufReader};

use serde_json::json;

use super::documented::assert_documented;
use super::json::Json;
use super::tool::{Tool, code, free, run, started, take_away};
use super::{command, shearline, told};
use crate::face::shared;
use crate::servers::{LONG, eventually, three};

#[test]
fn the_command_and_the_report_have_all_names() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let report = folder.path().join("report");
    let names = ["other", "n", "name with spaces"];
    let script = "echo \"$SHEARLINE_RESOURCE\"; echo \"$SHEARLINE_RESOURCES\"; echo \"$SHEARLINE_TOKEN\"; \
                  while ! [ -e \"$1/seen\" ]; do sleep 0.02; done; exit 3";
    let mut command = run(&cluster.urls(), &names);
    command.arg("--report").arg(&report);
    command
        .args(["--", "sh", "-c", script, "sh"])
        .arg(folder.path());
    let mut tool = Tool::start(&mut command);
    let token = eventually("the first name is locked", || {
        cluster.values("other")[0].clone()
    });
    for name in names {
        eventually("all nodes have all names", || {
            let values = cluster.values(name);
            (values == vec![Some(token.clone()); 3]).then_some(())
        });
    }
    fs::write(folder.path().join("seen"), "").expect("a file");
    let token: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        tool.output(),
        format!("other\nother\nn\nname with spaces\n{token}\n")
    );
    assert_eq!((tool.errors(), code(tool.wait())), (String::new(), 3));
    let report = fs::read_to_string(report).expect("a report");
    assert_eq!(
        report,
        "{\"version\":1,\"command\":\"run\",\"resource\":\"other\",\"resources\":[\"other\",\"n\",\"name with spaces\"],\
         \"outcome\":\"released\",\"started\":true,\"command_status\":3,\"command_signal\":null,\"status\":3,\"losses\":0,\
         \"fencing_token\":null,\"error\":null}\n"
    );
    assert_documented(&Json::line(&report));
    cluster.assert_empty();
}

#[test]
fn a_name_that_another_holds_keeps_all_others_free() {
    let cluster = three();
    let redlock = shared(&cluster);
    let guard = redlock.try_lock("n", LONG).expect("free");
    let error = shearline(&cluster, "run --guard off -n m n o -- echo started").failed(75);
    let held = "shearline: lock on m, n, o: `n`: held, ";
    assert!(error.starts_with(held), "{error}");
    for name in ["m", "o"] {
        cluster.assert_gone(name);
    }
    // A command that waits says for which name, and holds none of the others.
    let mut tool = Tool::start(&mut run(
        &cluster.urls(),
        &["m", "n", "--", "echo", "started"],
    ));
    let mut errors = BufReader::new(tool.stderr());
    let mut line = String::new();
    errors.read_line(&mut line).expect("it is text");
    assert!(line.starts_with("shearline: waiting for n: held"), "{line}");
    redlock
        .try_lock("m", LONG)
        .expect("free")
        .unlock()
        .expect("held");
    guard.unlock().expect("held");
    assert_eq!(tool.output(), "started\n");
    assert_eq!(code(tool.wait()), 0);
    cluster.assert_empty();
}

/// The loss of one name has the same effect as the loss of all.
#[test]
fn the_loss_of_one_name_ends_the_command() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let script = "trap '' TERM; : >$1/ready; exec sleep 1000";
    let mut tool = started(&cluster, &["--ttl", "60s", "m"], script, folder.path());
    for name in ["m", "n"] {
        cluster.await_copies(name);
    }
    take_away(&cluster, 1..3);
    let errors = tool.errors();
    let lost = "shearline: m, n: the lock is lost, so the command and all its processes are killed\n\
                shearline: lost the lock m, n, so the command was ended";
    assert!(errors.starts_with(lost), "{errors}");
    assert_eq!(code(tool.wait()), 74);
    free(&cluster, 1..3);
    cluster.assert_empty();
}

#[test]
fn names_that_cannot_be_locked_together_are_refused_before_anything_is_sent() {
    not_with!(NoScripts, "asks for a strict guard, which needs scripts");
    let cluster = three();
    let many: Vec<String> = (0..65).map(|name| name.to_string()).collect();
    for (names, said) in [
        (
            "m n m",
            "the resources 0 and 2 (counted from 0) are the same",
        ),
        (&many.join(" "), "65 resources are too many for one lock"),
        ("m shearline:marker", "are reserved"),
        (
            "m n --shared",
            "--shared and --permits take only one name, but 2 were given: m, n",
        ),
        (
            "m n --permits 2",
            "--shared and --permits take only one name, but 2 were given: m, n",
        ),
    ] {
        let line = format!("run --guard strict --report 1 {names} -- echo started");
        let said_all = shearline(&cluster, &line);
        assert_eq!(said_all.status, 64, "{said_all:?}");
        let report = Json::line(&said_all.out);
        assert_documented(&report);
        assert_eq!(report.text("outcome"), "failed");
        assert_eq!(
            said_all.err,
            format!("shearline: {}\n", report.text("error"))
        );
        assert!(said_all.err.contains(said), "{said_all:?}");
    }
    cluster.assert_empty();
}

#[test]
fn a_name_that_is_not_utf_8_has_all_names_of_the_report_in_digits() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let cluster = three();
    let names = [OsStr::new("n"), OsStr::from_bytes(b"\xff")];
    let mut words = vec![
        OsStr::new("run"),
        OsStr::new("--guard=off"),
        OsStr::new("--report=1"),
    ];
    words.extend(names);
    words.extend(["--", "true"].map(OsStr::new));
    let report = Json::line(&told(command(&cluster.urls(), words)).done());
    assert_documented(&report);
    assert_eq!(report.text("resource"), "n");
    assert_eq!(report.at("resources_hex"), &json!(["6e", "ff"]));
    cluster.assert_empty();
}
