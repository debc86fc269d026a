//! `shearline run` at a terminal: the command reads from it, and gets its signals once. Ctrl-Z stops both, and a run
//! that is stopped for too long has lost the lock.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgid, kill_process};
use shearline::LockOptions;
use tempfile::TempDir;

use super::tool::{await_file, children, handles, is_asleep, is_free, is_stopped};
use super::variables;
use crate::effort::is_long;
use crate::face::shared;
use crate::servers::{Cluster, LONG, eventually, three};

/// The keys that a terminal turns into signals.
const CTRL_C: &[u8] = b"\x03";
const CTRL_Z: &[u8] = b"\x1a";

/// 128 + TSTP, as a shell shows it.
const STOPPED: &str = "148";

/// A command that writes its process id and that it has begun, counts INT, and ends on request. It starts no other
/// program meanwhile, because a shell that waits for the start of a program does not show as stopped.
const COMMAND: &str = "exec 9>>\"$1/flock\"; flock -n 9 || exit 99
    mkfifo \"$1/end\"; exec 8<>\"$1/end\"
    trap 'echo INT >>\"$1/ints\"; exit 9' INT
    echo $$ >\"$1/command\"; echo $PPID >\"$1/watchdog\"; : >\"$1/ready\"
    read line <&8; exit 8";

/// A job in the foreground. The shell continues when the job is stopped, and then continues the job.
const STOPPED_AND_CONTINUED: &str = "set -m
    JOB
    echo $? >\"$1/stopped\"
    while ! [ -e \"$1/go\" ]; do sleep 0.02; done
    fg
    echo $? >\"$1/ended\"";

/// Runs a shell line at a terminal. The bytes written to the process are the keys of the terminal.
fn at_a_terminal(cluster: &Cluster, line: &str) -> Child {
    let mut terminal = Command::new("script");
    terminal
        .args(["-qec", line, "/dev/null"])
        .envs(variables(&cluster.urls()))
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    terminal.spawn().expect("`script` is there")
}

/// A shell at a terminal, and a folder for its output.
struct Terminal {
    folder: TempDir,
    shell: Child,
}

impl Terminal {
    /// Starts a shell that runs the script. `JOB` in it is a run of [`COMMAND`] with these options, and `$1` the
    /// folder.
    fn start(cluster: &Cluster, options: &str, script: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path();
        let shearline = env!("CARGO_BIN_EXE_shearline");
        let job = format!(
            "sh -c 'echo $$ >\"$1/tool\"; \
             exec {shearline} run --guard off {options} n -- sh \"$1/run\" \"$1\"' sh \"$1\" 2>>\"$1/said\""
        );
        fs::write(path.join("run"), COMMAND).expect("a file");
        fs::write(path.join("script"), script.replace("JOB", &job)).expect("a file");
        let line = format!("exec sh {0}/script {0}", path.display());
        let shell = at_a_terminal(cluster, &line);
        await_file(&path.join("ready"));
        let terminal = Self { folder, shell };
        terminal.await_reading();
        terminal
    }

    /// Returns when the command sleeps in `read`. A signal that comes just before that, or before the read begins again
    /// after a stop, would have to wait for the line.
    fn await_reading(&self) {
        let command = self.process("command");
        eventually("the command reads", || is_asleep(command).then_some(()));
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn press(&mut self, keys: &[u8]) {
        let input = self.shell.stdin.as_mut().expect("it is piped");
        input.write_all(keys).expect("it is read");
    }

    /// Lets the script, or the command, continue.
    fn make(&self, file: &str) {
        fs::write(self.path().join(file), "\n").expect("a file");
    }

    /// Returns the line in this file when it is whole.
    #[track_caller]
    fn line(&self, file: &str) -> String {
        eventually(&format!("{file} is written"), || {
            let line = fs::read_to_string(self.path().join(file)).ok()?;
            line.strip_suffix('\n').map(str::to_owned)
        })
    }

    #[track_caller]
    fn process(&self, file: &str) -> Pid {
        let id = self.line(file).parse().expect("a number");
        Pid::from_raw(id).expect("a process")
    }

    #[track_caller]
    fn group(&self, file: &str) -> Pid {
        getpgid(Some(self.process(file))).expect("it runs")
    }

    #[track_caller]
    fn assert_stopped(&self, file: &str, expected: bool) {
        let process = self.process(file);
        eventually(&format!("{file} is stopped: {expected}"), || {
            (is_stopped(process) == expected).then_some(())
        });
    }

    /// Returns the messages of `run`.
    fn errors(&self) -> String {
        fs::read_to_string(self.path().join("said")).expect("the shell has made it")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The shell has ended, or ends with its terminal, and so does everything that it has started.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// In the foreground of a terminal the command reads from it, and gets its signals once.
#[test]
fn a_command_in_the_foreground_of_a_terminal_reads_from_it() {
    let cluster = three();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path();
    // The tool is stopped when the size of the terminal changes, and would pass this signal on later. When it passes on
    // the signal that continues it, it also knows that the command has started. From then on, a signal of a key counts
    // as one of the terminal.
    let script = "trap 'echo INT >>\"$1/ints\"' INT; trap 'echo >>\"$1/sizes\"' WINCH
        trap 'echo >\"$1/on\"' CONT; read line
        tool=$(cut -d' ' -f4 /proc/$PPID/stat); kill -TSTP $tool; stty cols 91; kill -CONT $tool
        while ! [ -e \"$1/on\" ]; do sleep 0.02; done
        echo \"$line\" >\"$1/line\"
        while ! [ -e \"$1/ints\" ]; do sleep 0.02; done; sleep 0.2; exit 8";
    fs::write(path.join("script"), script).expect("a file");
    let shearline = env!("CARGO_BIN_EXE_shearline");
    let line = format!(
        "exec {shearline} run --guard off n -- sh {0}/script {0}",
        path.display()
    );
    let mut terminal = at_a_terminal(&cluster, &line);
    let keys = terminal.stdin.as_mut().expect("it is piped");
    keys.write_all(b"typed\n").expect("it is read");
    // The shell makes the file before it writes to it.
    let line = eventually("it has read a line", || {
        let line = fs::read_to_string(path.join("line")).ok()?;
        line.ends_with('\n').then_some(line)
    });
    assert_eq!(line, "typed\n");
    keys.write_all(CTRL_C).expect("it is read");
    let status = terminal.wait().expect("our own child");
    assert_eq!(
        fs::read_to_string(path.join("ints")).expect("a file"),
        "INT\n"
    );
    let sizes = fs::read_to_string(path.join("sizes")).expect("a file");
    assert_eq!(sizes, "\n", "a change of the size is told once");
    assert_eq!(status.code(), Some(8));
    cluster.assert_empty();
}

/// The moment when Ctrl-C is pressed: this long after the tool handles signals, and when it has this number of
/// descendants.
type Moment = (u64, usize);

/// The command asks the person at the terminal, and changes nothing without a yes.
#[test]
fn break_asks_at_a_terminal() {
    let cluster = three();
    let redlock = shared(&cluster);
    let lock = eventually("it is taken", || redlock.try_lock("n", LONG).ok());
    eventually("all nodes have it", || {
        cluster.has_copies("n").then_some(())
    });
    let answers = [
        ("", "\n", 1),
        ("", "n\n", 1),
        ("--now", "n\n", 1),
        ("", "y\n", 0),
        ("--now", "y\n", 0),
    ];
    for (how, answer, status) in answers {
        let before = cluster.values("n");
        let shearline = env!("CARGO_BIN_EXE_shearline");
        let line = format!("exec {shearline} break n --guard off {how}");
        let mut terminal = at_a_terminal(&cluster, &line);
        let keys = terminal.stdin.as_mut().expect("it is piped");
        keys.write_all(answer.as_bytes()).expect("it is read");
        let ended = terminal.wait().expect("our own child");
        assert_eq!(ended.code(), Some(status), "{how} {answer:?}");
        let is_as_before = cluster.values("n") == before;
        assert_eq!(is_as_before, status == 1, "{how} {answer:?}");
    }
    cluster.assert_gone("n");
    drop(lock);
}

/// The terminal sends the signal to the processes that exist, which differ from one moment to the next: the tool, the
/// watchdog, or the process that becomes the command.
#[test]
fn ctrl_c_ends_the_command_also_while_it_is_being_started() {
    let cluster = three();
    let few = [(0, 0), (0, 1), (0, 2), (5, 0), (10, 2)];
    let many = (0..16).map(|number| (2 * number, 0));
    let moments: Vec<Moment> = few.into_iter().chain(many.filter(|_| is_long())).collect();
    let shearline = env!("CARGO_BIN_EXE_shearline");
    for (millis, descendants) in moments {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let file = folder.path().join("tool");
        let line = format!(
            "echo $$ >{}; exec {shearline} run --guard off n -- sleep 1000",
            file.display()
        );
        let mut terminal = at_a_terminal(&cluster, &line);
        let tool = eventually("it handles signals", || {
            let id = fs::read_to_string(&file).ok()?;
            let tool = Pid::from_raw(id.strip_suffix('\n')?.parse().expect("a number"))?;
            handles(tool, Signal::CHILD).then_some(tool)
        });
        eventually("so many have been started", || {
            (descendants <= line_of_descent(tool)).then_some(())
        });
        thread::sleep(Duration::from_millis(millis));
        let keys = terminal.stdin.as_mut().expect("it is piped");
        keys.write_all(CTRL_C).expect("it is read");
        let status = terminal.wait().expect("our own child");
        assert_eq!(
            status.code(),
            Some(128 + 2),
            "{tool:?}, {millis} {descendants}"
        );
    }
    cluster.assert_empty();
}

/// Returns the length of the line of descent: its first child, the first child of that child, and so on.
fn line_of_descent(of: Pid) -> usize {
    match children(of).first() {
        Some(child) => 1 + line_of_descent(*child),
        None => 0,
    }
}

#[test]
fn ctrl_z_stops_the_command_and_fg_continues_it() {
    let cluster = three();
    let mut terminal = Terminal::start(&cluster, "--ttl 60s", STOPPED_AND_CONTINUED);
    terminal.press(CTRL_Z);
    assert_eq!(terminal.line("stopped"), STOPPED);
    terminal.assert_stopped("tool", true);
    terminal.assert_stopped("command", true);
    // The keys of the terminal are for the group of the tool and its command.
    assert_eq!(terminal.group("command"), terminal.process("tool"));
    assert_eq!(terminal.group("watchdog"), terminal.process("watchdog"));
    // The watchdog ends the command if this takes too long.
    assert!(!is_stopped(terminal.process("watchdog")));
    assert!(2 <= cluster.copies("n"));
    assert!(!is_free(terminal.path()), "the command is alive");
    terminal.make("go");
    terminal.assert_stopped("tool", false);
    terminal.assert_stopped("command", false);
    terminal.make("end");
    assert_eq!(terminal.line("ended"), "8");
    assert_eq!(terminal.errors(), "");
    cluster.assert_empty();
}

/// This is the case of `ssh -t HOST shearline run ..`, where no shell continues the run.
#[test]
fn ctrl_z_stops_a_run_that_leads_its_session_too() {
    let cluster = three();
    let mut terminal = Terminal::start(&cluster, "--ttl 60s", "exec JOB");
    terminal.press(CTRL_Z);
    terminal.assert_stopped("tool", true);
    terminal.assert_stopped("command", true);
    kill_process(terminal.process("tool"), Signal::CONT).expect("it is stopped");
    terminal.assert_stopped("command", false);
    terminal.press(CTRL_C);
    let status = terminal.shell.wait().expect("our own child");
    assert_eq!(status.code(), Some(9));
    assert_eq!(terminal.line("ints"), "INT");
    cluster.assert_empty();
}

/// On a busy machine the ttl has to be longer: with a short one the lock is lost too early, or the watchdog has too
/// little time.
#[test]
fn who_is_stopped_for_longer_than_the_ttl_has_lost_the_lock() {
    let has_lost = |ttl: u32| has_lost_the_lock(&format!("--ttl {ttl}s"));
    assert!(
        [4, 8, 16].into_iter().any(has_lost),
        "it is never ended in time"
    );
}

/// Returns `false` if the command had ended before it was stopped, or was not ended in the remaining time.
fn has_lost_the_lock(ttl: &str) -> bool {
    let cluster = three();
    let mut terminal = Terminal::start(&cluster, ttl, STOPPED_AND_CONTINUED);
    terminal.press(CTRL_Z);
    match terminal.line("stopped").as_str() {
        STOPPED => {}
        "74" => return false,
        other => panic!("{other}"),
    }
    let options = LockOptions::new(LONG).wait(Duration::from_secs(60));
    let next = shared(&cluster).lock_with("n", &options).expect("it ends");
    if !is_free(terminal.path()) {
        return false;
    }
    terminal.make("go");
    assert_eq!(terminal.line("ended"), "74");
    let (lost, errors) = (
        "shearline: lost the lock n, so the command was ended",
        terminal.errors(),
    );
    assert!(errors.contains(lost), "{errors}"); // An extension may have been open.
    next.unlock().expect("held");
    cluster.assert_empty();
    true
}

/// The kernel shows which INT comes from a key, so an INT from another process is passed on.
#[test]
fn a_job_in_the_foreground_gets_int_from_others() {
    let cluster = three();
    let script = "set -m
        JOB
        echo $? >\"$1/ended\"";
    let terminal = Terminal::start(&cluster, "--ttl 60s", script);
    assert_eq!(terminal.group("tool"), terminal.group("command"));
    kill_process(terminal.process("tool"), Signal::INT).expect("it runs");
    assert_eq!(terminal.line("ended"), "9");
    assert_eq!(terminal.line("ints"), "INT");
    cluster.assert_empty();
}

/// A terminal sends no INT to a group in the background, so an INT that the tool gets is passed on.
#[test]
fn a_job_that_went_to_the_background_gets_int_from_others() {
    let cluster = three();
    let script = "set -m
        JOB
        echo $? >\"$1/stopped\"
        bg
        : >\"$1/background\"
        wait
        echo $? >\"$1/ended\"";
    let mut terminal = Terminal::start(&cluster, "--ttl 60s", script);
    terminal.press(CTRL_Z);
    assert_eq!(terminal.line("stopped"), STOPPED);
    await_file(&terminal.path().join("background"));
    terminal.await_reading();
    kill_process(terminal.process("tool"), Signal::INT).expect("it runs");
    assert_eq!(terminal.line("ints"), "INT");
    // The shell may have forgotten the job, and its status, before it waits.
    assert_eq!(terminal.line("ended"), "0");
    cluster.assert_empty();
}
