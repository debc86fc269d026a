//! Stories of the information that a holder gives about itself: the owner text of its lock, and its fencing token.

use super::fencing::{PROPOSED, timed};
use super::inspect::ONE;
use super::inspection::{Found, HolderKind, Inspection};
use super::*;
use crate::limits::OWNER_BYTES_MAX;
use crate::resource::{NUMBER_MARK, WANTED_MARK, name_number};
#[cfg(feature = "std")]
use crate::shared::{Leader, Told};

fn options() -> LockOptions {
    once().owner("a:1")
}

/// Makes nodes that were asked for a fenced lock with an owner, and would have given these numbers.
fn asked_for_others(numbers: [u64; 3]) -> World {
    let mut world = timed();
    world.acquire(&options().fenced());
    for sent in world.take_all() {
        assert_eq!(sent, [format!("TAKE k {PROPOSED}")]);
    }
    would_give(&mut world, numbers);
    world
}

/// Two nodes would give these numbers, which ends the attempt. The third node answers late, together with its release.
fn would_give(world: &mut World, numbers: [u64; 3]) {
    for (node, number) in numbers.into_iter().enumerate() {
        world.say(node, &format!("*3|:0|:0|:{number}|"));
    }
    world.say(2, ":0|");
}

fn grants(world: &mut World, number: u64) {
    let digits = number.to_string();
    world.all_say(0..3, &format!("${}|{digits}|", digits.len()));
}

/// Returns the inspection of `lock` by another client.
fn inspected(lock: &Lock) -> Inspection {
    inspected_on(3, Some(lock.token().as_bytes().to_vec()))
}

/// Returns the inspection of a lock with this token, if only this number of nodes answers. Without a token there is no
/// key.
fn inspected_on(nodes: usize, token: Option<Vec<u8>>) -> Inspection {
    let mut world = World::ready(3);
    world.engine.watch(world.now, b"k", None).expect("asked");
    world.drain();
    let token = token.unwrap_or_default();
    let left = if token.is_empty() { 0 } else { 5_001 };
    let head = format!("+OK\r\n+OK\r\n*3\r\n:{left}\r\n:0\r\n${}\r\n", token.len());
    let reply = [head.as_bytes(), &token, b"\r\n"].concat();
    (nodes..3).for_each(|node| world.lose(node));
    for node in (0..nodes).map(id) {
        let bytes = &reply[..];
        world.input(Input::Received { node, bytes });
    }
    world.told().expect("a watch always tells")
}

#[test]
fn a_lock_has_its_own_owner_also_if_it_has_waited() {
    let mut world = World::with(named(3).owner("of the handle")).greeted();
    world.acquire(&once());
    world.all_say(0..3, "+OK|");
    let first = world.lock();
    assert_eq!(first.token().owner(), b"of the handle");
    world.acquire(&LockOptions::new(TTL).wait(TTL).owner("a:1"));
    world.give_back(first);
    world.all_say(0..3, ":1|");
    world.all_say(0..3, "+OK|");
    let second = world.lock();
    assert_eq!(second.token().owner(), b"a:1");
    assert_eq!(second.token().number(), None);
    // The report of a call that this handle itself refuses has the owner too.
    world.acquire(&once());
    assert_eq!(world.held_by_another().holder(), Some(&b"a:1"[..]));
    world.give_back(second);
}

/// Takes a shared lock with an owner of its own, and without a fencing token. The token of a fenced shared lock names
/// no number, because nodes may give it another one.
#[test]
fn a_shared_lock_has_its_own_owner() {
    let mut world = timed();
    for (options, number) in [(options(), None), (options().fenced(), Some(PROPOSED + 7))] {
        world.read_with(&options);
        let numbered = |number| format!("*3|:1|:0|:{number}|");
        let reply = number.map_or(":1|".into(), numbered);
        world.all_say(0..3, &reply);
        let lock = world.lock();
        assert_eq!(lock.token().owner(), b"a:1");
        assert_eq!(lock.fencing_token(), number);
        assert_eq!(lock.token().number(), None);
        world.give_back(lock);
        world.all_say(0..3, ":1|");
        world.take_all();
    }
}

#[test]
fn an_owner_has_at_most_64_bytes() {
    let mut world = World::ready(3);
    let long = [b'o'; OWNER_BYTES_MAX + 1];
    let options = once().owner(long);
    let refused = world.invalid(&Request::new(b"k", &options));
    let bytes = OWNER_BYTES_MAX + 1;
    let too_long = InvalidRequest(RequestFault::OwnerTooLong { bytes });
    assert_eq!(refused, too_long);
    let most = options.owner(&long[1..]);
    world.acquire(&most);
    world.all_say(0..3, "+OK|");
    let lock = world.lock();
    assert_eq!(lock.token().owner(), &long[1..]);
    world.give_back(lock);
}

#[test]
fn the_token_of_a_fenced_lock_with_an_owner_names_its_number() {
    let mut world = timed();
    world.acquire(&options().fenced());
    grants(&mut world, PROPOSED);
    let lock = world.lock();
    assert_eq!(lock.fencing_token(), Some(PROPOSED));
    let told = inspected(&lock);
    let holder = told.holder().expect("held");
    assert_eq!(holder.fencing_token, lock.fencing_token());
    assert_eq!(holder.kind, HolderKind::Exclusive);
    assert_eq!(&*holder.owner, b"a:1");
    let (text, number) = (told.to_string(), format!("fencing token {PROPOSED}"));
    assert!(text.contains(&number), "{text}");
    world.give_back(lock);
    // Without an owner, the token names no number, because nodes may give other numbers then.
    world.all_say(0..3, ":1|");
    world.acquire(&once().fenced());
    grants(&mut world, PROPOSED + 1);
    let lock = world.lock();
    let told = inspected(&lock);
    assert_eq!(told.holder().expect("held").fencing_token, None);
    world.give_back(lock);
}

#[test]
fn nodes_that_would_give_another_number_are_asked_again_with_the_largest() {
    let mut world = asked_for_others([PROPOSED + 5, PROPOSED + 9, PROPOSED + 2]);
    world.sleep_until_timer();
    for sent in world.take_all() {
        let proposed = format!("by digest TAKE k {}", PROPOSED + 9);
        assert_eq!(sent.last(), Some(&proposed));
    }
    grants(&mut world, PROPOSED + 9);
    let lock = world.lock();
    assert_eq!(lock.fencing_token(), Some(PROPOSED + 9));
    assert_eq!(lock.token().number(), lock.fencing_token());
    assert_eq!(lock.token().as_bytes()[8..13], WANTED_MARK);
    world.give_back(lock);
    let stats = world.engine.stats();
    assert_eq!(stats.second_round_trips, 1);
    // The next lock is asked for as usual.
    world.all_say(0..3, ":1|");
    world.acquire(&options().fenced());
    grants(&mut world, PROPOSED + 10);
    let lock = world.lock();
    assert_eq!(lock.token().as_bytes()[8..13], NUMBER_MARK);
    world.give_back(lock);
    assert_eq!(world.engine.stats().second_round_trips, 1);
}

#[test]
fn an_attempt_is_repeated_twice_for_its_number() {
    let mut world = asked_for_others([PROPOSED + 1; 3]);
    for number in 1..3 {
        world.pass(MS);
        let proposed = format!("by digest TAKE k {}", PROPOSED + number);
        assert_eq!(world.take(0), [proposed]);
        would_give(&mut world, [PROPOSED + number + 1; 3]);
    }
    world.no_quorum();
}

/// `node` answers that it has this set.
fn has_set(world: &mut World, node: usize, members: &[(&str, u64)]) {
    let last = members.iter().map(|(_, left)| left).max().expect("one");
    let mut reply = format!("*3|:{}|:0|*{}|", last + 1, 2 * members.len());
    for (member, left) in members {
        reply += &format!("${}|{member}|:{left}|", member.len());
    }
    world.say(node, &reply);
}

/// Readers, or permits with their slots.
#[test]
fn all_holders_are_shown_that_a_majority_has() {
    let permit = |slot| HolderKind::Permit { permits: 4, slot };
    for (prefixes, kinds, text) in [
        (
            ["r", "r"],
            [HolderKind::Shared; 2],
            "shared for a by 2 nodes, ",
        ),
        (
            ["4/0", "4/3"],
            [permit(0), permit(3)],
            "slot 0 of 4 held for a by 2 nodes, ",
        ),
    ] {
        let mut world = World::ready(3);
        world.inspect();
        let [one, other] = [0, 1].map(|at| format!("{}/{ONE}{}", prefixes[at], ["a", "b"][at]));
        let lone = format!("{}/{ONE}c", prefixes[0].replace('0', "1"));
        has_set(&mut world, 0, &[(&one, 4_000), (&other, 5_000)]);
        has_set(&mut world, 1, &[(&other, 3_000), (&one, 7_000)]);
        has_set(&mut world, 2, &[(&other, 9_000), (&lone, 9_000)]);
        let told = world.inspected();
        assert!(!told.is_free() && told.holder().is_none());
        let holders = told.holders().iter();
        let holders: Vec<_> = holders.map(|it| (&*it.owner, it.kind, it.nodes)).collect();
        assert_eq!(holders, [(&b"a"[..], kinds[0], 2), (b"b", kinds[1], 3)]);
        // A majority keeps the second one for five seconds.
        let left = [0, 1].map(|at| told.holders()[at].valid_for.as_secs());
        assert_eq!(left, [3, 4]);
        let left = Duration::from_secs(7);
        assert_eq!(told.nodes()[1].found, Found::Several { holders: 2, left });
        assert!(told.to_string().starts_with(text), "{told}");
    }
}

#[test]
fn an_inspection_says_that_it_may_not_have_all_holders() {
    for (count, more) in [(511, false), (512, true)] {
        let mut world = World::ready(3);
        world.inspect();
        let members: Vec<_> = (0..count).map(|at| format!("1024/{at}/{ONE}")).collect();
        let members: Vec<_> = members.iter().map(|it| (&**it, 4_000)).collect();
        has_set(&mut world, 0, &members[1..]);
        has_set(&mut world, 1, &members);
        has_set(&mut world, 2, &members[1..]);
        let told = world.inspected();
        assert_eq!(told.holders().len(), count - 1);
        assert_eq!(told.has_more(), more);
        assert_eq!(told.to_string().contains("; perhaps more ("), more);
    }
}

#[test]
fn a_set_of_another_form_is_no_lock() {
    let mut world = World::ready(3);
    world.inspect();
    let one = format!("r/{ONE}a");
    has_set(&mut world, 0, &[(&one, 4_000), ("a member", 5_000)]);
    has_set(&mut world, 1, &[("4/4/t", 5_000)]);
    world.say(2, "*3|:5|:0|*2|$3|r/t|$1|9|");
    assert_eq!(world.links[2], "up");
    let told = world.inspected();
    assert!(told.holders().is_empty() && !told.is_free());
    let mut nodes = told.nodes().iter();
    assert!(nodes.all(|node| node.found == Found::OtherType));
}

/// A change of one member is news, and so is its extension. The order in which a node lists the members is not.
#[test]
fn a_watch_tells_of_changes_in_a_set() {
    let two = |first, second| [(format!("r/{ONE}a"), first), (format!("r/{ONE}b"), second)];
    let look = |members: [(String, u64); 2], turned: bool| {
        let mut world = World::ready(3);
        world.inspect();
        for node in 0..3 {
            let mut members = members.each_ref().map(|(name, left)| (&name[..], *left));
            if turned {
                members.reverse();
            }
            has_set(&mut world, node, &members);
        }
        world.inspected()
    };
    let same = |one: &Inspection, other: &Inspection| {
        let mut pairs = one.nodes().iter().zip(other.nodes());
        pairs.all(|(one, other)| one.is_as_in(other))
    };
    let before = look(two(4_000, 5_000), false);
    assert!(same(&before, &look(two(4_000, 5_000), true)));
    assert!(!same(&before, &look(two(4_500, 5_000), false)));
    let [one, (_, left)] = two(4_000, 5_000);
    let changed = [one, (format!("r/{ONE}c"), left)];
    assert!(!same(&before, &look(changed, false)));
}

/// Returns the token of a leader in this term.
#[cfg(feature = "std")]
fn leading(owner: &str, term: u64) -> Option<Vec<u8>> {
    let mut token = [ONE.as_bytes(), owner.as_bytes()].concat();
    name_number(&mut token, term, term == 8);
    Some(token)
}

#[cfg(feature = "std")]
fn leader(owner: &str, term: u64) -> Option<Leader> {
    let owner = owner.into();
    Some(Leader { owner, term })
}

#[cfg(feature = "std")]
#[test]
fn terms_never_fall_for_an_observer() {
    let mut told = Told::default();
    let mut sees = |nodes, token| told.changed_to(&inspected_on(nodes, token));
    assert_eq!(sees(3, None), Some(None), "the present state comes first");
    assert_eq!(sees(2, None), None, "it is known");
    assert_eq!(sees(3, leading("a", 7)), Some(leader("a", 7)));
    assert_eq!(sees(2, leading("a", 7)), None, "the same leader");
    assert_eq!(sees(1, None), None, "two nodes may have its lock");
    assert_eq!(sees(1, leading("b", 8)), None, "one node is no majority");
    assert_eq!(sees(2, leading("b", 8)), Some(leader("b", 8)));
    assert_eq!(sees(3, leading("a", 7)), Some(None), "it leads no more");
    let unfenced = Some(format!("{ONE}c").into());
    assert_eq!(sees(3, unfenced), None, "no fenced lock");
    assert_eq!(sees(3, leading("b", 8)), Some(leader("b", 8)));
    assert_eq!(sees(2, None), Some(None), "it has resigned");
    assert_eq!(sees(3, leading("", 9)), Some(leader("", 9)));
}
