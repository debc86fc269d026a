//! Programs of another user below the command of `shearline run`, which cannot end them. If the command leaves such
//! programs behind, the run keeps the lock and waits for them. After a loss they keep running, and a message says so.
//!
//! The command belongs to a user without rights, and its foreign program to root: a copy of `setpriv` that everybody
//! runs as root starts it. So only root can run these stories, and only on systems where such a file works. Elsewhere a
//! message that bypasses the test harness says that a story was not run.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

use super::tool::{Tool, await_file, code, take_away};
use super::{PATIENT, variables};
use crate::effort::is_long;
use crate::servers::{Cluster, eventually, three};
use crate::variants::say_not_run;

/// A user without rights: `nobody`.
const NOBODY: u32 = 65_534;

/// Starts a program of root, which runs until `end` is there or the folder is gone, and waits until it has begun.
const BEGIN: &str = "\"$1/setpriv\" --reuid=0 --regid=0 --clear-groups sh -c '
        echo $$ >\"$1/root\"; while [ -e \"$1/root\" ] && ! [ -e \"$1/end\" ]; do sleep 0.02; done
    ' sh \"$1\" >&- 2>&- &
    while ! [ -s \"$1/root\" ]; do sleep 0.02; done; : >\"$1/ready\"; ";

/// A run of a script by [`NOBODY`], and its folder.
struct Story {
    tool: Tool,
    folder: TempDir,
}

impl Story {
    /// Starts a run of `script`, which begins with [`BEGIN`]. Returns `None` if the story cannot be played here.
    fn start(cluster: &Cluster, options: &[&str], script: &str) -> Option<Self> {
        Self::with(&[], cluster, options, &format!("{BEGIN}{script}"))
    }

    /// `by` are the words of a command that becomes the run, if it is to be played somewhere else.
    fn with(by: &[&str], cluster: &Cluster, options: &[&str], script: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path();
        if !is_root_for_nobody(path) {
            say_not_run("nobody becomes root here");
            return None;
        }
        let shearline = path.join("shearline");
        copy(env!("CARGO_BIN_EXE_shearline"), &shearline).expect("room for it");
        let config = path.join("shearline.toml");
        copy(PATIENT, &config).expect("room for it");
        let words: Vec<&OsStr> = by.iter().map(OsStr::new).collect();
        let words = [&words, &[shearline.as_os_str()][..]].concat();
        let mut command = Command::new(words[0]);
        if by.is_empty() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
            .args(&words[1..])
            .args(["run", "--guard", "off", "--report"])
            .arg(path.join("report"))
            .args(options)
            .args(["n", "--", "sh", "-c", script, "sh"])
            .arg(path)
            .envs(variables(&cluster.urls()))
            .env("SHEARLINE_CONFIG", config)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let tool = Tool::start(&mut command);
        await_file(&path.join("ready"));
        Some(Self { tool, folder })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the program of root.
    fn foreign(&self) -> Pid {
        self.process("root")
    }

    /// Returns the process whose number is in this file.
    fn process(&self, file: &str) -> Pid {
        eventually("its number is written", || {
            let id = fs::read_to_string(self.path().join(file)).ok()?;
            Pid::from_raw(id.strip_suffix('\n')?.parse().expect("a number"))
        })
    }

    fn assert_foreign_runs(&self) {
        test_kill_process(self.foreign()).expect("it runs");
    }

    fn end_foreign(&self) {
        fs::write(self.path().join("end"), "").expect("a file");
    }

    /// Makes a majority lose the lock. Asserts that the tool ends, says why, and leaves the program of root.
    #[track_caller]
    fn loses_the_lock(&mut self, cluster: &Cluster) {
        cluster.await_copies("n");
        take_away(cluster, 1..3);
        let said = "shearline: n: the lock is lost, so the command and all its processes are killed\n\
                    shearline: programs of another user still run, so the lock is kept until it expires\n";
        assert_eq!(self.tool.errors(), said);
        assert_eq!(code(self.tool.end()), 74);
        self.assert_foreign_runs();
    }

    #[track_caller]
    fn assert_outcome(&self, outcome: &str) {
        let report = fs::read_to_string(self.path().join("report")).expect("a report");
        let expected = format!("\"outcome\":\"{outcome}\"");
        assert!(report.contains(&expected), "{report}");
    }
}

/// Copies a program, by another process. Otherwise a process that a test starts meanwhile would inherit the copy open
/// for writing, and such a file cannot be run.
fn copy(from: &str, to: &Path) -> io::Result<()> {
    let status = Command::new("cp").arg(from).arg(to).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(io::Error::other("it cannot be copied")),
    }
}

/// Puts `setpriv` into the folder, and returns `true` if another user becomes root by it.
fn is_root_for_nobody(folder: &Path) -> bool {
    let setpriv = folder.join("setpriv");
    let copied = chown(folder, Some(NOBODY), Some(NOBODY))
        .and_then(|()| copy("/usr/bin/setpriv", &setpriv))
        .and_then(|()| fs::set_permissions(&setpriv, Permissions::from_mode(0o4755)));
    let mut becoming = Command::new(setpriv);
    becoming.args(["--reuid=0", "--regid=0", "--clear-groups", "true"]);
    let became = becoming.uid(NOBODY).gid(NOBODY).current_dir("/").status();
    copied.is_ok() && became.is_ok_and(|status| status.success())
}

#[test]
fn what_is_left_of_another_user_is_waited_for() {
    let cluster = three();
    let own = "(trap '' TERM; : >\"$1/trap\"; while :; do sleep 0.02; done) >&- 2>&- & echo $! >\"$1/own\"
        while ! [ -e \"$1/trap\" ]; do sleep 0.02; done; exit 5";
    let Some(mut story) = Story::start(&cluster, &[], own) else {
        return;
    };
    // The remaining processes get some time to end, and then this one is killed.
    let own = story.process("own");
    eventually("what may be ended is", || {
        test_kill_process(own).is_err().then_some(())
    });
    story.assert_foreign_runs();
    assert!(story.tool.is_running());
    assert!(2 <= cluster.copies("n"), "the lock is kept");
    story.end_foreign();
    assert_eq!(story.tool.errors(), "");
    assert_eq!(code(story.tool.end()), 5);
    story.assert_outcome("released");
    cluster.assert_empty();
}

#[test]
fn after_a_loss_programs_of_another_user_run_on_and_that_is_said() {
    let cluster = three();
    let Some(mut story) = Story::start(&cluster, &["--ttl", "5s"], "sleep 60") else {
        return;
    };
    story.loses_the_lock(&cluster);
    story.assert_outcome("lost");
    story.end_foreign();
}

/// A killed process stays as a zombie if its parent belongs to another user and does not wait for it.
#[test]
fn after_a_loss_dead_children_of_other_users_do_not_keep_it_from_ending() {
    let cluster = three();
    let script = "\"$1/setpriv\" --reuid=0 --regid=0 --clear-groups sh -c '
            setpriv --reuid=65534 --regid=65534 --clear-groups sleep 60 & echo $! >\"$1/child\"
            echo $$ >\"$1/root\"; exec sleep 60
        ' sh \"$1\" >&- 2>&- &
        while ! [ -s \"$1/root\" ] || [ $(cat /proc/$(cat \"$1/child\")/comm) != sleep ]; do sleep 0.02; done
        : >\"$1/ready\"; sleep 60";
    let Some(mut story) = Story::with(&[], &cluster, &["--ttl", "5s"], script) else {
        return;
    };
    story.loses_the_lock(&cluster);
    kill_process(story.foreign(), Signal::KILL).expect("it runs");
}

/// Becomes a program of [`NOBODY`] where `/proc` shows only the processes of this user.
const HIDDEN: [&str; 6] = [
    "unshare",
    "--mount",
    "sh",
    "-c",
    "mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"",
    "sh",
];

/// `/proc` also hides a program that runs with the rights of its file, which may be killed by the user who started it.
#[test]
fn after_a_loss_programs_that_proc_hides_are_ended_or_named() {
    let cluster = three();
    let mut probe = Command::new(HIDDEN[0]);
    let probe = probe.args(&HIDDEN[1..]).arg("true").output();
    if !probe.as_ref().is_ok_and(|output| output.status.success()) {
        return say_not_run(&format!("no other /proc here: {probe:?}"));
    }
    let script = "while ! [ -u \"$1/asleep\" ]; do sleep 0.02; done
        \"$1/asleep\" 60 >&- 2>&- & echo $! >\"$1/own\"; sleep 60";
    let script = format!("{BEGIN}{script}");
    let Some(mut story) = Story::with(&HIDDEN, &cluster, &["--ttl", "5s"], &script) else {
        return;
    };
    let asleep = story.path().join("asleep");
    copy("/usr/bin/sleep", &asleep).expect("room for it");
    fs::set_permissions(&asleep, Permissions::from_mode(0o4755)).expect("it is ours");
    let own = story.process("own");
    eventually("it has the rights of its file", || {
        let status = fs::read_to_string(format!("/proc/{own}/status")).ok()?;
        status.contains("\nUid:\t65534\t0\t").then_some(())
    });
    story.loses_the_lock(&cluster);
    test_kill_process(own).expect_err("it was killed");
    story.assert_outcome("lost");
    story.end_foreign();
}

/// The limit allows too few processes for the tool, its watchdog and the command. The number of threads that it needs
/// meanwhile varies. A limit of 1 leaves none for the library.
#[test]
fn a_command_for_which_there_is_no_process_was_not_started() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path();
    if !is_root_for_nobody(path) {
        say_not_run("only root has users to spare");
        return;
    }
    let shearline = path.join("shearline");
    copy(env!("CARGO_BIN_EXE_shearline"), &shearline).expect("room for it");
    let config = path.join("shearline.toml");
    copy(PATIENT, &config).expect("room for it");
    // Each try has a user without processes. In the long run, there are three tries for each limit.
    let users = if is_long() { 18 } else { 6 };
    for user in 61_230..61_230 + users {
        let limit = 1 + user % 6;
        let mut command = Command::new("prlimit");
        command
            .arg(format!("--nproc={limit}"))
            .arg(&shearline)
            .args(["run", "--guard", "off", "--report", "1", "n", "--", "true"])
            .envs(variables(&cluster.urls()))
            .env("SHEARLINE_CONFIG", &config)
            .current_dir("/")
            .stdin(Stdio::null())
            .gid(user)
            .uid(user);
        let output = command.output().expect("prlimit is there");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        let (report, said) = (text(output.stdout), text(output.stderr));
        let why = "Resource temporarily unavailable (os error 11)";
        match (limit, code(output.status)) {
            (1, 78) => assert_eq!(
                said,
                format!(
                    "shearline: no event loop could be made ({why}); look at the limits of open files and of threads \
                     (`ulimit -n`, `ulimit -u`)\n"
                )
            ),
            (2.., 0) => assert_eq!(said, ""),
            (2.., 1 | 78) => assert!(report.contains("\"outcome\":\"failed\",\"started\":false")),
            (2.., 126) => {
                assert_eq!(said, format!("shearline: cannot run true: {why}\n"));
                assert!(report.contains("\"outcome\":\"not_started\",\"started\":false"));
            }
            other => panic!("{other:?}: {said}{report}"),
        }
    }
    cluster.assert_empty();
}
