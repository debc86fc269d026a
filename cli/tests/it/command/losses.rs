//! Whatever is lost, no process of the command is alive when another client holds the lock.
//!
//! The oracle is a `flock` of the command's own, on a descriptor that all of its descendants inherit. The next holder
//! takes the lock on another handle as soon as it may and asks for the same `flock`, without waiting. This must never
//! fail.
//!
//! For each loss, the short run has a third of the shapes. Each loss has other shapes, so that every shape is played.
//!
//! | variable | what it sets | without it |
//! | --- | --- | --- |
//! | `SHEARLINE_RUN_ROUNDS` | the rounds of each loss, with every shape of a command in each | 1 |
//! | `SHEARLINE_RUN_AT_ONCE` | how many commands run at the same time in a round | all shapes |
//! | `SHEARLINE_RUN_MANY` | the descendants of the shape `many` | 100 |
//! | `SHEARLINE_RUN_TTL` | the ttl of their locks, in seconds | 6, in the long run 12 |
//! | `SHEARLINE_RUN_SHAPE` | the only shape, such as `many` | all of them |
//! | `SHEARLINE_RUN_SECONDS` | after this time no round begins | no limit |

use std::env;
use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use shearline::{LockOptions, Redlock, RestartGuard, Retry};
use tempfile::TempDir;

use super::tool::{Tool, code, run};
use crate::effort::is_long;
use crate::face::at;
use crate::servers::{self, Cluster, Mischief, Proxy, Server, Way, within_patience};

/// The ttl of the next holder.
const TTL: Duration = Duration::from_secs(30);

/// Takes the `flock`. Every descendant inherits the descriptor.
const ALONE: &str = "exec 9>>\"$1/flock\"; flock -n 9 || exit 99; ";

/// A name, and a script.
type Shape = (&'static str, &'static str);

/// The shapes of commands: what they do, and what they leave behind. Each makes the file `ready`, and ends by itself
/// after a minute.
static SHAPES: [Shape; 9] = [
    ("plain", ": >\"$1/ready\"; exec sleep 60"),
    (
        "ignores TERM",
        "trap '' TERM; : >\"$1/ready\"; sleep 60; sleep 60",
    ),
    (
        "a session of its own",
        "setsid sh -c 'trap \"\" TERM; : >\"$1/ready\"; sleep 60' sh \"$1\" & sleep 60",
    ),
    (
        "forked twice",
        "(setsid sh -c 'trap \"\" TERM; sleep 60 & : >\"$1/ready\"' sh \"$1\" &); trap '' TERM; sleep 60",
    ),
    (
        "many",
        "trap '' TERM; n=0; while [ $n -lt $MANY ]; do sleep 60 & n=$((n + 1)); done; : >\"$1/ready\"; wait",
    ),
    (
        "stopped",
        "sleep 60 & kill -STOP $!; : >\"$1/ready\"; kill -STOP $$; sleep 60",
    ),
    (
        "a chain that forks and exits",
        "trap '' TERM; : >\"$1/ready\"; sh \"$1/chain\" \"$1\" & sleep 60",
    ),
    // A process with much memory takes long to end.
    (
        "large",
        "dd if=/dev/zero bs=128M count=1 2>/dev/null | \
         { head -c 1 >/dev/null; : >\"$1/ready\"; sleep 60; }",
    ),
    (
        "shells in between",
        "dash -c 'bash -c \"trap : TERM; : >\\\"$1/ready\\\"; sleep 60; sleep 60\" bash \"$1\"; sleep 60' dash \"$1\"",
    ),
];

/// A link of the chain. It ends when the folder is gone.
const CHAIN: &str = "[ -e \"$1/ready\" ] || exit; sleep 0.005; sh \"$0\" \"$1\" & exit";

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Loss {
    NodesSilent,
    NodesStopped,
    ToolKilled,
    /// The tool is stopped, and continued after another client has held the lock.
    ToolStopped,
    WatchdogKilled,
    WatchdogStopped,
}

impl Loss {
    fn inject(self, tool: &Tool) {
        match self {
            // These losses concern all commands at once.
            Self::NodesSilent | Self::NodesStopped => {}
            Self::ToolKilled => tool.signal(Signal::KILL),
            Self::ToolStopped => tool.signal(Signal::STOP),
            Self::WatchdogKilled => kill_process(tool.watchdog(), Signal::KILL).expect("it runs"),
            Self::WatchdogStopped => kill_process(tool.watchdog(), Signal::STOP).expect("it runs"),
        }
    }

    /// The status of the tool.
    fn status(self) -> i32 {
        match self {
            Self::ToolKilled => 128 + 9,
            Self::NodesSilent
            | Self::NodesStopped
            | Self::ToolStopped
            | Self::WatchdogKilled
            | Self::WatchdogStopped => 74,
        }
    }
}

/// The amount of play.
#[derive(Clone, Copy, Debug)]
struct Plan {
    rounds: u32,
    at_once: usize,
    many: u32,
    ttl: u32,
    seconds: u64,
}

impl Plan {
    fn new() -> Self {
        let number = |name: &str, default| {
            let said = env::var(format!("SHEARLINE_RUN_{name}")).ok();
            said.map_or(default, |said| said.parse().expect("a number"))
        };
        let shapes = u32::try_from(SHAPES.len()).expect("few");
        Self {
            rounds: number("ROUNDS", 1),
            at_once: number("AT_ONCE", shapes) as usize,
            many: number("MANY", 100),
            ttl: number("TTL", if is_long() { 12 } else { 6 }),
            seconds: number("SECONDS", u32::MAX).into(),
        }
    }
}

/// The servers. The commands reach them through proxies, the next holders directly.
struct World {
    plan: Plan,
    cluster: Cluster,
    proxies: Vec<Proxy>,
    next: Redlock,
}

impl World {
    fn new() -> Self {
        let cluster = servers::three();
        let proxies = cluster.iter().map(Server::address).map(Proxy::to).collect();
        let tight = Retry::new(1, Duration::from_millis(1)..=Duration::from_millis(2));
        // No server restarts, so nothing depends on when it was first connected.
        let next = at(cluster.urls())
            .retry(tight)
            .restart_guard(RestartGuard::Off);
        let next = next.build().expect("a good configuration");
        Self {
            plan: Plan::new(),
            cluster,
            proxies,
            next,
        }
    }

    /// Silences a majority for the commands, or lets it answer again.
    fn silence(&self, silent: bool) {
        for proxy in &self.proxies[1..] {
            proxy.set(match silent {
                true => Mischief::Hold(Way::ToServer),
                false => Mischief::None,
            });
        }
    }

    fn start(&self, loss: Loss, shape: &Shape) -> Story {
        let (shape, script) = shape;
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path();
        fs::write(path.join("chain"), CHAIN).expect("a file");
        let name = format!("{loss:?}, {shape}");
        let said = File::create(path.join("said")).expect("a file");
        let urls: Vec<String> = self.proxies.iter().map(Proxy::url).collect();
        let ttl = self.plan.ttl.to_string();
        let mut command = run(&urls, &["--ttl", &ttl, &name, "--"]);
        command
            .env("MANY", self.plan.many.to_string())
            .args(["sh", "-c", &format!("{ALONE}{script}"), "sh"])
            .arg(path)
            .stdout(said.try_clone().expect("a descriptor"))
            .stderr(said);
        let tool = Tool::start(&mut command);
        let ready = within_patience(|| path.join("ready").exists().then_some(()));
        let said = || fs::read_to_string(path.join("said")).expect("a file");
        assert!(ready.is_some(), "{name} does not run: {}", said());
        Story { name, folder, tool }
    }

    /// Takes the lock as soon as possible, and starts the same command.
    fn follow(&self, story: &Story) {
        let name = &story.name;
        let options = LockOptions::new(TTL).wait(Duration::from_secs(60));
        let guard = self.next.lock_with(name, &options).expect("it is free");
        let mut command = Command::new("sh");
        command.args(["-c", ALONE, "sh"]).arg(story.folder.path());
        let status = command.stdin(Stdio::null()).status().expect("a shell");
        assert_eq!(code(status), 0, "{name}: the one before is still alive");
        guard.unlock().expect("held");
    }

    /// Stops a majority until every present lock has ended.
    fn stop_nodes(&self) {
        for server in &self.cluster[1..] {
            server.freeze();
        }
        thread::sleep(Duration::from_secs(self.plan.ttl.into()));
        for server in &self.cluster[1..] {
            server.thaw();
        }
    }

    /// Plays these shapes at the same time.
    fn play(&self, loss: Loss, shapes: &[&'static Shape]) {
        let stories: Vec<Story> = thread::scope(|scope| {
            let start = |shape| scope.spawn(move || self.start(loss, shape));
            let starting: Vec<_> = shapes.iter().copied().map(start).collect();
            let started = starting.into_iter().map(|story| story.join());
            started.map(|story| story.expect("it started")).collect()
        });
        thread::scope(|scope| {
            for story in &stories {
                scope.spawn(|| self.follow(story));
            }
            self.silence(loss == Loss::NodesSilent);
            for story in &stories {
                loss.inject(&story.tool);
            }
            if loss == Loss::NodesStopped {
                self.stop_nodes();
            }
        });
        for story in stories {
            story.finish(loss);
        }
        self.silence(false);
    }
}

/// A command that runs.
struct Story {
    name: String,
    folder: TempDir,
    tool: Tool,
}

impl Story {
    fn finish(self, loss: Loss) {
        if loss == Loss::ToolStopped {
            self.tool.signal(Signal::CONT);
        }
        let (status, name) = (self.tool.wait(), self.name);
        let said = fs::read_to_string(self.folder.path().join("said")).expect("a file");
        assert_eq!(code(status), loss.status(), "{name}: {said}");
    }
}

fn play(loss: Loss) {
    let world = World::new();
    let (plan, start) = (world.plan, Instant::now());
    let only = env::var("SHEARLINE_RUN_SHAPE").ok();
    let is_played = |number: usize, name: &str| match &only {
        Some(only) => only == name,
        None => is_long() || number % 3 == loss as usize % 3,
    };
    let numbered = SHAPES.iter().enumerate();
    let played = numbered.filter(|(number, (name, _))| is_played(*number, name));
    let played: Vec<&'static Shape> = played.map(|(_, shape)| shape).collect();
    assert!(!played.is_empty(), "there is no such shape: {only:?}");
    let all = played.len().saturating_mul(plan.rounds as usize);
    let all: Vec<&'static Shape> = played.into_iter().cycle().take(all).collect();
    for shapes in all.chunks(plan.at_once.clamp(1, SHAPES.len())) {
        if plan.seconds <= start.elapsed().as_secs() {
            break;
        }
        world.play(loss, shapes);
        let names: Vec<&str> = shapes.iter().map(|(name, _)| *name).collect();
        println!("{loss:?}: {}", names.join(", "));
    }
    world.cluster.assert_empty();
}

#[test]
fn silent_nodes_end_the_command_in_time() {
    play(Loss::NodesSilent);
}

#[test]
fn stopped_nodes_end_the_command_in_time() {
    play(Loss::NodesStopped);
}

#[test]
fn a_killed_tool_ends_the_command() {
    play(Loss::ToolKilled);
}

#[test]
fn a_stopped_tool_ends_the_command_in_time() {
    play(Loss::ToolStopped);
}

#[test]
fn a_killed_watchdog_ends_the_command() {
    play(Loss::WatchdogKilled);
}

#[test]
fn a_stopped_watchdog_ends_the_command() {
    play(Loss::WatchdogStopped);
}
