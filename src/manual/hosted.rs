//! Hosted services, proxies, and servers that are like Redis: what is known, and what is unsafe.
//!
//! **If in doubt**: run three small servers of your own ([`operating`](super::operating)). They cost
//! little, and nothing on this page has to be asked of them.
//!
//! **No service and no product on this page was tested with this library.** What is said of them is from
//! their documentation, their source, or an issue, with the address. Documents change: what counts is
//! what the service in front of you does. What is said of this library is from its code.
//! Where a test shows it, the test is named.
//!
//! **TLS**: with the feature `tls`, and `rediss://` in the URL ([`tls`](super::tls)). Where a service has a
//! certificate of an authority of its own, name that (`?ca=`); none of them was tried. A tunnel on your side, such
//! as `stunnel`, has to end the connection on your side when the server ends its own: otherwise a restart is not
//! noticed.
//!
//! **Tokens**: where the password is a token that lasts some minutes, `Builder::credentials` is asked for
//! the present one before each connection.
//!
//! # What a node has to be
//!
//! 1. One server of its own. Three databases of one service on the same machines are one node.
//! 2. Not a replica, and no part of a cluster.
//! 3. Either it has no replica that takes its place, or it loses no write that it has answered.
//!    Replication is asynchronous: the newest locks are not on the replica yet
//!    ([redis.io](https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/)). `WAIT` does not
//!    change that ([redis.io](https://redis.io/commands/wait)).
//! 4. Its policy is `noeviction`, or its memory is never full.
//! 5. It answers `INFO server` and `INFO replication` itself, so that restarts are noticed.
//! 6. It runs scripts, or transactions (`WATCH`, `MULTI`, `EXEC`), one at a time for each key. With `DELIFEQ`
//!    (Valkey 9), `DELEX` (Redis 8.4) or `SET .. IFEQ` (Valkey 8.1) alone locks can be had, but not extended.
//!
//! `Redlock::nodes` shows what a node says: without [`run_id`](crate::NodeStatus::run_id) no restart is
//! noticed by it, [`evicts_locks`](crate::NodeStatus::evicts_locks) is the policy, and
//! [`waking`](crate::NodeStatus::waking) says how waiters learn of a release.
//!
//! # What a service may not know
//!
//! [`permissions`](super::permissions) lists the commands. A service answers `NOPERM` or `unknown command` to
//! those that it does not allow. Both cost the same:
//!
//! | unknown | what follows | test |
//! | --- | --- | --- |
//! | `CLIENT` | Locks as usual. Waiters look from time to time: [`Waking::Refused`](crate::Waking::Refused). | `waiting::a_server_that_does_not_know_client_is_looked_at_from_time_to_time`, `embedded::locks::nodes_that_know_neither_client_nor_info_serve_locks` |
//! | `INFO` | Locks as usual. **A restart that forgets locks is not noticed, and two clients can hold one lock.** Two addresses of one server are taken for two nodes. Nothing is known of eviction. Where `HELLO` is unknown too, a replica is noticed only when it refuses a write. | `embedded::locks::a_restart_of_nodes_without_info_is_not_noticed` |
//! | `INFO`, with [`RestartGuard::Strict`](crate::RestartGuard::Strict) | No lock: [`Unusable::NoRunId`](crate::Unusable::NoRunId). | `embedded::locks::nodes_without_info_are_refused_by_a_strict_guard` |
//! | `CONFIG` | Nothing, but that with `Strict` a restarted node always waits. | `readme::the_acl_line_of_a_strict_guard_suffices_and_is_the_least` |
//! | `HELLO`, or only its version 3 | The connection speaks RESP2: [`Waking::Resp2`](crate::Waking::Resp2). | `waiting::a_server_that_speaks_only_resp2_is_looked_at_from_time_to_time`, `node::handshake::server::tests::what_hello_says_decides` |
//! | `SCRIPT` | Scripts are sent as text. The first lock over a connection takes a round trip more, but after `NOPERM`. | `engine::tests::permissions::a_node_without_the_scripts_is_not_asked_about_their_digests` |
//! | `EVAL` | Locks without scripts: see [`permissions`](super::permissions#without-scripts). No lock where there is no other way to release one. With `Strict`: [`Unusable::NeedsScripts`](crate::Unusable::NeedsScripts). | `engine::tests::ways::detected::a_node_that_refuses_scripts_is_asked_how_it_releases_and_grants_the_lock`, `permissions::a_user_who_may_not_release_gets_no_lock` |
//! | `WATCH`, `MULTI` or `EXEC`, and `EVAL` | Locks only where there is a native release, and no extension. | `engine::tests::ways::a_node_without_any_way_is_unusable_and_asked_again` |
//!
//! A server that answers no question of the handshake at all, or closes the connection at one, is never
//! ready. `HELLO` may be refused in any words that begin with no other code than `ERR`, `NOPROTO` or `NOPERM`; scripts in words that say so,
//! such as `unsupported command 'eval'`, `bad lua script for redis cluster` or `EVAL is disabled`, and in any words
//! by a service that refuses `SCRIPT LOAD` in such words too (`permissions::own_words::locks_are_had_without_scripts_that_are_refused_in_any_words`). What a service
//! refuses otherwise stands in the report ([`NodeReport::words`](crate::NodeReport::words)).
//!
//! If `INFO` is unknown and you want the service all the same, it must not forget: see
//! [`operating`](super::operating#restarts-must-not-forget), 3 and 4.
//!
//! # What a failover does
//!
//! | what happens | [`Observed`](crate::RestartGuard::Observed) | [`Strict`](crate::RestartGuard::Strict) |
//! | --- | --- | --- |
//! | The server restarts, and connections end. | Clients that were connected see another `run_id`: the node does not vote for `max_ttl`. Others see its uptime, if `max_ttl` is set. | All clients see it. |
//! | A replica takes its place at the same address, and connections end. | Clients that were connected see another `run_id`. **Others do not notice**: the replica has been up for long. | All clients see it: the marker is of another `run_id`. |
//! | The same behind a proxy that keeps the connections of its clients. | **No client notices**, unless a command is answered by `READONLY`, `LOADING` or `MASTERDOWN`. | A server without data is noticed. **A replica with a copy of the marker is not.** |
//! | The old master is put back, after it has followed its replica. | Only clients that were connected before and after notice. | The same. |
//!
//! So a service that fails over is unsafe with `Observed`, and a proxy that hides it is unsafe with both.
//! [`guarantees`](super::guarantees) has the conditions.
//!
//! # What else services do
//!
//! * **They close idle connections.** This library sends nothing on an idle connection, and TCP keepalive
//!   is no command to a server. A connection that was closed is made again by itself, with a handshake. That
//!   costs no lock, and the node votes as before if it is the same server. An attempt that finds all connections closed
//!   waits for new ones: for the connect timeout, and half of its ttl at most.
//! * **They replace machines** for maintenance. That is a restart without memory. Two of three nodes that
//!   are replaced within `max_ttl` leave no majority: give them different maintenance windows.
//! * **They count keys of a script.** Every script here names its keys. It is one key, the name of the
//!   lock. With `Strict` there are two more, `shearline:marker` and `shearline:barrier`, in other slots of a
//!   cluster: a proxy in front of several shards may refuse those scripts.
//! * **They have other texts for errors.** The first word of an error decides; of `ERR` the words
//!   `unknown command` too, and what is said of scripts. Any other error is a refusal that is tried again, and gives no lock.
//! * **They run commands on many threads.** A release compares and deletes. If another command can come
//!   between the two, it may delete a lock of another client.
//!
//! # Amazon
//!
//! | service | known | here |
//! | --- | --- | --- |
//! | ElastiCache, one node, cluster mode disabled | `CONFIG` is unavailable; no other command that is needed here is on that list ([list](https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/ClientConfig.RestrictedCommands.html)). A cluster of one node loses its data when it fails ([replication](https://docs.aws.amazon.com/hi_in/AmazonElastiCache/latest/dg/Replication.md)). The default policy evicts keys with an expiry ([gitlab-environment-toolkit#833](https://gitlab.com/gitlab-org/gitlab-environment-toolkit/-/issues/833)). `timeout` closes idle connections if it is set ([timeout](https://docs.amazonaws.cn/en_us/AmazonElastiCache/latest/dg/BestPractices.Clients.Redis.ServerTimeout.html)). | Three of these, with `noeviction`, are servers of the kind that this library is made for. |
//! | ElastiCache with replicas | Replicas get writes asynchronously ([scaling](https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/Scaling.RedisReplGrps.html)), and one of them takes the place of a primary that fails, under the same name ([failover](https://docs.amazonaws.cn/en_us/AmazonElastiCache/latest/dg/AutoFailover.md)). | **Unsafe** with `Observed`. |
//! | ElastiCache for Valkey, durable | With synchronous writes no answered write is lost. With asynchronous writes up to 10 s of them are ([durability](https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/Durability.Options.html)). | Synchronous writes lose no lock by a failover. Asynchronous: **unsafe** with `Observed`. In cluster mode it is refused. |
//! | ElastiCache, cluster mode enabled | Data is in shards. | Refused: [`Unusable::Mode`](crate::Unusable::Mode). |
//! | ElastiCache Serverless | TLS is always on ([TLS](https://docs.aws.amazon.com/AmazonElastiCache/latest/dg/in-transit-encryption.html)). | Only with `rediss://`. Refused if it says that it is a cluster. |
//! | MemoryDB | A write is in a log in several zones before it is answered, and failovers keep that ([consistency](https://docs.aws.amazon.com/memorydb/latest/devguide/consistency.html)). `CONFIG` is unavailable ([list](https://docs.aws.amazon.com/memorydb/latest/devguide/restrictedcommands.html)). Data is in shards ([faq](https://aws.amazon.com/memorydb/faqs)). | Its failover loses no lock, but a node that says that it is a cluster is refused. |
//!
//! # Google
//!
//! | service | known | here |
//! | --- | --- | --- |
//! | Memorystore for Redis, basic tier | It is one server ([tiers](https://docs.cloud.google.com/ruby/docs/reference/google-cloud-redis-v1beta1/0.17.0/Google-Cloud-Redis-V1beta1-Instance-Tier)). `CLIENT` and `CONFIG` are blocked ([constraints](https://cloud.google.com/memorystore/docs/redis/product-constraints)), and answered by `unknown command` ([bull#1210](https://github.com/OptimalBits/bull/pull/1210)). `INFO` is answered ([redis_exporter#315](https://github.com/oliver006/redis_exporter/issues/315)). The default policy is `volatile-lru` ([configuration](https://docs.cloud.google.com/memorystore/docs/redis/redis-configs)). | Locks with `noeviction`. Waiters look from time to time. |
//! | Memorystore for Redis, standard tier | A replica takes over. Up to 30 MB of changes may be missing there ([failover](https://cloud.google.com/memorystore/docs/redis/initiating-manual-failover)). | **Unsafe** with `Observed`. |
//! | Memorystore for Redis Cluster | Data is in shards ([overview](https://cloud.google.com/memorystore/docs/cluster/memorystore-for-redis-cluster-overview)). | Refused: `Unusable::Mode`. |
//! | Memorystore for Valkey, cluster mode disabled | `CLIENT TRACKING`, `CLIENT CACHING`, `EVAL` and `EVALSHA` are allowed. What is not on the list is answered by `NOPERM` ([commands](https://docs.cloud.google.com/memorystore/docs/valkey/supported-commands)). The default policy is `volatile-lru` ([configuration](https://cloud.google.com/memorystore/docs/valkey/supported-instance-configurations)). Replicas are optional ([replicas](https://docs.cloud.google.com/memorystore/docs/valkey/ha-and-replicas.md.txt)). | Without replicas and with `noeviction`, as one server. With replicas: **unsafe** with `Observed`. |
//!
//! # Azure
//!
//! | service | known | here |
//! | --- | --- | --- |
//! | Cache for Redis, Basic | It is one server, behind a load balancer ([failover](https://learn.microsoft.com/en-us/azure/azure-cache-for-redis/cache-failover)). `CONFIG` is answered by `unknown command` ([configuration](https://github.com/MicrosoftDocs/azure-docs/blob/00e046fdd31b252b88de7f61be9023afc3dd5b31/articles/azure-cache-for-redis/cache-configure.md)). Idle connections are closed after 10 minutes ([connections](https://github.com/MicrosoftDocs/azure-docs/blob/0067d5811ca9162e0477a3ca9d357f340e9e8887/articles/azure-cache-for-redis/cache-best-practices-connection.md), of 2021). All tiers are to be retired (first page). | With `noeviction`, as one server. |
//! | Cache for Redis, Standard and Premium | Two servers, with asynchronous replication ([architecture](https://learn.microsoft.com/en-us/azure/redis/architecture)). The load balancer leads to the primary. | **Unsafe** with `Observed`. |
//! | Managed Redis | It is Redis Enterprise (same page). A policy decides whether clients are connected to shards, to a proxy, or to a database that is not sharded ([policies](https://learn.microsoft.com/en-us/azure/redis/choose-clustering-policy)). With high availability a replica takes over ([reliability](https://docs.azure.cn/en-us/redis/plan-reliability-and-durability)). The default policy of eviction is `volatile-lru` ([database](https://learn.microsoft.com/en-ca/dotnet/api/azure.resourcemanager.redisenterprisecache.databasedata.evictionpolicy?view=azure-dotnet-preview)). The port without TLS has to be enabled ([faq](https://learn.microsoft.com/en-us/azure/azure-cache-for-redis/managed-redis/managed-redis-management-faq)). | As Redis Cloud, below. |
//!
//! # Redis Cloud, Redis Software, Upstash
//!
//! | service | known | here |
//! | --- | --- | --- |
//! | Redis Cloud, Redis Software | Clients talk to a proxy, and it hides what happens to the servers behind it ([proxy](https://redis.io/blog/redis-enterprise-proxy/)). `INFO` has other fields than in Redis, and scripts cannot ask it ([commands](https://redis.io/docs/latest/operate/rs/references/compatibility/commands/server/)). `CLIENT TRACKING` needs RESP3 and a database of 7.4 or newer ([caching](https://redis.io/docs/latest/operate/rs/8.0/references/compatibility/client-side-caching/)). The default policy is `volatile-lru` ([eviction](https://redis.io/docs/latest/operate/rc/databases/configuration/data-eviction-policies/)). | It is not known whether the proxy says which server is behind it. **With replication: unsafe.** Without it, a server that restarts behind the proxy is noticed only with `Strict`, and only if `run_id` is there. With several shards the scripts of `Strict` may be refused, because of their three keys. |
//! | ... Active-Active | Several databases take writes, and merge them ([develop](https://redis.io/docs/latest/operate/rs/7.8/databases/active-active/develop/)). | **Unsafe.** |
//! | Upstash | TLS cannot be switched off ([connect](https://upstash.com/docs/redis/howto/connectclient)). Replicas get writes asynchronously, another leader is elected if one fails, and after a partition the last writer wins ([consistency](https://upstash.com/docs/redis/features/consistency.md)). A script runs alone ([eval](https://upstash.com/docs/redis/commands/scripting/eval)). There is no eviction unless it is enabled ([eviction](https://upstash.com/docs/redis/features/eviction)). `replication` is not among the sections of `INFO` that it lists ([info](https://upstash.com/docs/redis/commands/server/info.md)). | **Unsafe**: locks that were answered can be lost, and it is not known whether a client can notice. |
//!
//! # Dragonfly, KeyDB
//!
//! | server | known | here |
//! | --- | --- | --- |
//! | Dragonfly | It runs a script as one step, unless the flag `disable-atomicity` is set, for one script or by default ([scripting](https://dragonflydb.io/docs/managing-dragonfly/scripting)). `CLIENT TRACKING` with RESP3 since 1.14 ([tracking](https://dragonflydb.io/docs/command-reference/server-management/client-tracking)). `INFO` has no `run_id`; its `master_replid` is new at each start; in its cache mode `maxmemory_policy` is `eviction` ([source](https://github.com/dragonflydb/dragonfly/blob/f8eca6d0b/src/server/server_family.cc)). A failover can lose answered writes ([wait](https://www.dragonflydb.io/docs/command-reference/generic/wait)). | One server without replicas, not in cache mode, without that flag. `Observed` goes by `master_replid` and uptime. `Strict` is refused. Two addresses of one server are not noticed. |
//! | KeyDB | A fork of Redis 6 with several threads; scripts are atomic ([readme](https://github.com/Snapchat/KeyDB)). Scripts cannot ask what the user may do (not in its source), as in Redis 6.2. | One server without replicas, like Redis 6.2. |
//! | KeyDB, `active-replica` or `multi-master` | Both sides take writes, and the newest wins ([replication](https://docs.keydb.dev/docs/active-rep), [several masters](https://docs.keydb.dev/docs/multi-master)). A side that has a master gives its role as `active-replica` ([source](https://github.com/Snapchat/KeyDB/blob/603ebb27f/src/networking.cpp)). | **Unsafe.** A side that has a master is refused: [`Unusable::Replica`](crate::Unusable::Replica). |
//!
//! # Sentinel, Cluster, proxies
//!
//! | set-up | known | here |
//! | --- | --- | --- |
//! | Sentinel, of Redis or Valkey | It promotes a replica, and replication is asynchronous ([redis.io](https://redis.io/learn/operate/redis-at-scale/high-availability/basic-replication), [valkey.io](https://valkey.io/topics/replication)). | This library asks no Sentinel where the master is. A node that becomes a replica is refused (`refusal::a_replica_is_unusable_and_the_others_go_on`). An address that follows the master: **unsafe** with `Observed`. |
//! | Redis Cluster, Valkey Cluster | Replication is asynchronous, and answered writes can be lost ([valkey.io](https://valkey.io/topics/cluster-spec)). Keys of one command have to be in one slot (same page). | Refused (`refusal::a_cluster_node_is_unusable_and_the_others_go_on`). `MOVED` is never followed. |
//! | Envoy | It prefers availability to consistency, and spreads keys over servers ([envoy](https://www.envoyproxy.io/docs/envoy/latest/_sources/intro/arch_overview/other_protocols/redis.rst.txt)). It does not know `INFO` ([envoy#38517](https://github.com/envoyproxy/envoy/issues/38517)), answers `TIME` itself ([source](https://github.com/envoyproxy/envoy/blob/0280db56233cb6e5482b58a61f851bcc838c1980/source/extensions/filters/network/redis_proxy/command_splitter_impl.cc)), and refused `HELLO` by `unsupported command` in older versions ([envoy#17571](https://github.com/envoyproxy/envoy/issues/17571)). | **Unsafe**: no restart is noticed, and the clock that is watched is Envoy's. Older versions are spoken to over RESP2. |
//! | twemproxy | It closes a connection at a command that it does not know ([twemproxy#113](https://github.com/twitter/twemproxy/issues/113)); `HELLO` is one ([go-redis#2616](https://github.com/redis/go-redis/issues/2616)). | Never ready. |
//! | A TCP proxy, a load balancer | It passes bytes on. | Safe in front of one server if it ends both connections together. In front of several it is a failover that may be hidden. Release and `SET` go over one connection, so their order is kept. |
//!
//! Tests: `faults::refusing::servers_that_may_evict_locks_are_named`,
//! `strict::nodes_that_forget_do_not_make_two_holders`,
//! `guard::a_node_that_forgot_does_not_vote_before_every_lock_is_over`.
