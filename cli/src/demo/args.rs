//! The arguments of the demo.

use std::time::Duration;

/// Shows the lock at work and checks that it excludes. Needs nothing installed.
///
/// Several workers contend for one lock while they update a counter that is not atomic. Without
/// `--node` it uses five nodes in this process, of which two are stopped in the middle and come
/// back. The verdict at the end says whether the counter is right, whether two workers were ever in
/// the critical section at once, and whether a key was left behind.
///
/// The percentiles show the time from each call of lock() to the grant, including the wait for the
/// other workers. A suspect node is silent: it gets no new lock until it answers.
///
/// The exit status is 0 only if the verdict is good. Ctrl-C ends the demo early, with
/// the verdict. Without a terminal it writes one line each second. NO_COLOR is honoured.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A real server to use instead. Give the option once for each: redis://user:password@host:port/db,
    /// unix:///path or host:port.
    ///
    /// The demo stops none of them. To see what a frozen node does, freeze one yourself (kill -STOP
    /// with the process id that `redis-cli info server` shows), and let it go on later (kill -CONT). A minority of them may be down. The demo uses one key, named shearline-demo: and a number.
    #[arg(long, value_name = "URL")]
    pub(super) node: Vec<String>,

    /// How long it runs.
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) seconds: u64,

    /// How many threads contend.
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(super) workers: u16,

    /// The ttl of each lock, such as 500ms or 2s; it is also the handle's max_ttl.
    #[arg(long, default_value = "2s", value_parser = ttl)]
    pub(super) ttl: Duration,
}

impl Args {
    pub(super) fn length(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

/// Parses a ttl of 50 ms to a minute. Shorter ones expire when the machine is busy. Longer ones would
/// leave the key of a crashed demo for too long.
fn ttl(text: &str) -> Result<Duration, String> {
    let ttl = duration(text).ok_or("a whole number with ms or s is wanted, such as 500ms or 2s")?;
    match (Duration::from_millis(50)..=Duration::from_secs(60)).contains(&ttl) {
        true => Ok(ttl),
        false => Err("it has to be from 50ms to 60s".into()),
    }
}

fn duration(text: &str) -> Option<Duration> {
    let number = |digits: &str| digits.parse().ok();
    match text.strip_suffix("ms") {
        Some(digits) => number(digits).map(Duration::from_millis),
        None => number(text.strip_suffix('s')?).map(Duration::from_secs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_has_a_unit_and_bounds() {
        for (text, millis) in [
            ("50ms", Some(50)),
            ("2s", Some(2_000)),
            ("60s", Some(60_000)),
            ("49ms", None),
            ("61s", None),
            ("2", None),
            ("s", None),
            ("", None),
            ("-1s", None),
            ("1.5s", None),
            ("99999999999999999999s", None),
        ] {
            assert_eq!(ttl(text).ok(), millis.map(Duration::from_millis), "{text}");
        }
    }
}
