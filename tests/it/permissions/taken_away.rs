//! One node of three forbids one command after the other while locks are held. No lock is lost by that: each is
//! extended and released, and no key is left when all commands are permitted again.

use super::*;
use crate::effort::is_long;
use crate::sets::msetex::has_it;

/// The commands that take, keep and release a lock, in an order in which each way to do so is the only one for a while.
const COMMANDS: [&str; 13] = [
    "script|load",
    "evalsha",
    "eval",
    "delifeq",
    "msetex",
    "pttl",
    "pexpire",
    "get",
    "watch",
    "exec",
    "multi",
    "del",
    "set",
];

/// Everything that a lock needs with scripts, and without.
const ALL: &str = "~lock:* +set +get +del +pttl +pexpire +eval +evalsha +script|load +watch +multi +exec \
    +info +time +client|tracking +client|caching";

fn all(cluster: &Cluster, native: bool) -> String {
    let several = has_it(&mut cluster[0].raw());
    let more = [(native, " +delifeq"), (several, " +msetex")];
    let more = more.into_iter().filter(|(has, _)| *has);
    [ALL]
        .into_iter()
        .chain(more.map(|(_, rule)| rule))
        .collect()
}

/// Forbids these commands to the user of these tests on the first node.
fn forbid(cluster: &Cluster, rules: &str, commands: &[&str]) {
    let is_left = |rule: &&str| {
        let word = rule.strip_prefix('+');
        word.is_none_or(|word| !commands.contains(&word))
    };
    let left: Vec<&str> = rules.split(' ').filter(is_left).collect();
    let line = format!("ACL SETUSER some reset on >secret {}", left.join(" "));
    let said = cluster[0].raw().run(&line);
    assert_matches!(said, Reply::Simple(_), "{line}: {said:?}");
}

#[test]
fn a_node_that_forbids_one_command_after_the_other_ends_no_lock() {
    for (cluster, native) in clusters() {
        // The last two in the long run.
        let ways = [
            (Which::Shared, true),
            (Which::Local, false),
            (Which::Local, true),
            (Which::Shared, false),
        ];
        for (which, scripts) in ways.into_iter().take(if is_long() { 4 } else { 2 }) {
            permit(&cluster, &all(&cluster, native));
            let urls = cluster.iter().map(|server| server.url_with("some:secret"));
            let mut face = which.build(at(urls).without_scripts(!scripts));
            let said = format!("{which:?}, scripts: {scripts}, native: {native}");
            for (place, command) in COMMANDS.into_iter().enumerate() {
                let mut lock = face.lock("lock:a", LONG / 2).expect("two suffice");
                let mut both = face
                    .try_lock_all(["lock:b", "lock:c"], LONG / 2)
                    .expect("two suffice");
                forbid(&cluster, &all(&cluster, native), &COMMANDS[..=place]);
                for held in [&mut lock, &mut both] {
                    face.extend(held, LONG)
                        .unwrap_or_else(|error| panic!("{said}, without {command}: {error}"));
                    face.confirm(held)
                        .unwrap_or_else(|error| panic!("{said}, without {command}: {error}"));
                }
                for held in [lock, both] {
                    let released = face.unlock(held);
                    let released = released
                        .unwrap_or_else(|error| panic!("{said}, without {command}: {error}"));
                    assert!(
                        2 <= released.deleted,
                        "{said}, without {command}: {released:?}"
                    );
                }
                for key in ["lock:a", "lock:b", "lock:c"] {
                    let others = || cluster.values(key)[1..].iter().flatten().count();
                    face.until("the others have given it back", |_| others() == 0);
                }
            }
            permit(&cluster, &all(&cluster, native));
            for key in ["lock:a", "lock:b", "lock:c"] {
                face.assert_gone(&cluster, key);
            }
            let lock = face.lock("lock:a", LONG).expect("all is permitted");
            face.unlock(lock).expect("held");
            face.assert_gone(&cluster, "lock:a");
        }
    }
}
