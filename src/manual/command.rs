//! The command `shearline`: locks for scripts, and what operators see and do.
//!
//! It is a package of its own, `shearline-cli`: `cargo install shearline-cli`, or `cargo install --path cli` in
//! a clone. Each command has its help (`shearline lock --help`) and its manual page
//! (`shearline man lock | man -l -`). `shearline completions bash` prints completions, also for zsh and fish.
//!
//! A binary that needs nothing of the system (some 6 MB): `rustup target add x86_64-unknown-linux-musl`, then
//! `cargo install shearline-cli --target x86_64-unknown-linux-musl`. That needs a C compiler for musl, such as that of
//! `musl-tools`; `--no-default-features` needs none, and has no `rediss://`.
//!
//! | command | what it does |
//! | --- | --- |
//! | `run NAME.. -- COMMAND..` | Runs a command while it holds the lock, or one lock on several names. Extends the lock, and ends the command if the lock is lost. |
//! | `lock NAME` | Takes a lock and prints it as one line of text. |
//! | `extend LOCK` | Extends it, and prints the line that replaces the old one. |
//! | `unlock LOCK` | Releases it. |
//! | `break NAME` | Ends a lock whose holder is gone or hangs (`Redlock::break_lock`). |
//! | `status NAME` | Says who holds a lock, for how long by a majority, and which nodes disagree. |
//! | `watch NAME` | The same in a line, and again at each change. |
//! | `nodes [NAME]` | Says which nodes would vote for a program that begins now, and why the others would not, and what the user of each node may do. With `--counters`: how many counters of fencing tokens each has. |
//! | `check` | Says by its status whether locks can be had, for monitoring. |
//! | `reinit` | Makes the nodes a new cluster, for a strict guard (`Redlock::reinit`). |
//! | `demo` | Shows the lock at work; needs no server. |
//! | `help [COMMAND]` | Prints the help of all commands, or that of one: as `--help` does. |
//! | `man`, `completions` | Print the pages and scripts for your system. |
//!
//! # Which nodes
//!
//! `--node URL`, once for each, or `SHEARLINE_NODES` with the URLs separated by commas. Passwords belong into
//! the variable: other users of the machine can read the arguments of a command. A comma in a password is written as
//! `%2C`, and the scheme (`redis://`) is only left out where there are no credentials. Use the same nodes in the
//! same order everywhere: a lock that is handed on names its nodes by their places.
//!
//! A command meets its nodes for the first time each time it is called. So `--max-ttl` is always set, to 60 s
//! if you do not say otherwise: a node that has not been up for as long may have forgotten a lock, and does
//! not vote yet ([`RestartGuard`](crate::RestartGuard)). Where you know that no lock can be alive that it has
//! forgotten, as on servers that were just installed, `--trust` has it vote at once. It is about the servers
//! that run when the command begins: a node that is connected later is trusted if its server was up before,
//! and waits if it was started after that. (With `--guard strict`, where trust is written on the node and
//! holds for all clients, only nodes that are connected at the beginning are trusted.)
//!
//! The vote of a node is waited for 500 ms (`--node-timeout`), and a connection for a second (`--connect-timeout`). Nodes that
//! do not answer are waited for until then before a command begins, and twice as long again with `--trust`, and with
//! `--guard strict` where `--max-ttl` is not given. `--wait` counts from the beginning of the command: if nodes do not
//! answer, it gives up after that time, and after a connect timeout at the earliest. At its end a command waits for the
//! release: a node timeout until a majority has answered, and as long again, two seconds at most, for the other nodes
//! that may have a key.
//!
//! `--without-scripts`, or `SHEARLINE_WITHOUT_SCRIPTS=true`, runs no script on the nodes
//! ([`Builder::without_scripts`](crate::Builder::without_scripts)).
//!
//! # A configuration file
//!
//! `--config FILE`, or `SHEARLINE_CONFIG`: what would be the same in every call. An option on the command line
//! comes first, then `SHEARLINE_NODES` and `SHEARLINE_WITHOUT_SCRIPTS`, then the file. Keys that are unknown are refused.
//!
//! ```toml
//! nodes = ["rediss://10.0.0.1", "rediss://10.0.0.2", "rediss://10.0.0.3"]
//! ca = "/etc/shearline/ca.pem"
//! user = "locker"
//! password-file = "/etc/shearline/password"
//! max-ttl = "5m"
//! ttl = "30s"
//! ```
//!
//! Further keys are `cert`, `key`, `guard`, `cluster`, `node-timeout`, `connect-timeout`, `lock-delay` and `owner`, as the options of these names,
//! and `without-scripts` and `fenced`, which are `true` or `false`.
//! `user`, `password-file`, `ca`, `cert` and `key` hold for every URL that does not say otherwise, wherever it comes from:
//! the file, `SHEARLINE_NODES` or `--node`. They are options too.
//! The file with the password is read again before each connection, so that a password can be changed while a command
//! runs: on the nodes, then in the file. (What is no file, but a pipe, is read once.)
//! The command warns of a file with a password, or of the file of the password, if every user of the machine can read
//! it: `chmod o= FILE`. With `--strict-files` it refuses such a file. (Files that are mounted into a container are
//! readable for all.)
//!
//! # A command under a lock
//!
//! ```sh
//! shearline run -w 10s --report /run/report.json report -- make report
//! ```
//!
//! `shearline run --help` says what is promised of the command and all that it starts, and what is not. If somebody
//! deletes the keys of the lock on a majority, another can have it at once; the command is killed two round trips later. Its
//! status is the command's. By that alone nobody can tell our 75 from the command's: `--report` writes one
//! line of JSON, to a file or a descriptor, also if the configuration is wrong. (Not if the arguments cannot be
//! parsed: nobody knows then where to.)
//!
//! With several names `run` takes one lock on all of them: on each node all or none, so that it never holds one name
//! while it waits for another, whatever the order of the names (`Redlock::lock_all`). The command finds the names, one a
//! line, in `SHEARLINE_RESOURCES`, and the first in `SHEARLINE_RESOURCE`:
//!
//! ```sh
//! shearline run account:1 account:2 -- transfer
//! ```
//!
//! With `--shared` many runs hold the lock at the same time, and a run without it waits until all of them have released
//! it; those that come later wait behind it ([shared locks](crate::manual::holders#shared-locks)):
//!
//! ```sh
//! shearline run --shared document:7 -- make report    # Beside others.
//! shearline run document:7 -- edit                    # Alone.
//! ```
//!
//! With `--permits 4` at most four runs hold a permit of the name at the same time. Each finds the number of its permit,
//! from 0 to 3, in `SHEARLINE_SLOT`, which no other run has meanwhile. All runs of a name give the same number of permits;
//! another number is refused with status 75 while permits are held ([permits](crate::manual::holders#permits)):
//!
//! ```sh
//! shearline run --permits 4 gpu -- sh -c 'CUDA_VISIBLE_DEVICES=$SHEARLINE_SLOT exec train'
//! ```
//!
//! Shared locks and permits are on one name, and need nodes that run scripts.
//!
//! Before it starts the command, `run` extends the lock once. A user of the nodes may be permitted to take locks and
//! not to extend them, and the command would be ended halfway. If no majority extends the lock, nothing is started: the
//! status is 78 at once if a permission is missing on too many nodes, and 69 when half of the ttl, or `--wait`, is over.
//!
//! The two processes that watch over the command run before other programs where they may (nice −20, which takes root or
//! `CAP_SYS_NICE`): a machine is at its busiest when processes have to be ended, and each of these needs a processor
//! to end. They sleep until then. The command keeps the priority that you gave it. An eighth of the ttl, 2 s at most, is
//! the time for the end of all its processes: enough for a hundred. A command that starts many hundreds belongs to a
//! service manager, which ends a control group as a whole (`KillMode=control-group` in a systemd unit).
//!
//! Every signal that can be handled is passed on to the command, the real-time ones too, except CHLD and those by which a
//! fault of `shearline` itself ends it (ILL, FPE, SEGV, BUS). Of one kind it keeps up to five that come at once.
//! At a terminal TSTP, TTIN and TTOU stop `shearline` itself. The first process of a container cannot be stopped: there
//! they are passed on, Ctrl-Z stops the command alone while the lock is kept, and a CONT to `shearline` continues it.
//!
//! In the foreground of a terminal the command reads from it, and gets the signals of its keys once: INT and QUIT are
//! passed on if another process has sent them. Ctrl-Z stops both, and nobody extends the lock then. `fg` goes on if the
//! ttl is not over. If it is, the command was killed in time, and the status is 74. A run that was started in the
//! background stays there: if its command reads from the terminal it is stopped, as any job, but `fg` does not continue
//! it. Give it another input (`</dev/null`). What asks it to end (TERM, HUP, INT, QUIT, or `--stop-signal`) reaches a
//! stopped command too: it is continued for that.
//!
//! When the lock is at risk, `run` says so and sends TERM to the command and all that it started. When the command has ended, it
//! sends TERM to the processes that outlive it, and KILL two seconds later. `--stop-signal` names another signal for both,
//! and `--grace` another time. A TERM that you send to `shearline` is passed on as TERM. With `--leave-children` the
//! processes that outlive the command live on without the lock, as with `flock -o`. Where `shearline` is the first process
//! of a container, or the main one of a unit with `KillMode=control-group` (the default), they end with it all the same.
//!
//! With `--again` a run that has lost its lock waits for it anew and starts the command again, until the command ends by
//! itself, or TERM, INT, QUIT or the signal of `--stop-signal` is passed on to it. HUP may ask it for a reload, so it does
//! not count. If the lock is not taken again, the run says why, and its status is 74: the command may be half done.
//!
//! Under systemd the command is not the main process of the unit. Give the unit `NotifyAccess=all`, so that its `READY=1`
//! counts. `LISTEN_PID` and `WATCHDOG_PID` name the command if they named `shearline`. PIPE has its default action in the
//! command, also in a unit, where `IgnoreSIGPIPE=yes` is the default: the runtime of Rust hides what it was at the start.
//! Where the command wants it ignored, run `sh -c 'trap "" PIPE; exec COMMAND'`.
//!
//! `examples/systemd` has a unit and a timer for a job of several machines that one of them runs, and
//! `examples/docker` an image with the command. (The image is not built by the tests.)
//!
//! | field of the report | |
//! | --- | --- |
//! | `version`, `command`, `resource` | As below; `command` is `run`. Of several names `resource` is the first. |
//! | `resources` | All names, in their order, if there are several: under `resources_hex` if one of them is not UTF-8. |
//! | `outcome` | `released`; `release_unconfirmed`, too few nodes confirmed it; `lost`, while it ran or at its end; `guardian_ended`, the part that watches the command was ended; `not_started`; `held`; `no_quorum`; `interrupted`; `failed` |
//! | `started` | `false` if nothing of the command has run. |
//! | `command_status`, `command_signal` | How the command ended; `null` if it did not, or not so. |
//! | `status` | The status of `shearline`. |
//! | `fencing_token` | The number that the command was given for its store, `null` if there was none. |
//! | `slot` | The number of its permit, if it had one. |
//! | `error` | Why the lock was not taken, why the command was not started, or how the lock was lost, as it is said on stderr without `-q`; `null` if the command ended under its lock, or a signal ended the wait. |
//!
//! # A script that holds a lock
//!
//! ```sh
//! lock=$(shearline lock -w 10s report) || exit
//! trap 'shearline unlock "$lock"' EXIT
//! first-step
//! next=$(shearline extend "$lock") || exit
//! lock=$next
//! second-step
//! ```
//!
//! (An `extend` that fails prints nothing: `lock` has to stay what it is, for the `unlock`. And a plain `sh`, such as
//! `dash`, does not run the trap when a signal ends the script, as `bash` does: there add
//! `trap 'exit 130' INT; trap 'exit 143' TERM; trap 'exit 129' HUP`. Without it the lock ends with its ttl.)
//!
//! Nobody extends the lock between these lines: a step that takes longer than the ttl works without it. The
//! text ends when the lock would have ended, so go on with the line that `extend` prints. It can go to another
//! machine, where the nodes are asked for how long the lock still lives before it is extended. Whoever has the
//! text can release the lock: it is as secret as the access to the nodes.
//!
//! A signal that ends `lock` has it release what its attempts have taken. A lock that cannot be printed is released too.
//!
//! # A lock whose holder is gone or hangs
//!
//! A lock ends with its ttl when its holder is gone. If that is long, or if the holder hangs and its lock is kept:
//!
//! ```sh
//! shearline break report
//! ```
//!
//! shows the holder and asks (`--yes` does not). Then each node has another token in place of the holder's, for as long
//! as it would have kept that. The holder cannot extend the lock: a `run` ends its command at once, or where nodes do not
//! tell when half of the ttl is left at the latest.
//! Others get the lock when its ttl is over, so no two have it. Until then `status` shows it with `(broken)` before the
//! label. `--now` deletes the keys instead: others get the lock at once, and two have it if the holder still works. Use that
//! only if you know that the holder has stopped. A majority of the nodes has to do it: with status 69 try again when
//! they answer. In a program it is `Redlock::break_lock`.
//!
//! # A number for the store
//!
//! No lock helps against a holder that was stopped for longer than its lock lasted, and goes on then. Only the store
//! can refuse it. With `--fenced`, `run` and `lock` take a lock that comes with a fencing token
//! ([`LockOptions::fenced`](crate::LockOptions::fenced)): a number that is larger than that of every lock of this
//! name before it.
//!
//! ```sh
//! shearline run --fenced report -- sh -c 'make report && upload --token "$SHEARLINE_FENCING_TOKEN"'
//!
//! lock=$(shearline lock --fenced report) || exit
//! upload --token "${lock#* }"
//! next=$(shearline extend "$lock") || exit
//! lock=$next
//! ```
//!
//! `run` gives it to the command as `SHEARLINE_FENCING_TOKEN`. `lock` and `extend` print it behind the lock, after a
//! space; `extend` and `unlock` take the whole line, or the lock alone. It stays the same until the lock is released.
//!
//! *The store has to compare and refuse*: it keeps the largest token that it has seen, as durably as its data, and
//! refuses a write that comes with a smaller one, in one step with the write. In SQL:
//! `UPDATE report SET body = ?, token = ? WHERE id = ? AND token <= ?`. No row changed: stop. A read that the write is
//! computed from has to bring the token too ([why, and more
//! recipes](crate::manual::safety#what-the-store-has-to-do)). A store that only writes the number down protects nothing.
//!
//! The nodes have to run scripts, and each needs a floor for these numbers. New servers have none: where a majority
//! gives no token the status is 78. Where you know that no node has given a larger token than the present time, which is
//! so unless a clock was set back, `--trust` gives the nodes that are connected a floor, for all clients. A node that has
//! restarted gives no token either. It gets its floor from the others, by a program or a `run --fenced` that goes on for
//! longer than `--max-ttl` after it has met it ([why](crate::manual::safety#repair)); calls that are over sooner do not
//! repair it. If a majority restarts before that, the status is 78 again. Plain locks need none of this, so `nodes`
//! and `check` do not tell: `shearline nodes --fenced` says which nodes give tokens. The first floors are given by
//! `shearline run --fenced --trust NAME -- true` ([operating](crate::manual::operating#nodes-that-give-fencing-tokens)).
//!
//! # While a lock is waited for
//!
//! After a second `run` and `lock` say on stderr who holds the lock and for how long, or which nodes do not
//! answer, and why. On a terminal they say it again whenever that changes. Elsewhere it is one line, and none
//! with `--wait`, which ends by itself and says then what it has met. With `-q` there is none.
//!
//! # Exit statuses
//!
//! | status | word | when |
//! | --- | --- | --- |
//! | 0 | `done` | What was asked for is done. `status`: somebody holds the lock. `nodes`: a majority would vote. `check`: every node would, and nothing is wrong. |
//! | 1 | `failed` | The answer is no: `status` or `break` found that nobody holds the lock, `check` that something is wrong with a node while a majority would vote. Or another failure. |
//! | 64 | `usage` | The arguments cannot be used: a name that is too long or given twice, `--shared` or `--permits` with several names, a ttl that is not longer than its drift, a text that is no lock. Nothing was sent. |
//! | 69 | `no_quorum` | Too few nodes could vote, or answered: they are away, in quarantine, or refuse to write (a full memory, too few replicas). Trying again may help. |
//! | 74 | `lost` | The lock was lost, or is not held any more. What it protects has to stop. |
//! | 75 | `held` | Not taken, because another holds it, or permits are held that were taken with another number of permits. `-E` sets another status. |
//! | 78 | `configuration` | Only an operator can repair it: no node is named, a URL is wrong, a password or permission is missing, `--fenced`, `--shared`, `--permits` or `--guard strict` is given with `--without-scripts`, a node belongs to another cluster, a majority gives no fencing tokens. |
//! | 126 | `not_started` | `run`: the command cannot be run. |
//! | 127 | `not_started` | `run`: the command does not exist. |
//! | 128 + N | `interrupted` | Ended by signal N, as shells count. |
//!
//! A failure is one line on stderr, which says what each node answered and what to do.
//!
//! # `--json`
//!
//! Prints one object on one line of stdout, for each state with `watch`. It begins with `version` (1) and
//! `command`. A version may get new fields; none changes its meaning or goes away. Times are whole
//! milliseconds (`_ms`), except for round trips. A name or label that is not UTF-8 stands in hexadecimal
//! digits under the name with `_hex` (`resource_hex`, `owner_hex`). What is not known is `null`.
//!
//! | command | fields |
//! | --- | --- |
//! | `lock`, `extend` | `resource`; `lock`, the text; `ttl_ms`; `valid_for_ms`; `fencing_token`, `null` without `--fenced` |
//! | `unlock` | `resource`; `deleted`, on how many nodes the key was deleted before a majority was certain |
//! | `status`, `watch` | `resource`; `state`: `held`, `shared` (by readers), `permits` (some are held), `free`, `split` (no majority has the same token) or `unknown`; `holder` of the lock, `null` or an object; `holders`, such objects for the holder of the lock, of shared locks or of permits; `nodes` |
//! | each of these holders | `owner`; `left_ms` (`null`: no expiry); `nodes`, how many have it; `kind`: `exclusive`, `shared` or `permit`; `slot`, counted from 0, and `permits` of a permit; `fencing_token`, `null` if it is not known |
//! | each of these `nodes` | `address`; `counts`, `false` if its answer does not count; `found`: `free`, `holder`, `copy` (a token that no majority has), `holders` (of shared locks or permits, with `holders`, how many), `other_type` or `unknown`; `left_ms` of a token; `owner` and `token` of a copy, a number that copies of one attempt share; `reason` if unknown |
//! | `nodes`, `check` | `can_lock`; `votes` and `needed`, numbers of nodes; `next_restart_ms`, after which a node may be restarted, `null` if one does not answer or refuses; `nodes`; `tried`, the name of the lock that was tried |
//! | each of these `nodes` | `address`; `votes`; `reason`, why it would not; `run_id`; `product`, such as `redis 7.0.15`; `uptime_s`, at least; `round_trip_us`; `marked_ttl_ms` and `barrier_ms`, with a strict guard; `evicts_locks`; `memory_percent`, how much of its `maxmemory` is used; `clock_steps`; with `--counters`: `counters`, how many counters of fencing tokens it has at least, and `uncounted`, why there may be more; what was tried |
//! | what `nodes` or `check` has tried | `may_lock`, whether its user may take and release the lock; `may_extend`; `missing`, what is to be permitted or repaired, or why it could not be tried; `waking`, how it wakes clients that wait for a lock: `push`, or `resp2` and `refused` if it does not; `releasing`, how it releases a lock: `script`, `delifeq`, `delex`, `set_ifeq` or `transaction` |
//! | `break` | `resource`; `holder`, whose lock it was: an object with `owner`, `left_ms`, `nodes`, `kind`, `slot`, `permits` and `fencing_token`, as with `status`; `broken`, on how many nodes; `free_in_ms`, after which it is free, 0 with `--now` |
//! | `reinit` | `nodes`, how many; `cluster` |
//! | a failure of any of them, also of its arguments | `status`; `outcome`, the word of the status; `error`, the line |
//!
//! # Permissions
//!
//! `shearline nodes` takes, extends and releases a lock on each node alone, and says for each what is missing
//! ([`permissions`](crate::manual::permissions)), how it releases a lock and whether it wakes clients that wait for
//! one. Nothing is left. Servers tell permissions by the name of a key. Without a name it is `lock:try:HOST:PID`, and
//! the node says so if its user may not use that: give a name then that the user may use and nobody does, as in
//! `shearline nodes report:try`. A lock that is held is left alone, and is not tried.
//!
//! # Colours
//!
//! On terminals; `NO_COLOR`, `CLICOLOR=0` and `TERM=dumb` switch them off, `CLICOLOR_FORCE=1` switches them on.
//!
//! # Monitoring
//!
//! `shearline check` takes a lock of its own on each node alone, as `nodes` does, and releases it: a server that greets may
//! refuse every write. Status 1 is a warning: locks can be had, and a node is down, in quarantine, refuses to write, uses
//! 80 % of its `maxmemory` or more, may evict locks, or had its clock stepped, or its user may not use the name that is tried
//! (give another: `shearline check report:try`). With 69 and 78 no lock can be had. It takes three seconds at most, and five with `--guard strict`. It asks as a program does that begins now: after the restart of a node it warns for as long as
//! `--max-ttl`.
