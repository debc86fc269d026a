//! Waiting for a lock: what wakes a waiter, for how long it waits, and who is next.
//!
//! # What wakes a waiter
//!
//! A waiter asks for the lock as soon as it can know that a majority of the nodes is free. It knows by
//! one of these:
//!
//! | what ends the lock | how a waiter knows |
//! | --- | --- |
//! | `unlock` or a drop, in the same handle | The handle itself. The request for the next lock goes out in the same write as the release. |
//! | `unlock` in another program, or by another library; `DEL`, `FLUSHALL` | The nodes tell (`CLIENT TRACKING`): half a round trip after the change. |
//! | the end of its ttl | The waiter has asked how long the key lives (`PTTL`), and has a timer of its own: servers tell of an expiry late, or never. |
//! | a holder that died | As above: when its ttl ends. |
//! | `SWAPDB`, whatever else no node tells of | The waiter looks again, 2 to 4 s later. |
//! | `DEL` or `FLUSHALL` while this handle itself has the lock | It does not: a handle never asks for a lock that it holds, as far as it knows, before that is released, lost or over. |
//!
//! An extension is a change too, as is any write to the key: the waiter makes one attempt, learns that
//! the key lives on, and goes on waiting. After 20 such attempts in a row it looks first. A connection
//! that is lost is made again, and the node is asked again. Nodes whose answers do not count (in
//! [quarantine](crate::RestartGuard)) are never believed free. For what all this misses the waiter looks
//! again: once after 500 to 750 ms, and then every 2 to 4 s. That also finds a key without an expiry that
//! was deleted.
//!
//! A lock that nobody else wants costs nothing more for all this: a node is asked to tell only when an
//! attempt was refused.
//!
//! Callers that wait for one resource cost what one of them costs. Callers that wait for different
//! resources cost an attempt and a look each, and a look again every 2 to 4 s. With some ten thousand of
//! them a handle has enough to do; more take seconds to begin. If `tracking-table-max-keys` of a server is
//! smaller than the number of keys that are waited for, it tells of changes that are none.
//!
//! # Where nodes do not tell
//!
//! A waiter then looks at random intervals, 50 to 250 ms apart ([`Retry::new`](crate::Retry::new)),
//! and knows of expiries as above. [`NodeStatus::waking`](crate::NodeStatus) says of each node
//! how it wakes:
//!
//! | [`Waking`](crate::Waking) | meaning | what to do |
//! | --- | --- | --- |
//! | `Unasked` | No caller has waited on this connection yet, and no lock was kept. | |
//! | `Push` | The node tells. | |
//! | `Resp2` | The connection speaks RESP2, on which nothing is told: the server, or a proxy before it, does not know `HELLO`. | Use Redis 6 or newer, or Valkey. |
//! | `Refused` | The server has refused to tell. With `NOPERM` the user lacks a permission. | Grant `+client\|tracking` and `+client\|caching` ([`permissions`](super::permissions)). It holds from the next connection on: `CLIENT KILL USER ..` begins one. |
//!
//! A user without `+pttl` cannot look at all, and asks for the lock itself from time to time.
//!
//! # For how long
//!
//! | call | waits |
//! | --- | --- |
//! | `lock(resource, ttl)` | 5 s, or what the handle's [`Retry`](crate::Retry) says. |
//! | `try_lock(resource, ttl)` | Not at all: one attempt, beside the queue. While a lock that this handle has taken is valid, the call ends at once as `Held`, and the nodes are sent nothing. About a lock that the handle has adopted it asks them. |
//! | [`LockOptions::wait`](crate::LockOptions::wait) | So long in all. |
//! | [`LockOptions::tries`](crate::LockOptions::tries) | Until so many attempts were sent and refused; but for at most as many of the longest delays as there are tries (250 ms each by default), because a waiter in a queue sends none. |
//!
//! Blocking calls, futures, `LocalRedlock` and `Driver` wait alike.
//!
//! A call that ends with [`Held`](crate::LockError::Held) says for how long a majority keeps the lock
//! ([`Report::held_for`](crate::Report::held_for)) or that it has no expiry
//! ([`Report::never_expires`](crate::Report::never_expires)), and whether this handle holds it
//! ([`Report::is_held_here`](crate::Report::is_held_here)), as far as its callers have waited and asked.
//! Where one of them has waited for about 0.4 s it also says which client holds it
//! ([`Report::holder`](crate::Report::holder)): looks ask for that from a fifth of a second on, also those that
//! follow an extension or another holder, but no more than ten times a second. `inspect` says it at once, and
//! needs no wait.
//!
//! # Who is next
//!
//! **Inside a handle: first come, first served.** The callers that want one resource form a queue, and
//! only the first asks the nodes. Ten thousand of them cost the nodes what one costs, and nothing at all
//! while the handle itself holds the lock. A caller that gives up, or whose future is dropped, leaves
//! the queue at once. `try_lock` does not enter the queue: it asks beside it.
//!
//! **Between handles: no order is promised, but overtaking is bounded.** All who wait are told at about
//! the same time. One that meets others waits a random part of a window before it asks; the window
//! shrinks with the time that it has waited, so those who have waited for long come first. A handle that
//! has met others recently, and has passed the lock on inside itself for 10 ms, leaves it to others for a few
//! round trips. A handle meets others when an attempt of its own is refused.
//! One that has met nobody for a second does so ten times a second if several of its callers take turns,
//! and once a second if one of them comes back again and again: the first waiter from outside may wait
//! for that long. A caller that drops its guard and locks again is ahead of others more often than one
//! that waits for `unlock`. Clients of other libraries keep no such rules.
//!
//! # Several resources at once
//!
//! A caller of `lock_all` enters the queues of all its names in one step: `{a, b}` and
//! `{b, a}` stand in the same order in both and never wait for each other. It asks the nodes when it is
//! its turn for every name and this handle holds none of them; until then it sends nothing.
//!
//! If the nodes refuse it, they say which name is held. It waits for that name as any caller does, told of the
//! change by the nodes, and then asks for all of them again. If another name is held by then, it waits for that
//! one. Where each node names another, it waits for the random delay.
//!
//! Callers behind it wait meanwhile, also for a name of the set that stands free. `try_lock` and `try_lock_all` do not:
//! they ask beside the queues. A call that is over before its turn came ends as `Held` with no holder and no try
//! ([`Report::tries`](crate::Report::tries) is 0): the name that it waited for is free, and `inspect` says so. Other
//! handles are not concerned. Give a set a short wait where a name may be held for long.
//!
//! A caller that holds one name and then locks another waits behind a set that wants both, and the set waits for the
//! caller. That ends when the first of the two waits is over, or the lock is. Take all names in one `lock_all`.
//!
//! Between handles the rules are those for one name: overtaking is bounded for each of them. But a set
//! needs all of its names free at the same moment, and a node keeps none of them for it before. Where several
//! of its names are held by other programs nearly all of the time, it may wait for long, and a set of many busy
//! names may not get them in its time. Then lock one name that stands for all of them.
//!
//! A set counts as one caller, whatever the number of its names.
//!
//! # Rules that were tried
//!
//! By the simulator (`contention_in_numbers`): three nodes, a round trip of 200 us, holds of 1 ms, no pause
//! between two locks. Each cell: the longest wait in fair shares (as many holds as there are callers),
//! commands per node and hand-over, hand-overs in a second.
//!
//! | rule | 2 handles x 8 callers | 16 handles | 32 handles |
//! | --- | --- | --- | --- |
//! | all ask at once, no handle leaves the lock to others | 123, 4.3, 980 | 7.1, 61, 779 | stands still |
//! | ... a handle leaves it after 16 hand-overs or 10 ms | 6.6, 4.4, 970 | 7.6, 60, 779 | stands still |
//! | ... each asks within 4 round trips at random | 6.5, 4.4, 951 | 7.7, 37, 863 | 7.1, 75, 878 |
//! | ... within 16, which shrink to 1 in 100 ms of waiting | 6.4, 3.8, 938 | 5.9, 28, 884 | 7.8, 61, 909 |
//! | ... within 1, which begins up to 16 later for those who have waited less than 100 ms | 6.3, 3.5, 922 | 4.6, 22, 761 | 3.1, 42, 846 |
//! | ... and looks again in between, whether another was earlier | 6.3, 3.2, 920 | 4.0, 38, 538 | 2.5, 75, 565 |
//! | ... both only where votes were split recently | 6.7, 4.4, 970 | 6.7, 25, 877 | 3.7, 51, 870 |
//! | ... and where a handle has left the lock to others less than a hold ago | 6.7, 3.3, 973 | 4.5, 31, 810 | 2.5, 62, 830 |
//! | ... and begins up to 10 later, where votes were split since another holder was last seen. Where nodes are far away, two handles get a fifth fewer locks | 6.4, 3.7, 937 | 2.0, 29, 773 | 1.5, 53, 800 |
//! | ... up to 3 later for each split of late, which counts twice (**this is the rule**) | 6.7, 3.3, 975 | 4.5, 30, 820 | 2.6, 64, 827 |
//!
//! Looking in between pays on real machines: with more processes than cores it halves the attempts that
//! come too late. So does the row before the last: sixteen processes on two cores, which the servers share, wait
//! for 4 fair shares at most, and for 30 without it. A handle that has heard of no change for 10 ms is taken for
//! the only one that waits, and asks at once.
//!
//! Tests: `waiting::a_waiter_is_woken_by_an_unlock_of_another_handle`,
//! `waiting::a_waiter_is_woken_when_a_foreign_client_deletes_the_key`,
//! `waiting::a_waiter_is_woken_by_flushall`, `waiting::a_waiter_is_woken_by_the_end_of_the_ttl`,
//! `waiting::a_waiter_is_told_on_its_next_connections_too`,
//! `waiting::a_server_that_speaks_only_resp2_is_looked_at_from_time_to_time`,
//! `permissions::a_user_who_may_not_track_keys_waits_by_looking_from_time_to_time`,
//! `waiting::a_lock_that_is_handed_over_inside_a_program_takes_one_write_for_each_node`,
//! `waiting::ten_thousand_waiters_of_one_handle_send_nothing_while_nothing_happens`,
//! `waiting::waiters_that_give_up_leave_no_operation`,
//! `waiting::every_kind_of_call_waits_for_five_seconds_by_default`,
//! `waiting::guards::a_waiter_with_a_strict_guard_is_woken_when_a_foreign_client_deletes_the_key`,
//! `waiting::guards::a_strict_guard_keeps_a_restarted_node_out_while_a_caller_waits`,
//! `waiting::guards::an_observed_restart_keeps_a_node_out_while_a_caller_waits`,
//! `waiting::reports::a_caller_who_waits_for_long_asks_who_holds_the_lock`,
//! `waiting::reports::a_key_without_an_expiry_is_reported_and_wakes_when_it_is_deleted`,
//! `set_waits::threads_that_name_the_same_in_any_order_are_all_served_and_exclude_each_other`,
//! `set_waits::a_set_that_another_program_keeps_out_is_told_of_the_end_of_its_lock`.
