//! Stories of valkey-server alone, and of servers of both kinds together.

use crate::face::{Which, at, over};
use crate::servers::{Cluster, LONG, Options, Server};

/// Locks also work on Valkey without its Lua module.
#[test]
fn locks_work_on_valkey_without_lua() {
    not_with!(
        Acl | NoScripts | Valkey81 | Valkey90,
        "needs +delifeq besides, and a server whose Lua is a module"
    );
    let options = Options::valkey().arguments(["--enable-module-command", "yes"]);
    let cluster = Cluster::with(3, &options);
    cluster.run("MODULE UNLOAD lua");
    for which in Which::BOTH {
        let key = which.key("no lua");
        let mut face = which.build(over(&cluster));
        let lock = face.try_lock(&key, LONG).expect("free");
        face.unlock(lock).expect("held");
        face.assert_gone(&cluster, &key);
    }
}

/// Each node is detected separately: the command of one kind is not sent to the other.
#[test]
fn redis_and_valkey_work_together() {
    let redis = [Server::start(), Server::start()];
    let valkey = Server::with(&Options::valkey());
    for which in Which::BOTH {
        let key = which.key("both");
        let urls = [redis[0].url(), valkey.url(), redis[1].url()];
        let mut face = which.build(at(urls));
        let mut lock = face.try_lock(&key, LONG / 2).expect("free");
        face.extend(&mut lock, LONG).expect("held");
        face.unlock(lock).expect("held");
        for server in redis.iter().chain([&valkey]) {
            let mut raw = server.raw();
            crate::servers::eventually("no key is left", || {
                face.settle();
                (!raw.exists(key.as_bytes())).then_some(())
            });
        }
    }
}
