//! Stories in separate namespaces, played by this test binary again.
//!
//! `unshare` starts the binary there, with the story in its environment. What a story changes in the namespaces ends
//! with them. If the system gives no namespaces, a test says so on the standard error, past the capture of the test
//! harness. In CI it fails.

use std::env;
use std::io;
use std::process::{Command, Output};
use std::thread;

use crate::parts::part_arguments;
use crate::variants::say_not_run;

/// The environment variable that names the story to play inside.
const STORY: &str = "SHEARLINE_TEST_IN_NAMESPACE";

/// The environment variable with the input of the story.
const INPUT: &str = "SHEARLINE_TEST_IN_NAMESPACE_INPUT";

/// The story that shows whether namespaces are available.
pub(crate) const PROBE: &str = "probe";

/// Namespaces, and the test that plays stories in them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Namespaces {
    /// The options of `unshare`.
    pub(crate) arguments: &'static [&'static str],
    /// The name of the test that runs inside.
    pub(crate) inside: &'static str,
}

impl Namespaces {
    /// Returns `true` if [`PROBE`] can be played. If not, the test is not run.
    pub(crate) fn can_be_had(self) -> bool {
        let probe = self.start(PROBE, "");
        if probe.as_ref().is_ok_and(|output| output.status.success()) {
            return true;
        }
        let inside = self.inside;
        let reason = format!("no namespaces here for {inside}: {probe:?}");
        say_not_run(&reason);
        assert!(env::var_os("CI").is_none(), "{reason}");
        false
    }

    /// Plays all stories side by side, each in namespaces of its own, if the system gives any.
    #[track_caller]
    pub(crate) fn play_all(self, stories: &[&str]) {
        if self.can_be_had() {
            thread::scope(|scope| {
                for story in stories {
                    scope.spawn(move || self.play(story, ""));
                }
            });
        }
    }

    /// Plays the story, which must succeed.
    #[track_caller]
    pub(crate) fn play(self, story: &str, input: &str) {
        let output = self.start(story, input).expect("as before");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{story}: {said}");
    }

    fn start(self, story: &str, input: &str) -> io::Result<Output> {
        let root = rustix::process::geteuid().is_root();
        Command::new("unshare")
            .args(self.arguments)
            .args((!root).then_some("--map-root-user"))
            .arg(env::current_exe().expect("this binary"))
            .args(part_arguments(self.inside))
            .env(STORY, story)
            .env(INPUT, input)
            .output()
    }
}

/// Returns the story to play and its input, or `None` outside the namespaces.
pub(crate) fn story_to_play() -> Option<(String, String)> {
    let story = env::var(STORY).ok()?;
    Some((story, env::var(INPUT).expect("there is one, if empty")))
}

/// Runs a command, whose words have no spaces in them, and which must succeed.
#[track_caller]
pub(crate) fn run(line: &str) {
    let mut words = line.split(' ');
    let command = words.next().expect("a command");
    let output = Command::new(command).args(words).output();
    let output = output.unwrap_or_else(|error| panic!("{line}: {error}"));
    assert!(output.status.success(), "{line}: {output:?}");
}
