//! What is guaranteed, under which conditions, and which tests show it.
//!
//! The table has a row for each guarantee. [Below it](#without-any-assumption-about-time) is the
//! reasoning, and [at the end](#what-is-not-guaranteed) what is not guaranteed.
//!
//! The tests run by `cargo test --all-features NAME`, that of the demo with `-p shearline-cli`.
//! The first guarantee rests on an argument in steps ([`safety`](super::safety)) and on a
//! simulator (`tests/sim` in the repository) that runs whole engines in worlds where everything
//! goes wrong. Its oracles check exclusion and some twenty other promises. If any one guard of the
//! engine is taken out, an oracle objects; for five guards a unit test of the engine does.
//!
//! | guarantee | provided that | shown by |
//! | --- | --- | --- |
//! | No two clients hold a valid lock on one resource at the same time. | A majority of the nodes keeps its keys for as long as they should live ([`operating`](super::operating)). Clocks run within the drift (1 % + 2 ms) with all their steps while a lock lives, or the excess is detected. All clients name the same nodes. A holder stops when its lock is no longer valid. | `worlds_keep_their_promises`, `assumptions::exclusion_rests_on_its_assumptions`, `truth_table::every_set_of_foreign_nodes_for_one_to_five_nodes`, `threads::sixty_four_threads_on_one_key_lose_no_count`, `processes::two_processes_count_without_losing_a_count` |
//! | A lock that is returned has validity left: its ttl less the time since *before* the first byte was sent, less the drift. If the answers come too late for that, there is no lock. | Nothing. (The outcome is `TooSlow` where the node timeout is fixed or the nodes are known to be that far away, and `NoQuorum` otherwise.) | `slow::answers_after_300_ms_are_too_slow_for_a_ttl_of_200_ms`, `quorum::validity::tests::validity_never_wraps` |
//! | Validity also ends while the machine is suspended. | Linux. | `suspend::validity_uses_a_clock_that_runs_while_the_machine_is_suspended`, `driver::tests::no_sleep_is_long_while_a_lock_is_held_or_a_round_is_open`, `clock::tests::the_clock_counts_since_the_boot_with_suspended_time` |
//! | The lock of another client is never released, extended or shortened. | No other program uses our token. | `truth_table::every_set_of_foreign_nodes_for_one_to_five_nodes`, `contract::a_lock_that_has_expired_is_not_revived_and_the_next_one_is_not_touched` |
//! | An extension never shortens a lock and never revives one that has expired. An extension that fails leaves the lock as it was. | Nothing. | `contract::an_extension_never_shortens`, `contract::a_lock_that_has_expired_is_not_revived_and_the_next_one_is_not_touched`, `contract::a_silent_majority_leaves_every_lock_as_it_was` |
//! | An attempt that failed, was dropped or came too late leaves no key behind, also on a node that was silent meanwhile: its release follows the `SET` on the same connection, or goes first on the next one. | The handle lives until the node answers (for a `Redlock`: the process does). Otherwise the key ends with its ttl. | `frozen::a_thousand_locks_leave_no_key_while_one_node_of_five_is_frozen`, `drops::a_future_dropped_while_the_nodes_are_frozen_leaves_no_key`, `restart::a_release_owed_to_a_dead_node_is_paid_when_it_is_back`, `faults::lossy::no_key_is_left_where_packets_are_lost_by_chance` |
//! | A node that is dead or silent costs no time while a majority answers. A silent majority costs a try at most 300 ms, however often it stalled before. | Defaults, and round trips below 10 ms. A node that was never connected is waited for until `connect_timeout`, if the outcome rests on it; and so are all nodes, for half of the ttl at most, if a majority has closed its connections and none is left. | `frozen::two_frozen_nodes_of_five_leave_a_majority`, `restart::a_node_that_stays_dead_costs_nothing`, `engine::tests::patience::a_majority_that_stalls_again_and_again_costs_a_call_no_more`, `stalls::a_majority_that_stalls_at_every_attempt_does_not_prolong_the_next_one` |
//! | A user who may take a lock but not release it gets none, and the error names the missing permission. If a majority is unusable for a reason that only an operator can repair, a call fails at its first try. | Redis 7.0 or newer, or Valkey. (Older servers do not say which commands scripts may run.) | `permissions::a_user_who_may_not_release_gets_no_lock`, `auth::a_majority_with_wrong_credentials_is_reported_in_the_first_try` |
//! | No call waits longer than its own deadline. | The operating system lets the threads run that use the handle. | `deadlines::every_operation_ends_with_every_node_stalled`, `deadlines::many_callers_end_with_every_node_stalled` |
//! | A lock that is [kept](crate::LockOptions::keep) stands while a majority of the nodes confirms it, and an extension that fails does not shorten it. When less than a quarter of its ttl is left, `at_risk` says so. | The I/O thread is scheduled, and no waker holds it up (`Redlock`); with the faces that have none, the program takes turns ([`keeping`](super::keeping)). | `keep::a_guard_is_kept_whatever_the_threads_of_the_program_do`, `keep::a_kept_lock_is_at_risk_when_no_node_answers_and_recovers`, `engine::tests::keep::a_failed_extension_is_tried_again_and_ends_nothing`, `engine::tests::keep::ends::nothing_is_extended_after_a_release` |
//! | A lock on [several resources](super::keeping#several-at-once) stands on a node with all of its names or with none: nobody holds a part of them and waits for the rest. A lock on one of the names keeps it out and is kept out by it. A node that has lost a name does not count for it before it has all of them again. | The nodes allow `EVAL`. Names that a node ends or deletes by itself are not given back. | `sets::a_plain_lock_on_one_name_keeps_a_set_out_and_leaves_the_others_free`, `sets::a_node_that_has_lost_one_name_gets_it_again_and_counts_again`, `sets::a_name_that_is_another_s_is_never_written_over`, `sets::a_set_of_which_one_name_was_stolen_was_not_held` |
//! | A [shared lock](super::holders) is valid only while no lock is, and a lock only while no shared lock is, also locks of other libraries on the same key. The shared locks of others are never removed or shortened. | As for exclusion, and the nodes run scripts. | `holders::readers_share_a_lock_that_a_writer_has_alone`, `holders::readers_exclude_locks_of_other_libraries_and_are_excluded`, `holders::no_reader_sees_half_of_what_a_writer_does`, the worlds `shared` and `readers`, `proofs/shared.py` |
//! | There are never more holders of [permits](super::holders) than permits, and no two with one number. Clients that name another number of permits are refused while any is held. | As for exclusion, and the nodes run scripts. | `holders::as_many_hold_as_there_are_permits_and_each_has_its_own_number`, `holders::callers_of_many_handles_share_few_permits`, `proofs/slots.py` |
//! | With [`Builder::lock_delay`](crate::Builder::lock_delay): if a holder does not release its lock (it was killed, was cut off, hangs), no other client gets the lock before its validity and the delay are over. A release frees it at once. | As for exclusion. | `delay::a_holder_that_is_killed_keeps_others_out_for_the_delay_too`, `delay::a_release_frees_the_lock_at_once`, `engine::tests::delay::a_copy_lives_as_long_as_those_that_were_not_lost`, `engine::tests::delay::a_waiter_of_the_same_handle_waits_for_the_delay_too` |
//! | A waiter is woken by the end of the lock, whoever ended it: by the nodes, or by its own timer at the end of the ttl. Callers of one handle are served in the order in which they came. | The server knows `CLIENT TRACKING`, and the user may use it. Otherwise the waiter looks from time to time ([`waiting`](super::waiting)). | `waiting::a_waiter_is_woken_by_an_unlock_of_another_handle`, `waiting::a_waiter_is_woken_when_a_foreign_client_deletes_the_key`, `waiting::a_waiter_is_woken_by_the_end_of_the_ttl`, `engine::tests::queue::the_lock_goes_to_the_waiters_in_their_order_each_in_the_write_of_the_release` |
//! | The lost signal comes before the end of the lock, by a timer, also if every node is silent. | The operating system lets a thread run. A future is woken by the I/O thread: no waker holds that up (`Redlock`). | `drops::the_loss_of_a_lock_is_reported_while_every_node_is_silent`, `engine::tests::expiry::the_loss_is_told_by_a_timer_a_tick_before_the_end` |
//! | A dropped guard or future writes its release before the drop returns, without waiting for the answer, on any thread, also in a panic. A process that drops its locks and ends leaves no key, also if it ends by `exit` and with a `static` handle. | The operating system lets the threads run that use the handle. The nodes read what is written to them, and no connection is reset. | `drops::a_guard_dropped_in_a_panic_releases`, `drops::a_future_dropped_at_any_point_leaves_no_key`, `endings::no_program_that_drops_its_locks_and_ends_leaves_a_key` |
//! | Releases that silent nodes are still owed when the last `Redlock` is dropped are sent in the background. (A `LocalRedlock` has no thread for that.) | The process lives until the nodes answer, or the keys have ended. | `background::nodes_that_were_silent_when_the_locks_were_dropped_keep_none` |
//! | A node that restarted, or was replaced, does not vote until every lock that it may have forgotten is over. | This handle was connected to it before, or has `Builder::max_ttl` set. No client uses longer ttls. The node allows `INFO`. | `guard::nodes_that_forget_make_two_holders_only_without_the_guard`, `engine::tests::restarts::an_extension_does_not_count_who_may_have_forgotten` |
//! | With `RestartGuard::Strict`: a node that restarted, was promoted or replaced, or was flushed does not count for any client until every lock that it may have forgotten is over. | All clients of the nodes use this guard. `max_ttl` is the same for all, or a marker that is left on a node of the majority names the longest. The marker is lost where locks are lost: no key is deleted or evicted alone, and no node takes its data back from a replica of its own, directly or through others. | `strict::nodes_that_forget_do_not_make_two_holders`, `engine::tests::strict::chance::nodes_that_forget_at_any_time_never_make_two_holders`, `faults::forgetful::a_node_whose_marker_was_lost_does_not_vote_for_as_long_as_a_lock_lasts`, `strict::every_handle_detects_a_flush`, `engine::tests::strict::an_extension_on_a_node_behind_its_barrier_is_not_counted` |
//! | With `RestartGuard::Strict`: clients that count another number of nodes, or name another cluster, get no lock. | They reach one node whose marker is the other cluster's, or have reached one since it was written. | `strict::another_membership_gets_no_lock_until_it_reinitialises_the_nodes`, `engine::tests::strict::clusters::one_node_of_another_cluster_is_enough_and_held_locks_are_extended` |
//! | With `RestartGuard::Strict`: a node that wrote every lock to disk before it answered votes at once when it is back. | The disk honours `fsync`. The data of the node is not put back from a copy. `appendonly` and `appendfsync` are not changed while it runs. No replica is promoted and restarted before it is asked. The node allows `CONFIG GET`. | `strict::a_node_that_writes_every_lock_to_disk_votes_at_once_when_it_is_back` |
//! | `confirm` gives a lock no more time than a majority keeps it: the q-th largest remaining time, counted from before the request, less the drift. It never revives a lock that is known to be over. | As for exclusion. | `engine::tests::confirm::what_a_majority_keeps_counts_from_before_the_send`, `engine::tests::confirm::what_was_told_to_be_over_is_not_revived_by_a_confirmation`, `contract::a_lock_from_before_the_last_boot_is_valid_again_if_a_majority_has_it` |
//! | `inspect` changes nothing. It names a holder only if a majority of the nodes had its token, and gives it no more time than a majority keeps it, counted from before the question, less the drift. | As for `confirm`. | `contract::an_inspection_says_who_holds_a_resource_and_which_nodes_disagree`, `engine::tests::inspect::a_majority_with_the_same_token_holds_it_for_as_long_as_a_majority_keeps_it`, `engine::tests::inspect::a_quarantined_node_is_shown_and_is_no_part_of_a_majority` |
//! | A node whose wall clock was stepped by more than the drift allows for gives no new lock until every lock that it may have expired early is over. | The step is detected: with those before it, it is larger than 0.8 % of the shortest ttl that this handle was asked for and than 10 ms, is not taken back, and was more than a second ago. After a pause without requests it is also larger than 0.05 % of the pause. The node allows `TIME`. | `clocks::stepped_clocks_make_two_holders_only_without_the_watch`, `engine::tests::clocks::a_node_whose_clock_was_stepped_is_not_counted_in_that_very_round` |
//! | Steps of the clocks of nodes end no kept lock whose keys are still there, and cost no vote while they add up to no more than 0.8 % of the shortest ttl that this handle was asked for (the default drift). | Keys that a step has ended are gone. While a node's clock is known to be set, an extension that rests on it gives a twelfth of the ttl less. | `engine::tests::clocks::steps_of_two_clocks_end_no_kept_lock` |
//! | Of two locks on one resource with [fencing tokens](crate::LockOptions::fenced) the later one has the larger token, whatever clocks do ([`safety`](super::safety#fencing-tokens)). The token stays the same through extensions, confirmations and hand-overs. A node that may have lost its counters gives none before it is repaired from the others. | The nodes run scripts. Nobody trusts a node wrongly, and no server goes on under its `run_id` with an older data set that has its floor. In a repair: no client has a longer ttl than the one that repairs knows of, and the clocks of both run within the drift. | `fencing::tokens_rise_through_every_face_and_stay_with_their_lock`, `fencing::a_server_that_was_restarted_gives_no_token`, `fencing::a_server_that_has_lost_its_data_is_repaired_from_the_others`, `fencing::two_processes_get_tokens_in_the_order_of_their_locks` |
//! | A kept lock gets its copy back on a node that was away when that node is connected again: after three round trips and a little. A kept lock without a majority tries the nodes every 250 ms. | Up to 8,192 kept locks; more follow as these are done. Without scripts a restarted node gets it after some round trips more. A lock with [`extensions`](crate::LockOptions::extensions) gets it when its extension is due. Plain locks that their holder extends get it with the second extension. | `engine::tests::whole::a_node_that_was_away_gets_its_copy_with_the_second_extension_and_at_once`, `engine::tests::whole::a_kept_lock_hurries_the_reconnection` |
//! | A kept lock whose keys are deleted or replaced on a majority is lost two round trips later. | The nodes tell of it (`CLIENT TRACKING`, with its permission). The first 1,000 keys of the kept locks of a handle, from 50 ms after the grant on; others with their next extension. Where nodes tell of changes that delete nothing, more than eight times at once, it takes up to half of the validity. Exclusion is not promised from the deletion on. | `deleted::a_lock_whose_keys_are_deleted_on_a_majority_is_lost_at_once`, `engine::tests::deleted::a_lock_whose_keys_are_deleted_is_over_two_round_trips_later` |
//! | A lock that is extended again and again gets its copy back on a node that lost it. | The node is reachable at two extensions. | `guard::a_forgotten_copy_is_restored_by_the_extensions` |
//! | One server has one vote, however many addresses it has. | The node allows `INFO`. | `addresses::one_server_under_two_addresses_has_one_vote` |
//! | No byte from a node causes a panic or takes memory without bound. | Nothing. | `resp::tests::corpus::the_fuzz_bodies_hold_on_random_input`, `engine::tests::connections::garbage_costs_the_node_its_connection_and_nothing_else` |
//! | No credential and no whole token stands in any error or debug output. | Nothing. | `secrets::no_secret_is_shown_of_handles_in_a_forked_child`, `shared::tests::panics::a_broken_handle_shows_no_secret`, `secrets::no_secret_is_shown_of_locks_in_all_their_states`, `secrets::no_secret_is_shown_of_the_driver_and_its_events`, `secrets::no_secret_is_shown_of_nodes_that_refuse_us`, `secrets::no_secret_is_shown_where_nodes_echo_it`, `secrets::no_secret_is_shown_of_broken_urls`, `demo::no_secret_is_shown_by_the_demo`, `auth::wrong_or_missing_credentials_are_named_and_not_shown`, `resource::tests::debug_shows_the_whole_owner_and_not_the_whole_token` |
//!
//! # Without any assumption about time
//!
//! * A release or an extension never touches the lock of another: the server compares the token and
//!   acts in one step.
//! * An attempt that was given up leaves no key, because the node runs its release after its `SET`.
//!   The exception is a process that dies with releases still owed: those keys end with their ttl.
//!
//! # With clocks that run alike
//!
//! Two clients never both hold a valid lock. Any two majorities share a node. That node gives its key
//! to one token at a time and keeps it for the ttl by *its* clock, while the holder counts a shorter
//! time by *its own*. The [drift](crate::Builder::drift) is the difference that is allowed for: 1 %
//! of the ttl, which is far more than disciplined clocks need, and 2 ms for the granularity of the
//! server's expiry.
//!
//! A server whose clock is *stepped* forward ends its keys early, by any amount. The drift is for steps too: a fifth
//! of the 1 % is for the rate of clocks, and four fifths for all steps while a lock lives. Larger steps are detected
//! when the node is next asked for a lock, and the node gives none then
//! ([`Builder::watch_clocks`](crate::Builder::watch_clocks)). But a client may have got a lock in the
//! second before that. So slew the clocks. A handle allows for steps by the shortest ttl that it was asked for: the lock
//! of a client that asks for a much shorter ttl than any other on that resource may end early by their allowance.
//!
//! Our own clock also runs while the machine is suspended (`CLOCK_BOOTTIME`), which
//! `std::time::Instant` does not on Linux: a lock does not look valid when a virtual machine comes
//! back after an hour.
//!
//! # With nodes that remember
//!
//! The shared node must still have its key. It has lost the key after a restart without persistence, a
//! failover, an eviction, or a `FLUSHALL`. One such node is enough, if it is the only one that two
//! majorities share. A node whose restart is detected does not vote until every lock that it may have
//! forgotten is over ([`RestartGuard`](crate::RestartGuard)). The rest is up to operators:
//! [`operating`](super::operating).
//!
//! # With nodes that say what they have forgotten
//!
//! A client that detects a restart cannot tell the others, and no client sees a `FLUSHALL`. With
//! [`RestartGuard::Strict`](crate::RestartGuard::Strict) the nodes themselves say so. Beside the
//! locks each node keeps a *marker* that names the incarnation of the server and is lost where the
//! locks are lost. Each request about a lock carries the marker that the client knows, and the node
//! compares the two in the same step in which it runs the request. If the marker is missing or names
//! another incarnation, the client writes it again together with a *barrier*: a key that lives for as
//! long as any lock that may have been forgotten. An answer counts only if the marker is the given
//! one and there is no barrier, whichever client wrote it. So
//!
//! * every client learns with its next request that the locks were lost with the marker;
//! * an extension or a confirmation by a node behind its barrier is not counted, even if that node was
//!   given a new copy meanwhile: otherwise the copy could vote for a lock that has lost its majority;
//! * a client that wrote a marker for shorter locks than those of another client replaces it, with a
//!   longer barrier, as soon as it learns of them, and does not count the node until then;
//! * a client with another number of nodes, or another cluster name, is refused by the first node that
//!   both know.
//!
//! It does not help where a lock is lost alone and the marker is not: by eviction, by `DEL` by hand,
//! and on a master that for a while follows a replica of its own which had not got all its writes.
//! The marker that comes back with the data is its own, and only a client that was connected before
//! *and* after detects that the history is another. That is one more reason to have no replicas.
//!
//! # What is not guaranteed
//!
//! * **That a paused holder notices.** A process that is stopped between its check
//!   ([`Lock::is_valid_at`](crate::Lock::is_valid_at)) and its effect can act after its lock has
//!   ended. So can a write that is late on the network. No lock with an expiry can prevent this; only
//!   the storage can, by refusing a stale writer. Keep the ttl well above the time that the work
//!   takes, and check the validity right before each effect. Use the lock to save work, and
//!   [fencing tokens](crate::LockOptions::fenced), or something else, to save the data:
//!   [`choosing`](super::choosing#without-fencing-tokens) says what.
//! * **Anything if nodes forget and no client can detect it**: keys that are deleted or evicted; a
//!   restart before a handle without `max_ttl` was first connected; and, unless the guard is
//!   [`RestartGuard::Strict`](crate::RestartGuard::Strict), `FLUSHALL`, or a master that becomes a
//!   replica and a master again between two questions. Then a majority can be found twice. With
//!   `Strict` too, if that master followed a replica of its own: the marker that it gets back is its
//!   own, and the latest locks are missing. Of keys that are deleted the holder of a kept lock learns two round
//!   trips later, and has to stop then.
//! * **That the last of many releases arrives if the program ends at once.** If a program ends with
//!   answers unread, the kernel resets its connections. What it wrote last may then be lost on its
//!   way, or dropped by a server that has not read it, and those keys live to the end of their ttl on
//!   that node. Seen on a busy machine in 1 of 900 programs that drop 32 guards and call `exit`,
//!   mostly on one node. `unlock` waits for the answers.
//! * **An order between handles.** Inside a handle it is first come, first served. Between handles
//!   overtaking is bounded, and no order is promised ([`waiting`](super::waiting)).
//! * **Re-entry.** A thread that asks for a lock which it holds waits for itself.
//! * **That a dead holder's lock is free at once.** It keeps others out until its ttl has passed. A
//!   short ttl that is extended is better than a long one.
