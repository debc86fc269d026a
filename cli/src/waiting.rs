//! Prints lines while a command waits for a lock. The lines say who holds the lock, or why the nodes do not grant it.
//!
//! In the first second the command prints nothing. Then the command asks the nodes who holds the lock, and writes a
//! line to stderr. On a terminal, the command writes another line whenever the holder changes. If stderr is not a
//! terminal, the command reports only the first holder, and problems of the nodes.

use std::future::pending;
use std::io::{self, IsTerminal as _};
use std::mem;
use std::time::Duration;

use anstream::adapter::strip_str;
use shearline::internals::now;
use shearline::{HolderKind, Inspection, NodeOutcome, NodeStatus, OperatorError, Redlock};

use crate::failure::in_words;
use crate::inspect;
use crate::output::{self, listed, printable};
use crate::taking::next_look;

/// The time before the first request to the nodes, and the time between two requests.
const FIRST: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_secs(3);

/// The time between two requests if stderr is not a terminal and the holder was already printed.
const RARELY: Duration = Duration::from_secs(10);

/// The text for a free lock that the nodes did not grant.
const FREE: &str =
    "the lock is free, but was not granted yet; if this continues, `shearline nodes` shows why";

/// The reason if too few nodes have answered. The command then asks the nodes again soon, even without a terminal.
const FEW: &str = "too few nodes have answered";

/// A name, and what the nodes say about it.
type Told<'a> = (&'a [u8], Result<Inspection, OperatorError>);

/// If `talks` is set, prints why the nodes do not grant the lock on these names, and prints again when the reason
/// changes. Without a terminal, reports only the first holder, and problems of the nodes. The future never completes.
pub(crate) async fn talk(redlock: &Redlock, names: &[&[u8]], talks: bool) {
    let is_terminal = io::stderr().is_terminal();
    let (mut said, mut was_free, mut next) = (None, false, AGAIN);
    if !talks {
        return pending().await;
    }
    pause(FIRST).await;
    loop {
        let (name, told) = first_held(redlock, names).await;
        let is_free = told.as_ref().is_ok_and(Inspection::is_free);
        // The nodes may grant a free lock at any moment. If two checks in a row find the lock free, the nodes probably
        // do not grant it.
        let is_certain = mem::replace(&mut was_free, is_free) || !is_free;
        if let Some((reason, text)) = why(redlock, &told).filter(|_| is_certain) {
            let is_soon = is_terminal || reason == FEW;
            next = if is_soon { AGAIN } else { RARELY };
            let tells = is_terminal || said.is_none() || is_free || told.is_err();
            let news = Some((name, reason));
            if tells && said != news {
                let name = match is_free {
                    true => listed(names),
                    false => printable(name),
                };
                let line = format!("waiting for {name}: {}", in_words(text));
                output::complain(output::NOTE, line);
                said = news;
            }
        }
        pause(next).await;
    }
}

async fn pause(span: Duration) {
    let end = now().saturating_add(span);
    while now() < end {
        next_look().await;
    }
}

/// Returns why the nodes do not grant the lock: a short reason, and a text. The caller prints the text only if the
/// reason has changed.
fn why(redlock: &Redlock, told: &Result<Inspection, OperatorError>) -> Option<(String, String)> {
    Some(match told {
        Ok(told) if told.is_free() => {
            let text = refusal(&redlock.nodes());
            (text.clone(), text)
        }
        Ok(told) => {
            let state = inspect::state(told);
            let owner = told.holder().map(|holder| inspect::by(&holder.owner));
            (owner.unwrap_or_else(|| state.clone()), state)
        }
        Err(error @ OperatorError::NoQuorum(report)) => {
            let mut outcomes = report.nodes().iter().map(|node| &node.outcome);
            let is_refused = outcomes.any(|it| matches!(it, NodeOutcome::Refused(_)));
            let reason = if is_refused { "refused" } else { FEW };
            (reason.to_owned(), format!("{error:#}"))
        }
        // The request for the lock will fail with the same error.
        Err(_) => return None,
    })
}

/// Returns why the nodes do not grant a free lock. A node that refuses to write grants no lock, but still says that the
/// lock is free.
fn refusal(nodes: &[NodeStatus]) -> String {
    let Some(error) = nodes.iter().find_map(|node| node.refused) else {
        return FREE.to_owned();
    };
    let refuses = |node: &&NodeStatus| node.refused == Some(error);
    let all = nodes.iter().filter(refuses).map(|node| &*node.address);
    let (all, outcome) = (all.collect::<Vec<_>>(), NodeOutcome::Refused(error));
    format!(
        "the lock is free, but not granted: {} {outcome}",
        all.join(", ")
    )
}

/// Returns a text that says who holds the lock on these names, or that the key is not a lock.
pub(crate) async fn held(redlock: &Redlock, names: &[&[u8]]) -> Option<String> {
    let (name, told) = first_held(redlock, names).await;
    let is_known = |told: &Inspection| !told.holders().is_empty() || inspect::is_no_lock(told);
    let told = told.ok().filter(is_known)?;
    let (number, first) = (told.holders().len(), told.holders().first());
    let advice = match first.map(|it| (it.kind, it.valid_for)) {
        Some((HolderKind::Permit { permits, .. }, _)) if number < permits.into() => {
            format!("; `shearline run --permits {permits}` takes a free permit")
        }
        Some((HolderKind::Exclusive, Duration::MAX)) => {
            "; if no program needs the key, delete it with `shearline break --now`".to_owned()
        }
        _ => String::new(),
    };
    let state = inspect::state(&told);
    let lock = match names {
        [_] => format!("lock `{}`:", printable(name)),
        all => format!("lock on {}: `{}`:", listed(all), printable(name)),
    };
    let text = format!("{lock} {state}{advice}");
    Some(strip_str(&text).to_string())
}

/// Inspects one name after the other, and stops at the first name that is not free.
async fn first_held<'a>(redlock: &'a Redlock, names: &'a [&'a [u8]]) -> Told<'a> {
    let mut all = names.iter();
    loop {
        let name = all.next().expect("the last one is returned");
        let told = redlock.inspect_async(name).await;
        if all.len() == 0 || !told.as_ref().is_ok_and(Inspection::is_free) {
            return (name, told);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_no_node_refuses_may_still_be_granted() {
        assert_eq!(refusal(&[]), FREE);
    }
}
