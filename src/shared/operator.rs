//! The calls for operators: inspecting locks, breaking locks, reading the state of the nodes, and trusting nodes.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::callers::WaitsAs;
use super::serve::{Times, Wait};
use super::{Redlock, Watch};
use crate::calls::{self, Trusted};
use crate::clock;
use crate::driver::Refusal;
use crate::engine::breaking::{Breaking, Broken};
use crate::engine::inspection::Inspection;
use crate::engine::operators::OperatorError;
use crate::engine::stats::Stats;
use crate::engine::{self, Engine, ListedNames, NodeStatus, RoundId};
use crate::error::NodeOutcome;

impl Redlock {
    /// Asks every node about the lock on `resource`, and changes nothing. Returns whether the lock is free, who holds
    /// it and for how much longer, which nodes disagree, and which tokens only a minority has.
    ///
    /// A majority decides. The result was true at some time during the call, and may be outdated when the call returns.
    /// Use the result for operators and logs only. To hold a lock, [take it](Self::try_lock). To see whether a lock is
    /// still held, use [`LockGuard::confirm`](crate::LockGuard::confirm).
    ///
    /// The call sends one command to each node, which reads the token and its expiry atomically.
    /// The call waits until every node has answered. The call waits one node timeout for a silent
    /// node: [`Builder::node_timeout`](crate::Builder::node_timeout), by default 50 ms, or four round trips to a
    /// distant node. A Redis user that may confirm locks may also inspect them.
    ///
    /// ```no_run
    /// # use shearline::{Found, Redlock};
    /// # let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// let inspection = redlock.inspect("invoice:42")?;
    /// match inspection.holder() {
    ///     Some(holder) => println!(
    ///         "{} has it on {} nodes for {:?}",
    ///         holder.owner.escape_ascii(),
    ///         holder.nodes,
    ///         holder.valid_for,
    ///     ),
    ///     None if inspection.is_free() => println!("free"),
    ///     None => println!("several clients are trying, or one has failed"),
    /// }
    /// for node in inspection.nodes() {
    ///     if let Found::Copy { left, .. } = &node.found {
    ///         println!("{} has a token that no majority has, for {left:?}", node.address);
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::NoQuorum`], with the answer of each node, if too few nodes answered.
    /// Returns [`OperatorError::Invalid`], [`OperatorError::Saturated`], [`OperatorError::Forked`]
    /// or [`OperatorError::Closed`] if nothing was sent.
    pub fn inspect(&self, resource: impl AsRef<[u8]>) -> Result<Inspection, OperatorError> {
        let (shared, resource) = (self.shared(), resource.as_ref());
        shared.tracer.inspect(resource).run(|_| {
            let times = Times::now(Wait::Patience(shared.patience(Duration::MAX)));
            let ask = |engine: &mut Engine, now| engine.inspect(now, resource);
            calls::inspected(shared.run(&Arc::default(), times, ask)?)
        })
    }

    /// Like [`inspect`](Self::inspect), but returns a future for any executor. Nothing is sent before the first poll.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`inspect`](Self::inspect).
    pub async fn inspect_async(
        &self,
        resource: impl AsRef<[u8]>,
    ) -> Result<Inspection, OperatorError> {
        let operation = self.shared().tracer.inspect(resource.as_ref());
        let ask = |engine: &mut Engine, now| engine.inspect(now, resource.as_ref());
        let outcome = Self::drive(&operation, || self.begin(ask)).await;
        operation.run(|_| calls::inspected(outcome?))
    }

    /// Breaks the lock on `resource`, for an operator who knows that its holder is gone or hangs.
    ///
    /// The call first [finds](Self::inspect) the holder. Then each node that has the holder's token replaces it by a
    /// token that no client has, so the holder can no longer extend the lock. The expiry of the key does not change.
    /// The holder of a [kept](crate::LockOptions::keep) lock notices the loss immediately if the nodes send
    /// notifications, and otherwise when half of the validity is left. Any other holder notices the loss when it
    /// extends the lock. Other clients cannot take the lock until the holder must have stopped: [`Broken::free_in`]
    /// says how long that takes. Until then [`inspect`](Self::inspect) shows the lock, with `(broken)` before the
    /// owner. Breaking a lock weakens no guarantee. To free the lock sooner, see [`Breaking::AtOnce`].
    ///
    /// If too few nodes confirm the change, call `break_lock` again: the next call also counts the nodes that have
    /// already replaced the token.
    ///
    /// Breaking one resource of a lock on several resources breaks the whole lock. The other resources become free when
    /// the holder notices the loss, or when their keys expire.
    ///
    /// ```no_run
    /// # use shearline::{Breaking, Redlock};
    /// # let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// let broken = redlock.break_lock("invoice:42")?;
    /// println!("{}: free in {:?}", broken.holder, broken.free_in);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::NotHeld`], [`OperatorError::NotOurs`] or [`OperatorError::NoQuorum`] if nothing was
    /// changed. Returns [`OperatorError::Changed`] or [`OperatorError::Unconfirmed`] if no majority replaced the token.
    /// Returns [`OperatorError::Invalid`], [`OperatorError::Saturated`], [`OperatorError::Forked`]
    /// or [`OperatorError::Closed`] if nothing was sent.
    pub fn break_lock(&self, resource: impl AsRef<[u8]>) -> Result<Broken, OperatorError> {
        let seen = self.inspect(resource.as_ref())?;
        self.break_seen(resource, &seen, Breaking::KeepOut)
    }

    /// Breaks the lock on `resource` that an [`inspect`](Self::inspect) has `seen`, but not a lock that
    /// was taken later. So a program can show the holder to an operator, and ask before it breaks the lock.
    /// See [`break_lock`](Self::break_lock).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`break_lock`](Self::break_lock).
    pub fn break_seen(
        &self,
        resource: impl AsRef<[u8]>,
        seen: &Inspection,
        how: Breaking,
    ) -> Result<Broken, OperatorError> {
        let (shared, resource) = (self.shared(), resource.as_ref());
        shared.tracer.break_lock(resource).run(|_| {
            let ask = |engine: &mut Engine, now| engine.break_lock(now, resource, seen, how);
            let times = Times::now(Wait::Patience(shared.patience(Duration::MAX)));
            calls::broken(shared.run(&Arc::default(), times, ask)?, seen)
        })
    }

    /// Like [`break_lock`](Self::break_lock), but returns a future for any executor. Nothing is sent before the first
    /// poll.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`break_lock`](Self::break_lock).
    pub async fn break_lock_async(
        &self,
        resource: impl AsRef<[u8]>,
    ) -> Result<Broken, OperatorError> {
        let seen = self.inspect_async(resource.as_ref()).await?;
        self.break_seen_async(resource, &seen, Breaking::KeepOut)
            .await
    }

    /// Like [`break_seen`](Self::break_seen), but returns a future for any executor. Nothing is sent before the first
    /// poll.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`break_lock`](Self::break_lock).
    pub async fn break_seen_async(
        &self,
        resource: impl AsRef<[u8]>,
        seen: &Inspection,
        how: Breaking,
    ) -> Result<Broken, OperatorError> {
        let resource = resource.as_ref();
        let operation = self.shared().tracer.break_lock(resource);
        let ask = |engine: &mut Engine, now| engine.break_lock(now, resource, seen, how);
        let outcome = Self::drive(&operation, || self.begin(ask)).await;
        operation.run(|_| calls::broken(outcome?, seen))
    }

    /// Returns a [`Watch`] of `resource`, for operators and logs. A watch returns the current holder, and then each
    /// change. The documentation of [`Watch`] describes the cost. The call asks all nodes immediately,
    /// like [`inspect`](Self::inspect). Unlike an inspection, a watch returns a state even if too few nodes answer. If
    /// too few nodes answer, the state neither names a holder nor says that the lock is free. Silent nodes
    /// are [`Found::Unknown`](crate::Found) in the state.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use shearline::Redlock;
    /// # let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// let mut watch = redlock.watch("invoice:42")?;
    /// while let Some(state) = watch.next(Duration::from_secs(60)) {
    ///     println!("{state}");
    /// }
    /// println!("nothing has changed for a minute");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::Saturated`] if the handle already has 4,096 watches. Also
    /// returns [`OperatorError::Invalid`], [`OperatorError::Forked`] and [`OperatorError::Closed`]. An error means that
    /// nothing was sent.
    pub fn watch(&self, resource: impl AsRef<[u8]>) -> Result<Watch, OperatorError> {
        Watch::new(self.clone(), resource.as_ref())
    }

    /// Returns the current status of every node, in the order of the configuration. The statuses are meant for
    /// operators, not for decisions. The result is empty in a forked child, and after the engine has panicked.
    ///
    /// The call allocates once and does no I/O.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.look().unwrap_or_default()
    }

    /// Returns how many counters for [fencing tokens](crate::LockOptions::fenced) each node has. For each name that was
    /// locked with a fencing token, a node keeps a counter for a day
    /// ([`Builder::counter_ttl`](crate::Builder::counter_ttl)). A large number of counters may fill the memory of a
    /// node.
    ///
    /// Returns for each node, in the order of the configuration, the number of counters, and the reason why the node
    /// may have more counters. The reason is `None` if all counters were counted. The result is empty in a forked
    /// child, and after the engine has panicked.
    ///
    /// A script goes through all keys of the database with `SCAN`, 2,000 keys at a time. Each run of the script takes
    /// one or two milliseconds. The call waits one node timeout for each run, like [`inspect`](Self::inspect), and
    /// returns [`NodeOutcome::TimedOut`] after ten seconds in total. If many keys are added or removed during the call,
    /// a node may count some counters twice. The Redis user needs the permission `+scan`.
    ///
    /// ```no_run
    /// # use shearline::Redlock;
    /// # let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// for (node, (counted, more)) in redlock.nodes().iter().zip(redlock.count_counters()) {
    ///     match more {
    ///         None => println!("{}: {counted} counters", node.address),
    ///         Some(why) => println!("{}: {counted} counters or more: {why}", node.address),
    ///     }
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn count_counters(&self) -> Vec<(u64, Option<NodeOutcome>)> {
        let ask = |engine: &mut Engine, now| Ok::<_, Refusal>(engine.count_counters(now));
        calls::counted(
            self.shared()
                .run(&Arc::default(), Times::now(Wait::Forever), ask),
        )
    }

    /// Lists the names on each node that begin with `prefix`, so that an operator can [`inspect`](Self::inspect) locks
    /// whose names are unknown. An empty prefix lists all names.
    ///
    /// Returns for each node, in the order of the configuration, the names, and the reason why the node may have more
    /// names. The reason is `None` if the list is complete. Each list has at most 1,000 names, in the order of their
    /// bytes. If a node has more names, the reason is [`NodeOutcome::Pending`]. If the handle
    /// has a [`key_prefix`](crate::Builder::key_prefix), lists contain only keys with this prefix, and the names do not
    /// include it.
    ///
    /// A node lists the keys that may be locks: strings that are not longer than any token, and sorted sets. A listed
    /// name may belong to another program, to a lock that only a minority of the nodes has, or to a lock that has just
    /// expired or been released. A lock that is held throughout the call is listed by every node that has it. Names
    /// that begin with `shearline:` and keys that the user may not read are not listed. For unreadable keys, a node
    /// adds an entry to its ACL log for each 2,000 keys. Servers before Redis 7 add an entry for each unreadable key.
    ///
    /// The cost and the time limit are the same as for [`count_counters`](Self::count_counters), with about a
    /// microsecond more for each name. The call changes nothing on the nodes. The Redis user needs the permissions
    /// `+scan`, `+type` and `+strlen`.
    ///
    /// ```no_run
    /// # use std::collections::BTreeSet;
    /// # use shearline::Redlock;
    /// # let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// let lists = redlock.names("invoice:")?;
    /// let names: BTreeSet<_> = lists.into_iter().flat_map(|(names, _)| names).collect();
    /// for name in names {
    ///     println!("{}: {}", name.escape_ascii(), redlock.inspect(&name)?);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::Invalid`] if no lock can have a name with this prefix. Also returns
    /// [`OperatorError::Forked`] and [`OperatorError::Closed`]. An error means that nothing was sent.
    pub fn names(&self, prefix: impl AsRef<[u8]>) -> Result<Vec<ListedNames>, OperatorError> {
        let ask = |engine: &mut Engine, now| engine.names(now, prefix.as_ref());
        let shared = self.shared();
        calls::listed(shared.run(&Arc::default(), Times::now(Wait::Forever), ask)?)
    }

    /// Returns the statistics of this handle and its clones: see [`Stats`]. The result is empty in a forked child, and
    /// after the engine has panicked.
    ///
    /// The call takes some microseconds, allocates, and does no I/O. An exporter may call this method every second.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let shared = self.shared();
        let section = shared.enter_call();
        section.map_or_else(|_| Stats::default(), |section| section.engine.stats())
    }

    /// Returns `Ok` if a majority of the nodes would vote now. If too few nodes would vote, returns an error with the
    /// reasons, such as a wrong password, a server of the wrong kind, or a node that is down. Call `check` at the start
    /// of a program, right after [`build`](crate::Builder::build), and stop if an operator is needed
    /// ([`Report::needs_operator`](crate::Report::needs_operator)). Other faults may disappear without an operator: new
    /// servers are in quarantine for [`max_ttl`](crate::Builder::max_ttl), and a call that takes a lock waits until the
    /// quarantine ends.
    ///
    /// `check` does not find a missing permission ([`Unusable::Permission`](crate::Unusable)) before a call has tried
    /// to take a lock, because permissions depend on the name of the lock. After a call has failed for lack of a
    /// permission, `check` reports the missing permission until a later call finds that it is granted. `check` does not
    /// report a fault that affects only some names (a key pattern that does not match), or a temporary fault (`OOM`).
    ///
    /// The call sends nothing, and costs as much as [`nodes`](Self::nodes). If a node was repaired, the result changes
    /// after the next attempt to connect, at most two seconds later.
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::NoQuorum`] if too few nodes vote now.
    /// If [`needs_operator`](crate::Report::needs_operator) returns `true` for the report, the nodes grant no lock
    /// until an operator has repaired the reported faults. Otherwise, the faults may disappear without an operator:
    /// nodes are down, silent, or in quarantine. Also returns [`OperatorError::Forked`] and [`OperatorError::Closed`].
    ///
    /// ```no_run
    /// use shearline::{OperatorError, Redlock};
    ///
    /// let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// match redlock.check() {
    ///     Ok(()) => {}
    ///     // "10.0.0.2:6379 unusable: it refuses the credentials; .."
    ///     Err(OperatorError::NoQuorum(report)) if report.needs_operator() => return Err(report.to_string().into()),
    ///     Err(error) => eprintln!("no lock can be taken yet: {error}"),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self) -> Result<(), OperatorError> {
        let statuses = self.look()?;
        engine::check(clock::now(), &statuses)
    }

    fn look(&self) -> Result<Vec<NodeStatus>, Refusal> {
        let section = self.shared().enter_call()?;
        Ok(section.engine.node_statuses(clock::now()).collect())
    }

    /// Declares that the server with this `run_id`, connected as the node at `address`, has not forgotten any lock that
    /// is still valid. The votes of the server count from now on. Returns `true` if the votes did not count before,
    /// because the server had restarted.
    ///
    /// `address` is the configured address of the node, with or without credentials. `run_id` is the value
    /// that [`nodes`](Self::nodes) returned. If another server has taken over the address since then, that server is
    /// not trusted.
    ///
    /// Call `trust_node` only if you know more than the [`RestartGuard`](crate::RestartGuard): the node wrote every
    /// lock to disk before it answered, or no client uses locks yet. If you are wrong, two clients can hold the same
    /// lock. The call ends the current quarantine, and the next restart begins another. Unless the guard
    /// is [`RestartGuard::Strict`](crate::RestartGuard), the call applies to this handle alone.
    ///
    /// The node also gets a counter floor for [fencing tokens](crate::LockOptions::fenced), for all clients. The floor
    /// is at least the current time and the largest fencing token that this handle has seen. By calling `trust_node`,
    /// you declare that no older fencing token of the node is larger than this floor. The call waits until the node has
    /// written the floor, for at most one connect timeout. If this handle uses fencing tokens, the Redis user needs
    /// access to the keys `shearline:*`.
    ///
    /// With [`RestartGuard::Strict`](crate::RestartGuard) the call writes your decision to the node, and the decision
    /// applies to all clients. The call updates the marker without a barrier, and removes an existing barrier. Other
    /// handles that take locks notice the change within a second.
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::NotTrusted`] with one of these reasons:
    ///
    /// * No node has this address.
    /// * The node is not connected.
    /// * Another server answers at the address.
    /// * The server does not send its run_id.
    /// * The node belongs to another group ([`reinit`](Self::reinit)).
    /// * The node is trusted, but has not confirmed its counter floor, and this handle uses fencing tokens.
    ///
    /// Also returns [`OperatorError::Forked`] and [`OperatorError::Closed`].
    ///
    /// ```no_run
    /// # use shearline::Redlock;
    /// let redlock = Redlock::connect(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])?;
    /// for node in redlock.nodes() {
    ///     println!("{} {:?} {:?}", node.address, node.state, node.run_id);
    /// }
    /// // The operator knows that this one has forgotten nothing.
    /// redlock.trust_node("10.0.0.2:6379", "f0a1d1c0b5f54c5e8b1d6a1c2f3e4d5c6b7a8990")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trust_node(
        &self,
        address: impl AsRef<str>,
        run_id: impl AsRef<str>,
    ) -> Result<bool, OperatorError> {
        let (address, run_id) = (address.as_ref(), run_id.as_ref());
        calls::with_floor(self.trust(|engine| calls::trust(engine, address, run_id))?)
    }

    /// Calls [`trust_node`](Self::trust_node) for all servers that are connected now. Returns their run_ids. Nodes that
    /// connect later are not trusted. If this handle uses fencing tokens, the result leaves out trusted nodes that have
    /// not confirmed their counter floors.
    ///
    /// Call `trust_nodes` for nodes that no client has used for locks yet.
    /// With [`RestartGuard::Strict`](crate::RestartGuard) new nodes have no marker, as after a `FLUSHALL`. Without this
    /// call, new nodes grant no lock until the longest ttl of a lock has passed.
    ///
    /// The result is empty in a forked child, and after the engine has panicked.
    ///
    /// ```no_run
    /// use shearline::{Redlock, RestartGuard};
    ///
    /// let redlock = Redlock::builder()
    ///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
    ///     .restart_guard(RestartGuard::Strict)
    ///     .build()?;
    /// let trusted = redlock.trust_nodes(); // They were installed a minute ago.
    /// assert_eq!(trusted.len(), 3);
    /// # Ok::<(), shearline::BuildError>(())
    /// ```
    pub fn trust_nodes(&self) -> Vec<String> {
        let trusted = self.trust(|engine| Ok::<_, Refusal>(calls::trust_all(engine)));
        trusted.map_or_else(|_| Vec::new(), calls::with_floors)
    }

    /// Calls `trust` on the engine, and writes the requests of the engine. If the nodes get counter floors, waits for
    /// the outcome.
    fn trust<T, E: From<Refusal>>(
        &self,
        trust: impl FnOnce(&mut Engine) -> Result<(T, Option<RoundId>), E>,
    ) -> Result<Trusted<T>, E> {
        let shared = self.shared();
        let mut section = shared.enter_call()?;
        let (trusted, round) = trust(&mut section.engine)?;
        section.ask();
        let Some(round) = round else {
            shared.flush(section);
            return Ok((trusted, Vec::new()));
        };
        let slot = Arc::default();
        section
            .callers
            .open(round, Arc::clone(&slot), WaitsAs::Thread);
        let outcome = shared.wait_for(Some(section), &slot, Times::now(Wait::Forever))?;
        Ok((trusted, calls::without_floors(outcome)))
    }

    /// Writes the marker of this group to every node, and replaces any other marker. Call `reinit`
    /// after you have changed the number of nodes, or the [name](crate::Builder::group) of the group.
    /// Only [`RestartGuard::Strict`](crate::RestartGuard) needs markers.
    ///
    /// Call `reinit` once, before the first client of the new membership takes a lock. Before you call `reinit`, stop
    /// the clients of the old membership, unless the new nodes will refuse them. Each node gets a new marker, and a
    /// barrier for the longest time that a lock of either membership may last. No lock is granted until the barrier
    /// ends. If no client holds a lock, [`trust_nodes`](Self::trust_nodes) ends the barrier immediately.
    ///
    /// A client with the old membership gets [`LockError::OtherGroup`](crate::LockError::OtherGroup) from every
    /// node of the new membership. Removed nodes keep their old marker. If the removed nodes are a majority of the old
    /// nodes, stop them too. If you do not stop these nodes, clients of the old membership could continue with the
    /// removed nodes alone.
    ///
    /// The call waits up to one connect timeout for the nodes.
    ///
    /// # Errors
    ///
    /// Returns [`OperatorError::NoQuorum`], and changes nothing, if a node is unreachable or unusable.
    /// Returns [`OperatorError::Unconfirmed`] if not all nodes have answered. After `Unconfirmed`, call `reinit` again.
    /// Returns [`OperatorError::Invalid`], [`OperatorError::Saturated`], [`OperatorError::Forked`]
    /// or [`OperatorError::Closed`] if nothing was sent.
    ///
    /// ```no_run
    /// use shearline::{Redlock, RestartGuard};
    ///
    /// let five = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"]; // They were three.
    /// let redlock = Redlock::builder()
    ///     .nodes(five)
    ///     .restart_guard(RestartGuard::Strict)
    ///     .build()?;
    /// redlock.reinit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reinit(&self) -> Result<(), OperatorError> {
        let shared = self.shared();
        let reinit = shared.tracer.reinit();
        reinit.run(|_| {
            calls::reinitialised(shared.run(
                &Arc::default(),
                Times::now(Wait::Forever),
                Engine::reinit,
            )?)
        })
    }
}
