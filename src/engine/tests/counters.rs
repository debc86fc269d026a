//! Stories of scans: how many counters of fencing tokens the nodes have, and which names of locks.

use super::*;
use crate::error::ServerError;
use crate::limits::{NAMES_MAX, SCAN_MAX};

type Counted = (u64, Option<NodeOutcome>);

impl World {
    /// Begins to count. Every node is asked from the first key on.
    fn count(&mut self) {
        self.begin_to_count();
        assert_eq!(self.take_all(), [["COUNT 0"]; 3]);
    }

    fn begin_to_count(&mut self) {
        self.engine.count_counters(self.now);
        self.drain();
    }

    /// `node` answers that it has counted `number` more counters, and continues at `cursor`.
    fn counts(&mut self, node: usize, number: u64, cursor: &str) {
        let len = cursor.len();
        self.say(node, &format!("*3|:{number}|:0|${len}|{cursor}|"));
    }

    #[track_caller]
    fn counted(&mut self) -> Vec<Counted> {
        let Event::CountersCounted { counters, .. } = self.event() else {
            panic!("nothing else was asked")
        };
        assert_eq!(self.engine.load().rounds, 0);
        counters
    }

    /// Begins to list the names with this prefix.
    fn list(&mut self, prefix: &str) {
        let begun = self.engine.names(self.now, prefix.as_bytes());
        begun.expect("locks can have such names");
        self.drain();
    }

    /// `node` answers that it has found these names, and continues at `cursor`. Long names are in pieces.
    fn lists<'a>(&mut self, node: usize, names: impl IntoIterator<Item = &'a str>, cursor: u64) {
        let pieces = names.into_iter().flat_map(|name| {
            let begins = (0..=name.len()).step_by(192);
            begins.map(|at| &name[at..name.len().min(at + 192)])
        });
        let pieces = pieces.map(|piece| format!("${}|{piece}|", piece.len()));
        let pieces: Vec<String> = pieces.collect();
        let (count, cursor) = (pieces.len(), cursor.to_string());
        let list = pieces.concat();
        let reply = format!("*3|:0|*{count}|{list}${}|{cursor}|", cursor.len());
        self.say(node, &reply);
    }

    /// Returns the names on each node, and the reason why there may be more.
    #[track_caller]
    fn listed(&mut self) -> Vec<(Vec<String>, Option<NodeOutcome>)> {
        let Event::NamesListed { names, .. } = self.event() else {
            panic!("nothing else was asked")
        };
        assert_eq!(self.engine.load().rounds, 0);
        let text = |name: &[u8]| String::from_utf8(name.to_vec()).expect("text");
        let lists = names.into_iter();
        lists
            .map(|(names, why)| (names.iter().map(|it| text(it)).collect(), why))
            .collect()
    }
}

/// A cursor may have more digits than fit into a number of Lua.
#[test]
fn each_node_goes_on_from_its_own_cursor_until_it_has_counted_all() {
    let mut world = World::ready(3);
    world.count();
    world.counts(0, 9_998, "18446744073709551615");
    world.counts(1, 7, "0");
    world.counts(2, 0, "96");
    let asked = [vec!["COUNT 18446744073709551615"], vec![], vec!["COUNT 96"]];
    assert_eq!(world.take_all(), asked);
    world.counts(0, 10_003, "5");
    world.counts(2, 0, "0");
    assert_eq!(world.take(0), ["COUNT 5"]);
    assert!(world.events.is_empty(), "node 0 has not counted all");
    world.counts(0, 1, "0");
    assert_eq!(world.counted(), [(20_002, None), (7, None), (0, None)]);
    assert_eq!(world.take_all(), [NOTHING; 3]);
}

/// The other nodes have ended long ago.
#[test]
fn a_node_with_very_many_keys_is_asked_for_ten_seconds() {
    let mut world = World::ready(3);
    world.count();
    let begun = world.now;
    world.counts(0, 3, "0");
    world.counts(2, 4, "0");
    for _ in 0..499 {
        world.sleep(20 * MS);
        world.counts(1, 10_000, "1");
    }
    assert!(world.events.is_empty());
    world.sleep_until_event();
    let late = world.now.saturating_since(begun).checked_sub(SCAN_MAX);
    assert!(late.is_some_and(|late| late <= 2 * MS), "{late:?}");
    let silent = Some(NodeOutcome::TimedOut);
    assert_eq!(world.counted(), [(3, None), (4_990_000, silent), (4, None)]);
}

/// The node is not asked again. A late answer adds nothing, even while another node still counts.
#[test]
fn a_node_that_falls_silent_has_counted_what_it_has_said() {
    let mut world = World::ready(3);
    world.count();
    world.counts(0, 9_000, "3");
    world.sleep(40 * MS);
    world.counts(0, 9_000, "5");
    world.counts(2, 1, "8");
    world.take_all();
    world.sleep(40 * MS);
    world.counts(2, 2, "9");
    world.sleep(40 * MS); // This is longer than the time for one answer.
    assert_eq!(world.take_all(), [vec![], vec![], vec!["COUNT 9"]]);
    world.counts(0, 9_000, "7");
    world.counts(1, 9_000, "7");
    assert_eq!(world.take_all(), [NOTHING; 3]);
    assert!(world.events.is_empty());
    world.counts(2, 4, "0");
    let silent = Some(NodeOutcome::TimedOut);
    assert_eq!(world.counted(), [(18_000, silent), (0, silent), (7, None)]);
    world.is_clean();
}

/// Each line: the answer of the node, and the reason why its counters are not known.
#[test]
fn a_node_that_does_not_count_says_why() {
    let protocol = NodeOutcome::Unreachable(LinkFault::Protocol.into());
    let scan = NodeOutcome::Unusable(Unusable::Permission { command: "scan" });
    let scripts = NodeOutcome::Unusable(Unusable::NeedsScripts);
    let busy = NodeOutcome::Refused(ServerError::from_line(b"BUSY"));
    let no_scan = "-ERR ACL failure in script: User u has no permissions to run 'scan'|";
    for (said, why) in [
        (NO_EVAL, scripts),
        (
            "-ERR unknown command 'EVAL', with args beginning with: |",
            scripts,
        ),
        (
            "-ERR The user executing the script can't run this command script: x|",
            scan,
        ),
        (no_scan, scan),
        ("-BUSY Redis is busy running a script.|", busy),
        (":7|", protocol),
        ("*3|:-1|:0|$1|0|", protocol),
        ("*3|:1|:0|$2|-1|", protocol),
        ("*3|:1|:0|$20|18446744073709551616|", protocol),
    ] {
        let mut world = World::ready(3);
        world.count();
        world.counts(0, 2, "0");
        world.say(1, said);
        assert!(world.events.is_empty(), "{said}");
        world.counts(2, 3, "0");
        let counted = world.counted();
        assert_eq!(counted[1].1, Some(why), "{said}");
        assert_eq!((counted[0], counted[2]), ((2, None), (3, None)), "{said}");
    }
}

#[test]
fn a_node_without_scripts_is_not_asked() {
    let mut world = World::with(named(3).without_scripts(true));
    for node in 0..3 {
        world.welcome(node);
        world.say(node, &format!("$11|run_id:run{node}|$-1|$-1|"));
    }
    world.take_all();
    world.begin_to_count();
    assert_eq!(world.take_all(), [NOTHING; 3]);
    let why = NodeOutcome::Unusable(Unusable::NeedsScripts);
    assert_eq!(world.counted(), [(0, Some(why)); 3]);
}

/// One node is lost while it counts, and another is in its handshake when the others are asked.
#[test]
fn a_node_that_is_lost_stays_uncounted_and_one_in_its_handshake_is_waited_for() {
    let mut world = World::ready(3);
    world.lose(2);
    world.welcome_again(2);
    world.take(2);
    world.begin_to_count();
    assert_eq!(world.take(2), NOTHING);
    world.counts(0, 5, "9");
    world.lose(0);
    world.counts(1, 6, "0");
    assert!(world.events.is_empty(), "node 2 has not greeted");
    world.finish_as(2, "another", 0);
    assert!(world.quarantined_until(2).is_some());
    assert_eq!(world.take(2), ["COUNT 0"]);
    world.counts(2, 7, "0");
    let lost = NodeOutcome::Unreachable(LinkFault::Reset.into());
    assert_eq!(world.counted(), [(5, Some(lost)), (6, None), (7, None)]);
}

#[test]
fn each_node_lists_each_name_once_until_no_keys_are_left() {
    let mut world = World::ready(3);
    let long = [191, 192, 193, 384, 1024].map(|len| "n".repeat(len));
    world.list("");
    assert_eq!(world.take_all(), [["LIST 0 "]; 3]);
    world.lists(0, ["b", "a"], 7);
    world.lists(1, long.iter().map(String::as_str), 0);
    world.lists(2, [], 0);
    assert_eq!(world.take_all(), [vec!["LIST 7 "], vec![], vec![]]);
    assert!(world.events.is_empty(), "node 0 has not listed all");
    world.lists(0, ["a", "B"], 0);
    let listed = world.listed();
    assert_eq!(
        listed[0],
        (["B", "a", "b"].map(String::from).to_vec(), None)
    );
    assert_eq!(listed[1], (long.to_vec(), None));
    assert_eq!(listed[2], (vec![], None));
    world.is_clean();
}

/// A node with more names is not asked for them.
#[test]
fn a_thousand_names_of_a_node_are_listed() {
    let mut world = World::ready(3);
    world.list("n");
    world.take_all();
    let names: Vec<String> = (0..=NAMES_MAX).map(|name| format!("n{name:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.lists(0, names[..NAMES_MAX].iter().copied(), 7);
    world.lists(1, names.iter().copied(), 7);
    world.lists(2, ["n"], 0);
    assert_eq!(world.take_all(), [vec!["LIST 7 n"], vec![], vec![]]);
    world.lists(0, [names[3]], 0);
    let listed = world.listed();
    let full = Some(NodeOutcome::Pending);
    let counts: Vec<_> = listed
        .iter()
        .map(|(names, why)| (names.len(), *why))
        .collect();
    assert_eq!(counts, [(NAMES_MAX, None), (NAMES_MAX, full), (1, None)]);
}

/// Each line: the answer of the node, and the reason why its names are not known.
#[test]
fn a_node_that_lists_no_names_says_why() {
    let protocol = NodeOutcome::Unreachable(LinkFault::Protocol.into());
    let lacks = |command| NodeOutcome::Unusable(Unusable::Permission { command });
    for (said, why) in [
        (":-1|", lacks("strlen")),
        (":-2|", lacks("type")),
        (
            "-ERR ACL failure in script: User u has no permissions to run 'scan'|",
            lacks("scan"),
        ),
        (NO_EVAL, NodeOutcome::Unusable(Unusable::NeedsScripts)),
        (":0|", protocol),
        ("*3|:0|*1|:1|$1|0|", protocol),
        ("*2|*0|$1|0|", protocol),
    ] {
        let mut world = World::ready(3);
        world.list("n");
        world.lists(0, ["n"], 0);
        world.lists(2, [], 0);
        world.say(1, said);
        let listed = world.listed();
        assert_eq!(listed[1], (vec![], Some(why)), "{said}");
        assert_eq!(listed[0].1.or(listed[2].1), None, "{said}");
    }
}

/// Names do not include the prefix of the handle. A node that lists other keys is not believed.
#[test]
fn names_are_listed_without_the_prefix_of_the_handle() {
    for (prefix, asked) in [("", "LIST 0 app:"), ("n", "LIST 0 app:n")] {
        let mut world = World::with(named(3).key_prefix("app:")).greeted();
        world.list(prefix);
        assert_eq!(world.take_all(), [[asked]; 3]);
        for node in 0..3 {
            world.lists(node, ["app:n1", "n2", "app", "app:"], 0);
        }
        assert_eq!(world.listed(), vec![(vec![String::from("n1")], None); 3]);
    }
    let mut world = World::ready(3);
    for prefix in ["shearline:", &"n".repeat(1025)] {
        assert!(world.engine.names(world.now, prefix.as_bytes()).is_err());
    }
}

/// A node that lists other keys than it was asked for is not believed: keys of the library, keys without the prefix,
/// and names that no lock can have.
#[test]
fn only_names_that_were_asked_for_and_that_locks_can_have_are_listed() {
    let mut world = World::ready(3);
    let long = "n".repeat(1025);
    world.list("n");
    world.take_all();
    for node in 0..3 {
        world.lists(node, ["n1", "shearline:marker", "other", &long], 0);
    }
    let listed = world.listed();
    let kept: Vec<_> = listed[0].0.iter().map(|name| name.len()).collect();
    assert_eq!(
        listed,
        vec![(vec![String::from("n1")], None); 3],
        "{kept:?}"
    );
}

/// The last piece of the last name says that the name continues.
#[test]
fn a_list_that_ends_within_a_name_is_not_complete() {
    let mut world = World::ready(3);
    world.list("n");
    world.take_all();
    let piece = "n".repeat(192);
    world.say(0, &format!("*3|:0|*1|$192|{piece}|$1|0|"));
    world.lists(1, [], 0);
    world.lists(2, [], 0);
    let listed = world.listed();
    assert_ne!(listed[0], (vec![], None));
}

/// An answer without a list of names is no complete list.
#[test]
fn an_answer_without_a_list_of_names_breaks_the_protocol() {
    for said in ["*3|:0|:5|$1|0|", "*3|:0|$1|x|$1|0|", "*3|:0|*-1|$1|0|"] {
        let mut world = World::ready(3);
        world.list("n");
        world.take_all();
        world.lists(0, [], 0);
        world.lists(2, [], 0);
        world.say(1, said);
        assert!(world.listed()[1].1.is_some(), "{said}");
    }
}
