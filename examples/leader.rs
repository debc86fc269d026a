//! Two candidates in one election, and an observer that sees each term.
//!
//! The first leader resigns. The second leader hangs, so its lock is no longer extended. This example simulates the
//! hang with a lock that is kept only for a short time. The third term begins when this lock has expired.

use std::error::Error;
use std::thread;
use std::time::Duration;

use shearline::{Leader, LockOptions, Observer, Redlock};

mod nodes;

const TTL: Duration = Duration::from_secs(2);

/// How long the program may wait for the next leader.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let nodes = nodes::nodes();
    let election = format!("scheduler:{}", std::process::id());
    let redlock = Redlock::connect(&nodes.urls)?;
    give_floors(&redlock, &election);
    let mut observer = redlock.observe(&election)?;

    let first = redlock.campaign(&election, "10.0.0.1:8080", TTL)?;
    let seen = next_leader(&mut observer)?;
    assert_eq!(
        (&*seen.owner, seen.term),
        (&b"10.0.0.1:8080"[..], first.term())
    );

    // The second candidate waits until the first one resigns.
    let candidate = thread::spawn({
        let (redlock, election) = (redlock.clone(), election.clone());
        let short = LockOptions::new(TTL).keep_for(TTL).wait(PATIENCE);
        move || redlock.campaign_with(&election, "10.0.0.2:8080", &short)
    });
    thread::sleep(Duration::from_millis(300));
    first.resign()?;
    let second = candidate
        .join()
        .map_err(|_| "the candidate has panicked")??;
    assert_eq!(next_leader(&mut observer)?.term, second.term());

    // The leader learns in time that its term is about to end. The next term begins without any action of this leader.
    assert!(second.at_risk().wait(PATIENCE), "its lock is not extended");
    println!("{:<16} is at risk", "10.0.0.2:8080");
    assert!(second.lost().wait(PATIENCE), "its term is over");
    let third = redlock.campaign(&election, "10.0.0.1:8080", TTL)?;
    assert!(second.term() < third.term());
    assert_eq!(next_leader(&mut observer)?.term, third.term());

    drop(third); // Dropping the lock resigns too.
    match observer.next(PATIENCE) {
        Some(None) => {
            println!("there is no leader");
            Ok(())
        }
        other => Err(format!("the last leader has resigned: {other:?}").into()),
    }
}

/// Returns the next leader that the observer reports.
fn next_leader(observer: &mut Observer) -> Result<Leader, Box<dyn Error>> {
    loop {
        match observer.next(PATIENCE).ok_or("no leader is elected")? {
            Some(leader) => {
                println!(
                    "{:<16} leads in term {}",
                    leader.owner.escape_ascii(),
                    leader.term
                );
                return Ok(leader);
            }
            None => println!("there is no leader"),
        }
    }
}

/// Gives the nodes counter floors, as an operator does once. Without counter floors, new nodes give no fencing tokens.
fn give_floors(redlock: &Redlock, election: &str) {
    let once = LockOptions::new(TTL).tries(1);
    if redlock.campaign_with(election, "", &once).is_err() {
        redlock.trust_nodes();
    }
}
