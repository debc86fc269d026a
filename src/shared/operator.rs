//! The calls for operators: inspecting and breaking locks, the state of the nodes, and trusting them.

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
use crate::engine::{self, Engine, NodeStatus, RoundId};
use crate::error::NodeOutcome;

impl Redlock {
    /// Asks every node about the lock on `resource`, and changes nothing. Returns whether the lock is free, who holds
    /// it and how much longer, which nodes disagree, and which tokens only a minority has.
    ///
    /// A majority decides. The result was true at some time between the call and its return, and may have changed
    /// since: it is for operators and logs. To hold a lock, [take it](Self::try_lock). To see whether a lock is still
    /// held, use [`LockGuard::confirm`](crate::LockGuard::confirm).
    ///
    /// It sends one command to each node, which reads the token and its expiry in one step, and waits until every node
    /// has answered. For a silent node it waits a node timeout:
    /// [`Builder::node_timeout`](crate::Builder::node_timeout), or by default 50 ms, or four round trips of a distant
    /// node. A user needs only the permissions for confirming a lock.
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
    /// [`OperatorError::NoQuorum`]: too few nodes answered; it says what each one said. [`OperatorError::Invalid`],
    /// [`OperatorError::Saturated`], [`OperatorError::Forked`], [`OperatorError::Closed`]: nothing was sent.
    pub fn inspect(&self, resource: impl AsRef<[u8]>) -> Result<Inspection, OperatorError> {
        let (shared, resource) = (self.shared(), resource.as_ref());
        shared.tracer.inspect(resource).run(|_| {
            let times = Times::now(Wait::Patience(shared.patience(Duration::MAX)));
            let ask = |engine: &mut Engine, now| engine.inspect(now, resource);
            calls::inspected(shared.run(&Arc::default(), times, ask)?)
        })
    }

    /// [`inspect`](Self::inspect) as a future, for any executor. Nothing is sent before the first poll.
    ///
    /// # Errors
    ///
    /// As [`inspect`](Self::inspect).
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
    /// It [asks](Self::inspect) for the holder. Then each node that has the holder's token replaces it by a token that
    /// no client has, and keeps the key for as long as it would have lived. So the holder cannot extend the lock any
    /// more.
    /// If the lock is [kept](crate::LockOptions::keep), the holder learns of this at once, or when half of its validity
    /// is left if the nodes send no notifications. Otherwise it learns of it when it extends the lock. Other clients
    /// are kept out until the holder must have stopped: [`Broken::free_in`] says how long that takes. Until then
    /// [`inspect`](Self::inspect) shows the lock, with `(broken)` before the owner. No promise of a lock is weakened.
    /// To free the lock sooner, see [`Breaking::AtOnce`].
    ///
    /// If too few nodes confirm it, try again: the progress of one try counts for the next.
    ///
    /// A lock on several resources is broken as a whole: its holder has lost it. The keys of the other resources are
    /// free when the holder learns of this, or when their ttl ends.
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
    /// [`OperatorError::NotHeld`], [`OperatorError::NotOurs`], [`OperatorError::NoQuorum`]: nothing was changed.
    /// [`OperatorError::Changed`], [`OperatorError::Unconfirmed`]: no majority replaced the token.
    /// [`OperatorError::Invalid`], [`OperatorError::Saturated`], [`OperatorError::Forked`], [`OperatorError::Closed`]:
    /// nothing was sent.
    pub fn break_lock(&self, resource: impl AsRef<[u8]>) -> Result<Broken, OperatorError> {
        let seen = self.inspect(resource.as_ref())?;
        self.break_seen(resource, &seen, Breaking::KeepOut)
    }

    /// Breaks the lock on `resource` that an [`inspect`](Self::inspect) has `seen`, and no other: a lock that was taken
    /// since is left alone. So a program can show an operator the holder and ask first. See
    /// [`break_lock`](Self::break_lock).
    ///
    /// # Errors
    ///
    /// As [`break_lock`](Self::break_lock).
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

    /// [`break_lock`](Self::break_lock) as a future, for any executor. Nothing is sent before the first poll.
    ///
    /// # Errors
    ///
    /// As [`break_lock`](Self::break_lock).
    pub async fn break_lock_async(
        &self,
        resource: impl AsRef<[u8]>,
    ) -> Result<Broken, OperatorError> {
        let seen = self.inspect_async(resource.as_ref()).await?;
        self.break_seen_async(resource, &seen, Breaking::KeepOut)
            .await
    }

    /// [`break_seen`](Self::break_seen) as a future, for any executor. Nothing is sent before the first poll.
    ///
    /// # Errors
    ///
    /// As [`break_lock`](Self::break_lock).
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

    /// Returns a [`Watch`] of `resource`, for operators and logs. It gives the holder, and then each change; the
    /// documentation of [`Watch`] describes the cost. All nodes are asked at once, as by [`inspect`](Self::inspect).
    /// Unlike an inspection, a watch gives a state even if too few nodes answer: such a state names no holder and is
    /// not free, and the silent nodes are [`Found::Unknown`](crate::Found).
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
    /// [`OperatorError::Invalid`]; [`OperatorError::Saturated`] while the handle has 4,096 watches;
    /// [`OperatorError::Forked`], [`OperatorError::Closed`]. Nothing is sent then.
    pub fn watch(&self, resource: impl AsRef<[u8]>) -> Result<Watch, OperatorError> {
        Watch::new(self.clone(), resource.as_ref())
    }

    /// Returns the status of every node now, in the order of the configuration. The statuses are meant for operators,
    /// not for decisions. Empty in a forked child, and after the engine has panicked.
    ///
    /// Costs an allocation and no I/O.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.look().unwrap_or_default()
    }

    /// Counts the counters of [fencing tokens](crate::LockOptions::fenced) on each node. A node keeps a counter for
    /// each name that was locked with a token, for a day ([`Builder::counter_ttl`](crate::Builder::counter_ttl)). Very
    /// many counters may fill its memory.
    ///
    /// Returns for each node, in the order of the configuration, the number of counters, and the reason if there may be
    /// more; `None` if that is all. Empty in a forked child, and after the engine has panicked.
    ///
    /// A node looks at all keys of its database, with `SCAN` in a script. It looks at 2,000 keys at a time, which takes
    /// one or two milliseconds. The call waits a node timeout for each such answer, as [`inspect`](Self::inspect) does,
    /// and ten seconds in all: then it returns [`NodeOutcome::TimedOut`]. If many keys are added or removed meanwhile,
    /// a node may count some twice. A user needs the permission `+scan`.
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

    /// Returns the counts and times of this handle and its clones, and what is waiting now: see [`Stats`]. Empty in a
    /// forked child, and after the engine has panicked.
    ///
    /// Costs some microseconds and allocations, and no I/O: exporters may call it every second.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let shared = self.shared();
        let section = shared.enter_call();
        section.map_or_else(|_| Stats::default(), |section| section.engine.stats())
    }

    /// Returns `Ok` if a majority of the nodes would vote now, or else what an operator has to repair: a wrong
    /// password, a server of the wrong kind, a node that is down. Call it at the start of a program, right after
    /// [`build`](crate::Builder::build), and stop if an operator is needed
    /// ([`Report::needs_operator`](crate::Report::needs_operator)). Other reasons may pass: new servers are in quarantine
    /// for [`max_ttl`](crate::Builder::max_ttl), and a call that takes a lock waits for its end.
    ///
    /// The first call that takes a lock finds a missing permission ([`Unusable::Permission`](crate::Unusable)), because
    /// permissions depend on the name of the lock. From then on `check` reports it too, until a later call finds it
    /// granted. A fault of one name (a key pattern that does not fit) or of one moment (`OOM`) is reported only by
    /// those calls.
    ///
    /// Sends nothing, and costs as much as [`nodes`](Self::nodes). A repair shows after the next attempt to connect to
    /// the node, at most two seconds later. A granted permission shows when a lock is asked for again.
    ///
    /// # Errors
    ///
    /// [`OperatorError::NoQuorum`]: too few nodes vote now. If
    /// [`needs_operator`](crate::Report::needs_operator) returns `true` for its report, no lock is granted before an
    /// operator has repaired the faults in the report. Otherwise the reasons may pass: nodes are down, silent, or in
    /// quarantine. [`OperatorError::Forked`], [`OperatorError::Closed`].
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

    /// Asserts that the server with this `run_id`, connected as the node at `address`, has forgotten no lock that is
    /// still alive. Its votes count from now on. Returns `true` if they did not count before because it had restarted.
    ///
    /// `address` is the configured address of the node, with or without credentials. `run_id` is the one that
    /// [`nodes`](Self::nodes) showed. If another server has come to the same address since, it is not trusted.
    ///
    /// Call it only if you know more than the [`RestartGuard`](crate::RestartGuard): the node wrote every lock to disk
    /// before it answered, or no client uses locks yet. If that is wrong, two clients can hold the same lock. It ends
    /// this quarantine; the next restart begins another. With any guard but
    /// [`RestartGuard::Strict`](crate::RestartGuard) it holds for this handle alone.
    ///
    /// The node also gets a counter floor for [fencing tokens](crate::LockOptions::fenced), for all clients: at least
    /// the present time, and the largest token that this handle has seen. You vouch for this floor: no older token of
    /// the node may be larger. The call waits for the node, for a connect timeout at most. If this handle uses fencing
    /// tokens, the user needs access to the keys `shearline:*`.
    ///
    /// With [`RestartGuard::Strict`](crate::RestartGuard) your word is written to the node and holds for all clients:
    /// the marker is updated without a barrier, and a standing barrier is removed. Other handles notice when they next
    /// ask the node: while their callers ask for locks, at most a second after they last heard of the barrier.
    ///
    /// # Errors
    ///
    /// [`OperatorError::NotTrusted`], which says why: no node has this address; it is not connected, and may restart
    /// before it is; another server answers there now, which the text names; the server does not tell its run_id; it
    /// belongs to another cluster ([`reinit`](Self::reinit)). Or it is trusted, but has not said that it wrote a counter
    /// floor. [`OperatorError::Forked`], [`OperatorError::Closed`].
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

    /// [`trust_node`](Self::trust_node) for all servers that are connected now. Returns their run_ids. It says nothing
    /// about nodes that connect later. If this handle was asked for a fencing token before, a node that has not said that
    /// it wrote its counter floor is left out, although it is trusted.
    ///
    /// Call it for nodes that no client has used for locks yet. With [`RestartGuard::Strict`](crate::RestartGuard) such
    /// nodes have no marker, as after a `FLUSHALL`. Without this call they grant no lock for as long as the longest
    /// lock may last.
    ///
    /// Empty in a forked child, and after the engine has panicked.
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

    /// Makes the engine `trust` nodes and writes its requests. If the nodes should get counter floors, waits for the
    /// outcome.
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

    /// Writes the marker of this group to every node, whatever marker it has. Use it after a change of the number of
    /// nodes, or of the [name](crate::Builder::cluster). For [`RestartGuard::Strict`](crate::RestartGuard) only.
    ///
    /// Call it once, when every client of the old membership has stopped or is about to be refused, and before the
    /// first client of the new one takes a lock. Each node gets a new marker, and a barrier as long as the longest lock
    /// of either membership may last. No lock is granted until the barrier ends. If no client holds a lock,
    /// [`trust_nodes`](Self::trust_nodes) ends it at once.
    ///
    /// A client with the old membership gets [`LockError::OtherCluster`](crate::LockError::OtherCluster) from every
    /// node of the new one. Nodes that are left out keep their old marker. If they are a majority of the old nodes,
    /// stop them too, or clients of the old membership continue with them alone.
    ///
    /// It waits for the nodes, for a connect timeout at most.
    ///
    /// # Errors
    ///
    /// [`OperatorError::NoQuorum`]: a node cannot be reached, or cannot serve, and nothing was changed.
    /// [`OperatorError::Unconfirmed`]: not all nodes have answered; call it again. [`OperatorError::Invalid`],
    /// [`OperatorError::Saturated`], [`OperatorError::Forked`], [`OperatorError::Closed`]: nothing was sent.
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
